"""The values users hold: partitions, offsets, records, and the read-only picture of the cluster.

Owns no behaviour and imports nothing that does. Attribute names are kafka-python's where it has the thing.
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


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, or one that was: the *next* offset to read, a note, and the leader epoch of the record
    before it (-1 when unknown; KIP-320)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """What ``offsets_for_times`` found: the first record at or after the time asked for.

    ``timestamp`` is that record's, in milliseconds since the epoch.
    """

    offset: int
    timestamp: int
    leader_epoch: int = -1


class Node(NamedTuple):
    """One broker as the cluster's metadata names it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """One partition as the cluster's metadata shows it; node ids, ``leader`` -1 while there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class ClusterView(NamedTuple):
    """The cluster as assignors see it: only topics of the group, as of the metadata the plan is made from.

    ``partitions`` by topic, in order of their numbers; a topic that is not known is absent. ``nodes`` by node id.
    """

    partitions: Mapping[str, tuple[PartitionInfo, ...]]
    nodes: Mapping[int, Node]

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has; 0 when it is not known."""
        return len(self.partitions.get(topic, ()))

    def racks(self, partition: PartitionInfo) -> frozenset[str]:
        """Return the racks in which the partition has replicas (KIP-881); racks that are not known are left out."""
        nodes = (self.nodes.get(node_id) for node_id in partition.replicas)
        return frozenset(node.rack for node in nodes if node is not None and node.rack)


#: Only its C-level field getters are wanted: they read any tuple, four times faster than a property written here.
_Row = namedtuple("_Row", "topic partition leader_epoch offset timestamp timestamp_type key value headers")


def _size(data: object) -> int:
    """Bytes on the wire of a key or value that was not deserialized, -1 for null."""
    return len(data) if isinstance(data, bytes) else -1


class _RecordType(type):
    """Lets ``ConsumerRecord(...)`` take fields. Were that a ``__new__``, the decoder's own way in, ``type.__call__``
    on a finished row, would take half as long again."""

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
    """One record as read from a partition. Immutable, picklable, always true.

    It is a tuple only so that a batch of them can be built at C speed: read it by attribute, its positions are not part
    of the interface. After the fields come, in records that went through a deserializer only, the raw sizes of key and
    value, which nobody could derive any more.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def topic(self) -> str:
            """Where the record was read from."""

        @property
        def partition(self) -> int:
            """The partition's number."""

        @property
        def leader_epoch(self) -> int:
            """The epoch of the leader that wrote it (KIP-320), -1 when unknown."""

        @property
        def offset(self) -> int:
            """Its position in the partition."""

        @property
        def timestamp(self) -> int:
            """Milliseconds since the Unix epoch, -1 when it has none."""

        @property
        def timestamp_type(self) -> int:
            """0: set by the producer (CreateTime), 1: by the broker (LogAppendTime), -1: has none."""

        @property
        def key(self) -> K:
            """None for a null key, whatever the deserializer."""

        @property
        def value(self) -> V:
            """None for a null value (a tombstone in a compacted topic)."""

        @property
        def headers(self) -> tuple[tuple[str, bytes | None], ...]:
            """In the order they were written; keys may repeat; a key that is not UTF-8 shows U+FFFD, as in Java."""

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

    #: The CRC of one record, which no record has had since message format 2 (Kafka 0.11).
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
        """The key's bytes before deserialization, -1 for a null key."""
        return int(self[9]) if len(self) > 9 else _size(self.key)

    @property
    def serialized_value_size(self) -> int:
        """The value's bytes before deserialization, -1 for a null value."""
        return int(self[10]) if len(self) > 9 else _size(self.value)

    @property
    def serialized_header_size(self) -> int:
        """The bytes of all header keys and values, -1 without headers."""
        if not self.headers:
            return -1
        return sum(len(name.encode()) + (0 if data is None else len(data)) for name, data in self.headers)

    def with_key_value(self, key: NewK, value: NewV) -> ConsumerRecord[NewK, NewV]:
        """The same record with deserialized key and value; it still knows their sizes on the wire."""
        sizes = self[9:] or (_size(self[6]), _size(self[7]))
        return tuple.__new__(ConsumerRecord, (*self[:6], key, value, self[8], *sizes))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (tuple(self),)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={data!r}" for name, data in zip(_Row._fields, self))
        return f"ConsumerRecord({fields})"
