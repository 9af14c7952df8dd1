"""What consumers of a group tell each other inside JoinGroup and SyncGroup: subscriptions and assignments.

The coordinator passes these bytes on unread, so they come from the other members, whatever client those run. A version
of two bytes goes in front. Version 1 adds what a member owns (KIP-429), version 2 the generation in which it was given
that (KIP-792), version 3 its rack (KIP-881); assignments have looked the same all along. A version from the future is
read as the last one known, which is what Java does and why no later version may take anything away.

Follows Kafka's ``ConsumerProtocolSubscription`` and ``ConsumerProtocolAssignment``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct as Packer
from typing import TypeVar

from ..errors import KafkaProtocolError
from ..types import TopicPartition
from .message import Message
from .schema import Struct, array, binary, int32, string

#: The protocol type of groups whose members speak this.
PROTOCOL_TYPE = "consumer"

_VERSION = Packer(">h")
M = TypeVar("M", bound=Message)


@dataclass(slots=True, kw_only=True)
class OwnedTopic(Struct):
    """Partitions of one topic that a member owns."""

    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolSubscription(Message):
    """What a member wants and has."""

    VERSIONS = (0, 3)

    topics: list[str] = array(string, "0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
    owned_partitions: list[OwnedTopic] = array(OwnedTopic, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@dataclass(slots=True, kw_only=True)
class AssignedTopic(Struct):
    """Partitions of one topic that a member is to read."""

    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolAssignment(Message):
    """What a member is given."""

    VERSIONS = (0, 3)

    assigned_partitions: list[AssignedTopic] = array(AssignedTopic, "0+")
    user_data: bytes | None = binary("0+", nullable="0+", default=None)


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None = None,
    owned: Iterable[TopicPartition] = (),
    generation_id: int = -1,
    rack_id: str | None = None,
) -> bytes:
    """Return a subscription in the highest version; who knows only lower ones reads what it knows."""
    owned_topics = [OwnedTopic(topic=topic, partitions=numbers) for topic, numbers in _by_topic(owned)]
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=owned_topics,
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return _encode(subscription)


def decode_subscription(data: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Read a subscription of any version.

    Raises:
        KafkaProtocolError: It is none.
    """
    version = _version(data, "subscription")
    try:
        return _decode(ConsumerProtocolSubscription, data, version)
    except KafkaProtocolError:
        if version == 0:
            raise
        # Some clients have called version 1 what ended with the fields of version 0.
        try:
            return ConsumerProtocolSubscription.decode(data, 0, _VERSION.size)
        except KafkaProtocolError:
            pass
        raise


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Return an assignment in the highest version."""
    topics = [AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions)]
    return _encode(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data))


def decode_assignment(data: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Read an assignment of any version. No bytes at all are one of nothing: what a member gets whom its leader forgot.

    Raises:
        KafkaProtocolError: It is none, or has a partition with a negative number.
    """
    if not len(data):
        return ConsumerProtocolAssignment()
    assignment = _decode(ConsumerProtocolAssignment, data, _version(data, "assignment"))
    for assigned in assignment.assigned_partitions:
        if assigned.partitions and min(assigned.partitions) < 0:
            raise KafkaProtocolError(f"assignment of partition {min(assigned.partitions)} of topic {assigned.topic!r}")
    return assignment


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return list(found.items())


def _encode(message: Message) -> bytes:
    version = message.VERSIONS[1]
    return _VERSION.pack(version) + message.encode(version)


def _version(data: bytes | memoryview, what: str) -> int:
    if len(data) < _VERSION.size:
        raise KafkaProtocolError(f"consumer {what} of {len(data)} bytes")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise KafkaProtocolError(f"consumer {what} of version {version}")
    return version


def _decode(cls: type[M], data: bytes | memoryview, version: int) -> M:
    return cls.decode(data, min(version, cls.VERSIONS[1]), _VERSION.size, ignore_trailing=True)
