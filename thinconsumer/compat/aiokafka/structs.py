"""aiokafka's value types: its own classes, or classes of the same shape without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...types import ConsumerRecord as Record
from ...types import TopicPartition as OwnTopicPartition
from ...types import stored
from ..peer_types import AIOKAFKA

__all__ = ["ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"]


@dataclass
class AIOKafkaRecord:
    """A record; the fields are those of :class:`thinconsumer.ConsumerRecord`."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes | None]]


class OffsetWithMetadata(NamedTuple):
    """An offset to commit: the next one to read."""

    offset: int
    metadata: str


class OffsetWithTimestamp(NamedTuple):
    """A result of ``offsets_for_times``."""

    offset: int
    timestamp: int | None


TopicPartition: Any = AIOKAFKA.find("structs.TopicPartition", OwnTopicPartition)
ConsumerRecord: Any = AIOKAFKA.find("structs.ConsumerRecord", AIOKafkaRecord)
OffsetAndMetadata: Any = AIOKAFKA.find("structs.OffsetAndMetadata", OffsetWithMetadata)
OffsetAndTimestamp: Any = AIOKAFKA.find("structs.OffsetAndTimestamp", OffsetWithTimestamp)


#: The items of every record, see :class:`thinconsumer.ConsumerRecord`.
UP_TO_HEADERS = slice(9)


def partition_of(tp: OwnTopicPartition) -> Any:
    """Return the partition as an object of aiokafka's class."""
    return TopicPartition(tp.topic, tp.partition)


def partitions_of(tps: Iterable[OwnTopicPartition]) -> set[Any]:
    """Return the partitions as objects of aiokafka's class."""
    return {TopicPartition(*tp) for tp in tps}


def record_of(record: Record[Any, Any]) -> Any:
    """Return the record as an object of aiokafka's class."""
    topic, partition, _, offset, timestamp, timestamp_type, key, value, headers = stored(record, UP_TO_HEADERS)
    if tuple.__len__(record) == 9:  # key and value are bytes: faster than the properties
        sizes = -1 if key is None else len(key), -1 if value is None else len(value)
    else:
        sizes = record.serialized_key_size, record.serialized_value_size
    return ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, None, *sizes, headers)
