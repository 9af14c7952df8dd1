"""Check and convert the arguments of public calls.

Without these checks, an argument of a wrong type would raise only when a request is encoded: in a later call, which may
concern other partitions, too.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..config.values import ASYNC_DEF, INT32_MAX, INT64_MAX, is_async
from ..errors import IllegalArgumentError
from ..support.shown import shown
from ..types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from ..wire.primitives import STRING_MAX

#: The argument of ``commit`` and ``commit_async``: the next offset of each partition, or the last record processed.
ToCommit: TypeAlias = "Mapping[TopicPartition, OffsetAndMetadata | int] | ConsumerRecord[Any, Any]"


def topic_partition(tp: object) -> TopicPartition:
    """Return a TopicPartition from any tuple of topic and partition number, such as kafka-python's own class."""
    if not isinstance(tp, tuple) or len(tp) != 2 or isinstance(tp, ConsumerRecord):
        raise IllegalArgumentError(f"expected a TopicPartition(topic, partition), not {shown(tp)}")
    topic, number = tp
    if not isinstance(topic, str) or not topic.isascii() or not 0 < len(topic) < 250:
        raise IllegalArgumentError(f"{shown(tp)} is no TopicPartition: a topic is a str of 1 to 249 ASCII characters")
    if type(number) is not int or not 0 <= number <= INT32_MAX:
        is_number = isinstance(number, str) and number.isdecimal() and len(number) < 10
        instead = f": write TopicPartition({topic!r}, {int(number)})" if is_number else ""
        raise IllegalArgumentError(f"{shown(tp)} is no TopicPartition: a partition is an int from 0 on{instead}")
    return tp if isinstance(tp, TopicPartition) else TopicPartition(topic, number)


def topic_partitions(given: object, call: str) -> list[TopicPartition]:
    """Return the TopicPartitions of a collection in order, without duplicates; ``call`` names the method in errors."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, TopicPartition)):
        one = f": write [{shown(given)}]" if isinstance(given, TopicPartition) else ""
        raise IllegalArgumentError(f"{call} takes a collection of TopicPartition, not {shown(given)}{one}")
    return list(dict.fromkeys(map(topic_partition, given)))


def topic_name(topic: object, call: str) -> str:
    """Return ``topic``, or raise ``IllegalArgumentError`` if it is not a str; ``call`` is the method in the error."""
    if not isinstance(topic, str):
        instead = f": write {topic.decode(errors='replace')!r}" if isinstance(topic, bytes) else ""
        raise IllegalArgumentError(f"{call} takes a topic's name, a str, not {shown(topic)}{instead}")
    return topic


def offsets_to_commit(given: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit by partition, from a :data:`ToCommit`.

    The values of a mapping may also be of the classes that other clients use for offsets.

    Raises:
        IllegalArgumentError: ``given`` is no :data:`ToCommit`, or an OffsetCommit request cannot encode a value.
    """
    if isinstance(given, ConsumerRecord):
        tp = TopicPartition(given.topic, given.partition)
        return {tp: OffsetAndMetadata(given.offset + 1, "", given.leader_epoch)}
    if not isinstance(given, Mapping):
        raise IllegalArgumentError(
            f"commit takes {{TopicPartition: next offset}} or one ConsumerRecord, not {shown(given)}"
        )
    found = {topic_partition(tp): value for tp, value in given.items()}
    return {tp: _offset(tp, value) for tp, value in found.items()}


def _offset(tp: TopicPartition, value: Any) -> OffsetAndMetadata:
    if isinstance(value, ConsumerRecord) or hasattr(value, "headers"):
        raise IllegalArgumentError(
            f"{tp}: the offset to commit is the one after the record: write commit(record) or record.offset + 1"
        )
    offset, metadata = getattr(value, "offset", value), getattr(value, "metadata", "")
    epoch = getattr(value, "leader_epoch", -1)
    if not is_whole(offset, 0):
        raise IllegalArgumentError(f"{tp}: an offset is a whole number from 0 to 2**63 - 1, not {shown(offset)}")
    if epoch is not None and (not is_whole(epoch, -1) or epoch > INT32_MAX):
        raise IllegalArgumentError(f"{tp}: a leader epoch is a whole number from -1 to 2**31 - 1, not {shown(epoch)}")
    if not isinstance(metadata, (str, type(None))):
        raise IllegalArgumentError(f"{tp}: the metadata of an offset is a str, not {shown(metadata)}")
    try:
        size = len((metadata or "").encode())
    except UnicodeEncodeError as error:
        raise IllegalArgumentError(f"{tp}: the metadata of an offset cannot be written as UTF-8: {error}") from None
    if size > STRING_MAX:
        raise IllegalArgumentError(f"{tp}: the metadata of an offset has {size} bytes, more than {STRING_MAX}")
    return OffsetAndMetadata(offset, metadata or "", -1 if epoch is None else epoch)


def refuse_async(function: object, what: str) -> None:
    """Raise IllegalArgumentError if ``function`` is asynchronous: its coroutine would never be awaited."""
    if is_async(function):
        raise IllegalArgumentError(f"{what} is {ASYNC_DEF}")


def is_whole(value: object, least: int) -> bool:
    """Return whether ``value`` is an int (but not a bool) from ``least`` to the maximum of Kafka's INT64."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= INT64_MAX
