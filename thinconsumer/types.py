"""The public value types: partitions, offsets, records, and the cluster metadata that assignors get.

Attribute names are those of kafka-python where it has the same type.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

__all__ = [
    "ClusterView",
    "ConsumerRecord",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "SubscriptionPattern",
    "TopicPartition",
]

K = TypeVar("K")
V = TypeVar("V")
NewK = TypeVar("NewK")
NewV = TypeVar("NewV")


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int


class SubscriptionPattern:
    """A regular expression in the syntax of RE2, for ``subscribe(pattern=SubscriptionPattern("orders-.*"))`` (KIP-848).

    The broker evaluates it, against whole topic names, so that the client needs no list of all topics. That takes
    ``group_protocol="consumer"``. A pattern of type ``str`` is Python's, and is matched in the client.
    """

    __slots__ = ("pattern",)

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __eq__(self, other: object) -> bool:
        return self.pattern == other.pattern if isinstance(other, SubscriptionPattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"SubscriptionPattern({self.pattern!r})"


class OffsetAndMetadata(NamedTuple):
    """A committed offset, or one to commit: the *next* offset to read, with a metadata string.

    ``leader_epoch`` is that of the last record before the offset, -1 if unknown (KIP-320).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """A result of ``offsets_for_times``: the first record at or after the requested time.

    ``timestamp`` is the record's, in milliseconds since the Unix epoch.
    """

    offset: int
    timestamp: int
    leader_epoch: int = -1


class Node(NamedTuple):
    """A broker in the cluster metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition in the cluster metadata. Replicas and leader are node ids; ``leader`` is -1 if there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class ClusterView(NamedTuple):
    """The cluster metadata that an assignor gets, with the group's topics only.

    ``partitions`` by topic, sorted by number; unknown topics are absent. ``nodes`` by node id.
    """

    partitions: Mapping[str, tuple[PartitionInfo, ...]]
    nodes: Mapping[int, Node]

    def partition_count(self, topic: str) -> int:
        """Return the number of the topic's partitions; 0 if it is unknown."""
        return len(self.partitions.get(topic, ()))

    def racks(self, partition: PartitionInfo) -> frozenset[str]:
        """Return the racks of the partition's replicas (KIP-881), without unknown ones."""
        nodes = (self.nodes.get(node_id) for node_id in partition.replicas)
        return frozenset(node.rack for node in nodes if node is not None and node.rack)


#: Only the field getters of this class are used, as the attributes of :class:`ConsumerRecord`. They are implemented in
#: C, take a quarter of the time of Python properties, and work on any tuple.
_Row = namedtuple("_Row", "topic partition leader_epoch offset timestamp timestamp_type key value headers")


def _size(data: object) -> int:
    """Return the size of a key or value that was not deserialized; -1 for null."""
    return len(data) if isinstance(data, bytes) else -1


class _RecordType(type):
    """The metaclass that lets ``ConsumerRecord(...)`` take the fields as arguments.

    The decoder builds records with ``type.__call__(ConsumerRecord, fields)``, which skips the metaclass's ``__call__``.
    If a ``__new__`` of the record's class took the arguments instead, the decoder would have to call it, and would take
    1.5 times as long.
    """

    def __call__(
        cls,
        topic: str,
        partition: int,
        leader_epoch: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Any,
        value: Any,
        headers: Iterable[tuple[str, bytes | None]] = (),
        checksum: None = None,
        serialized_key_size: int | None = None,
        serialized_value_size: int | None = None,
        serialized_header_size: int | None = None,
    ) -> Any:
        row = (topic, partition, leader_epoch, offset, timestamp, timestamp_type, key, value, tuple(headers))
        if serialized_key_size is None and serialized_value_size is None:
            return type.__call__(cls, row)
        key_size = _size(key) if serialized_key_size is None else serialized_key_size
        value_size = _size(value) if serialized_value_size is None else serialized_value_size
        return type.__call__(cls, (*row, key_size, value_size))


class ConsumerRecord(tuple[Any, ...], Generic[K, V], metaclass=_RecordType):
    """A record read from a partition. Immutable, picklable, and true as a condition.

    Use its attributes. It is a tuple only because tuples can be built fastest; the order of its items is no part of the
    interface. Deserialized records have two more items, the sizes of the serialized key and value.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def topic(self) -> str:
            """The topic's name."""

        @property
        def partition(self) -> int:
            """The partition's number."""

        @property
        def leader_epoch(self) -> int:
            """The epoch of the leader that appended it (KIP-320), -1 if unknown."""

        @property
        def offset(self) -> int:
            """The record's offset in the partition."""

        @property
        def timestamp(self) -> int:
            """Milliseconds since the Unix epoch, -1 if it has none."""

        @property
        def timestamp_type(self) -> int:
            """0: CreateTime (set by the producer), 1: LogAppendTime (set by the broker), -1: no timestamp."""

        @property
        def key(self) -> K:
            """The key; None for a null key, which is not deserialized."""

        @property
        def value(self) -> V:
            """The value; None for a null value (in compacted topics a tombstone), which is not deserialized."""

        @property
        def headers(self) -> tuple[tuple[str, bytes | None], ...]:
            """Pairs of key and value, in the order written; keys may repeat. Bytes that are not UTF-8 become U+FFFD."""

    else:
        topic = _Row.topic
        partition = _Row.partition
        leader_epoch = _Row.leader_epoch
        offset = _Row.offset
        timestamp = _Row.timestamp
        timestamp_type = _Row.timestamp_type
        key = _Row.key
        value = _Row.value
        headers = _Row.headers

    #: Always None: since message format 2 (Kafka 0.11) batches have a checksum, records do not.
    checksum: None = None

    if TYPE_CHECKING:

        def __new__(
            cls,
            topic: str,
            partition: int,
            leader_epoch: int,
            offset: int,
            timestamp: int,
            timestamp_type: int,
            key: K,
            value: V,
            headers: Iterable[tuple[str, bytes | None]] = (),
            checksum: None = None,
            serialized_key_size: int | None = None,
            serialized_value_size: int | None = None,
            serialized_header_size: int | None = None,
        ) -> ConsumerRecord[K, V]: ...

    @property
    def serialized_key_size(self) -> int:
        """The size of the serialized key in bytes, -1 for a null key."""
        return int(self[9]) if len(self) > 9 else _size(self.key)

    @property
    def serialized_value_size(self) -> int:
        """The size of the serialized value in bytes, -1 for a null value."""
        return int(self[10]) if len(self) > 9 else _size(self.value)

    @property
    def serialized_header_size(self) -> int:
        """The size of all header keys and values in bytes, -1 without headers."""
        if not self.headers:
            return -1
        return sum(len(name.encode()) + (0 if data is None else len(data)) for name, data in self.headers)

    def with_key_value(self, key: NewK, value: NewV) -> ConsumerRecord[NewK, NewV]:
        """Return the record with deserialized key and value, and unchanged serialized sizes."""
        sizes = self[9:] or (_size(self[6]), _size(self[7]))
        return tuple.__new__(ConsumerRecord, (*self[:6], key, value, self.headers, *sizes))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (tuple(self),)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={data!r}" for name, data in zip(_Row._fields, self))
        return f"ConsumerRecord({fields})"
