"""The public value types: partitions, offsets, records, and the cluster metadata that assignors get.

The attributes of partitions, offsets and records have kafka-python's names.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

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
T = TypeVar("T")


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int


class SubscriptionPattern:
    """A regular expression in the syntax of RE2, for ``subscribe(pattern=SubscriptionPattern("orders-.*"))`` (KIP-848).

    The broker matches the pattern against whole topic names, so that the client needs no list of all topics. Not for
    the classic group protocol. A ``pattern`` of type ``str`` has Python's syntax, and the client matches it.
    """

    __slots__ = ("pattern",)

    def __init__(self, pattern: str) -> None:
        self.pattern: str = pattern

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
        """Return the number of the topic's partitions; 0 if the topic is unknown."""
        return len(self.partitions.get(topic, ()))

    def racks(self, partition: PartitionInfo) -> frozenset[str]:
        """Return the racks of the partition's replicas (KIP-881), without unknown ones."""
        nodes = (self.nodes.get(node_id) for node_id in partition.replicas)
        return frozenset(node.rack for node in nodes if node is not None and node.rack)


#: Only the field getters of this class are used, as the attributes of :class:`ConsumerRecord`. They are implemented in
#: C, take a quarter of the time of Python properties, and work on any tuple.
_Row = namedtuple("_Row", "topic partition leader_epoch offset timestamp timestamp_type key value headers")
#: Reads an item of the tuple that a record is made of, see :class:`ConsumerRecord`.
stored = tuple.__getitem__


def _size(data: object) -> int:
    """Return the size of a key or value in bytes; -1 for null, and for an object that is not bytes."""
    return len(data) if isinstance(data, bytes) else -1


def _header_size(headers: Iterable[tuple[str, bytes | None]]) -> int:
    sizes = [len(name.encode()) + (0 if data is None else len(data)) for name, data in headers]
    return sum(sizes) if sizes else -1


class RecordType(type):
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
        checksum: int | None = None,
        serialized_key_size: int | None = None,
        serialized_value_size: int | None = None,
        serialized_header_size: int | None = None,
    ) -> Any:
        headers = tuple(headers)
        sizes = (
            _size(key) if serialized_key_size is None else serialized_key_size,
            _size(value) if serialized_value_size is None else serialized_value_size,
            _header_size(headers) if serialized_header_size is None else serialized_header_size,
        )
        row = (topic, partition, leader_epoch, offset, timestamp, timestamp_type, key, value, headers, checksum)
        return type.__call__(cls, (*row, *sizes))


