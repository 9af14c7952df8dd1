"""The consumer embedded protocol: subscriptions and assignments inside JoinGroup and SyncGroup.

The coordinator forwards these bytes from other members, which may run any client. A two-byte version comes first.
Version 1 adds owned partitions (KIP-429), version 2 the generation in which they were assigned (KIP-792), version 3 the
member's rack (KIP-881); assignments are the same in all versions. A higher version is read as the highest known one, as
in Java's client: later versions only append fields.

Follows Kafka's ``ConsumerProtocolSubscription`` and ``ConsumerProtocolAssignment``.
"""

from collections.abc import Iterable
from contextlib import suppress
from struct import Struct as Packer

from ..errors import KafkaProtocolError
from ..types import TopicPartition
from .message import Message
from .schema import Struct, array, binary, int32, string

_VERSION = Packer(">h")


class AssignedTopic(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: list[str] = array(string, "0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
    owned_partitions: list[AssignedTopic] = array(AssignedTopic, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: list[AssignedTopic] = array(AssignedTopic, "0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None = None,
    owned: Iterable[TopicPartition] = (),
    generation_id: int = -1,
    rack_id: str | None = None,
) -> bytes:
    """Encode a subscription in the highest version; clients that support only lower ones ignore the newer fields."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=to_topics(sorted(owned)),
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return _encode(subscription)


def decode_subscription(data: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Decode a subscription of any version; raise KafkaProtocolError if the bytes are no subscription."""
    version = _version(data, "subscription")
    try:
        highest = min(version, ConsumerProtocolSubscription.VERSIONS[1])
        return ConsumerProtocolSubscription.decode(data, highest, _VERSION.size, ignore_trailing=True)
    except KafkaProtocolError:
        if version:  # Some clients write version 1 before bytes that end after the fields of version 0.
            with suppress(KafkaProtocolError):
                return ConsumerProtocolSubscription.decode(data, 0, _VERSION.size)
        raise


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Encode an assignment in the highest version."""
    assigned = to_topics(sorted(partitions))
    return _encode(ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=user_data))


def decode_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Decode an assignment of any version. Empty bytes, which a group leader may send, are an empty assignment.

    Raises:
        KafkaProtocolError: The bytes are no assignment, or a partition number is negative.
    """
    if not len(data):
        return ConsumerProtocolAssignment()
    version = min(_version(data, "assignment"), ConsumerProtocolAssignment.VERSIONS[1])
    assignment = ConsumerProtocolAssignment.decode(data, version, _VERSION.size, ignore_trailing=True)
    for assigned in assignment.assigned_partitions:
        if assigned.partitions and min(assigned.partitions) < 0:
            raise KafkaProtocolError(
                f"the assignment has the negative partition {min(assigned.partitions)} of topic {assigned.topic!r}"
            )
    return assignment


def to_topics(partitions: Iterable[TopicPartition]) -> list[AssignedTopic]:
    """Group partitions by topic, keeping the order of topics and of each topic's partitions."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return [AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in found.items()]


def _encode(message: Message) -> bytes:
    version = message.VERSIONS[1]
    return _VERSION.pack(version) + message.encode(version)


def _version(data: bytes | memoryview, what: str) -> int:
    if len(data) < _VERSION.size:
        raise KafkaProtocolError(f"consumer protocol {what} has {len(data)} bytes, too few for its version field")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise KafkaProtocolError(f"consumer protocol {what} has version {version}; versions start at 0")
    return version