class ConsumerRecord(tuple[Any, ...], Generic[K, V], metaclass=RecordType):
    """A record read from a partition: a named tuple with the fields of kafka-python's record, in their order.

    Immutable, picklable, and true as a condition. Reading an attribute is faster than unpacking or indexing.

    The underlying tuple may be shorter: the decoder stores the 9 items up to the headers and, if key or value are
    deserialized, both serialized sizes; the missing items are computed. Storing all 13 would take 30 ns, 3 % of a
    record's time. ``len``, unpacking, items, comparisons and the methods of named tuples show all 13. The ``%``
    operator reads the stored items: pass it ``tuple(record)``.
    """

    __slots__ = ()
    __match_args__ = (
        "topic", "partition", "leader_epoch", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
        "checksum", "serialized_key_size", "serialized_value_size", "serialized_header_size",
    )  # fmt: skip
    _fields = __match_args__
    _field_defaults: ClassVar[dict[str, Any]] = {}

    if TYPE_CHECKING:

        @property
        def topic(self) -> str:
            """The topic's name."""

        @property
        def partition(self) -> int:
            """The partition's number."""

        @property
        def leader_epoch(self) -> int:
            """The epoch of the leader that appended the record (KIP-320), -1 if unknown."""

        @property
        def offset(self) -> int:
            """The record's offset in the partition."""

        @property
        def timestamp(self) -> int:
            """Milliseconds since the Unix epoch, -1 if the record has no timestamp."""

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
            """Pairs of key and value, in the order written. Keys may repeat; their malformed UTF-8 becomes U+FFFD."""

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
            checksum: int | None = None,
            serialized_key_size: int | None = None,
            serialized_value_size: int | None = None,
            serialized_header_size: int | None = None,
        ) -> ConsumerRecord[K, V]: ...

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and partition, as in the keys of poll results; made anew by each access."""
        return TopicPartition(self.topic, self.partition)

    @property
    def checksum(self) -> int | None:
        """None, unless passed to the constructor: since Kafka 0.11 (format 2), only batches have a checksum."""
        return cast("int | None", stored(self, 9)) if tuple.__len__(self) > 11 else None

    @property
    def serialized_key_size(self) -> int:
        """The size of the serialized key in bytes, -1 for a null key."""
        return self._serialized_sizes()[0]

    @property
    def serialized_value_size(self) -> int:
        """The size of the serialized value in bytes, -1 for a null value."""
        return self._serialized_sizes()[1]

    @property
    def serialized_header_size(self) -> int:
        """The size of all header keys and values in bytes, -1 without headers."""
        return cast(int, stored(self, 12)) if tuple.__len__(self) > 11 else _header_size(self.headers)

    def _serialized_sizes(self) -> tuple[int, int]:
        """Return the sizes of the serialized key and value."""
        count = tuple.__len__(self)
        if count == 9:
            return _size(self.key), _size(self.value)
        return cast("tuple[int, int]", stored(self, slice(9, 11) if count == 11 else slice(10, 12)))

    def _items(self) -> tuple[Any, ...]:
        """Return all items as a plain tuple."""
        if tuple.__len__(self) > 11:
            return stored(self, slice(None))
        headers = self.headers
        return (*stored(self, slice(8)), headers, None, *self._serialized_sizes(), _header_size(headers))

    def with_key_value(self, key: NewK, value: NewV) -> ConsumerRecord[NewK, NewV]:
        """Return the record with ``key`` and ``value``, deserialized, in place of its own; serialized sizes stay."""
        return cast("ConsumerRecord[NewK, NewV]", self._replace(key=key, value=value))

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> ConsumerRecord[Any, Any]:
        """Return a record of its 13 items."""
        items = tuple(iterable)
        if len(items) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(items)}")
        return tuple.__new__(ConsumerRecord, items)

    def _replace(self, **fields: Any) -> ConsumerRecord[Any, Any]:
        """Return the record with other values of some fields; sizes stay as they are unless they are given."""
        record = self._make(map(fields.pop, self._fields, self._items()))
        if fields:
            raise ValueError(f"Got unexpected field names: {list(fields)!r}")
        return record

    __replace__ = _replace  # for copy.replace, since Python 3.13

    def _asdict(self) -> dict[str, Any]:
        """Return the items by their names."""
        return dict(zip(self._fields, self._items()))

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __getitem__(self, index: Any) -> Any:
        return self._items()[index]

    def __radd__(self, other: Any) -> Any:
        return other + self._items() if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._items())

    def __reduce__(self) -> tuple[Any, ...]:
        return ConsumerRecord, self._items()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __repr__(self) -> str:
        return f"ConsumerRecord({', '.join(f'{name}={item!r}' for name, item in zip(self._fields, self._items()))})"


def _items_of(value: T) -> T:
    return value._items() if isinstance(value, ConsumerRecord) else value  # type: ignore[return-value]


def _of_all_items(name: str) -> Callable[..., Any]:
    """Return the tuple method ``name`` for records: it uses all 13 items of the record, and of records as arguments."""
    method = getattr(tuple, name)

    @wraps(method)
    def call(self: ConsumerRecord[Any, Any], *arguments: Any) -> Any:
        return method(self._items(), *map(_items_of, arguments))

    return call


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "mul", "rmul", "contains"):
    setattr(ConsumerRecord, f"__{_name}__", _of_all_items(f"__{_name}__"))
for _name in ("count", "index"):
    setattr(ConsumerRecord, _name, _of_all_items(_name))
for _name in _Row._fields:
    setattr(ConsumerRecord, _name, getattr(_Row, _name))
