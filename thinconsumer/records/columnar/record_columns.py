"""The result of ``poll_batches`` for a partition: columns over one buffer, convertible to records or an Arrow batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...types import ConsumerRecord, TopicPartition
from ..headers import NAMES, Header
from .fields import HeaderPlaces
from .lazy_rows import RowBuilder
from .pieces import Int64s

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordColumns:
    """Records of one partition, one array per field, in offset order. Treat all arrays as read-only.

    Keys and values are not copied: ``key_starts``, ``value_starts`` and the lengths tell where they are in ``data``,
    which holds other bytes, too.
    """

    topic: str
    partition: int
    offsets: Int64s
    timestamps: Int64s  #: Milliseconds since the epoch; -1 in message format 0.
    timestamp_types: npt.NDArray[np.int8]  #: 0: CreateTime, 1: LogAppendTime, -1: none (message format 0).
    leader_epochs: npt.NDArray[np.int32]  #: The epoch of the leader that appended each record; -1 if unknown.
    data: npt.NDArray[np.uint8]
    key_starts: Int64s
    key_lengths: Int64s  #: -1 for a null key.
    value_starts: Int64s
    value_lengths: Int64s  #: -1 for a null value.
    #: The positions of the headers; None if no record has headers, or if they were not located. Results of
    #: ``poll_batches`` always have them; columns from which ``poll`` builds records may lack them.
    header_places: HeaderPlaces | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        span = f"offsets {self.offsets[0]} to {self.offsets[-1]}" if len(self) else "empty"
        return f"<RecordColumns {self.topic}-{self.partition}: {len(self)} records, {span}>"

    @property
    def nbytes(self) -> int:
        """Total size of keys and values, without headers."""
        lengths = self.key_lengths, self.value_lengths
        return sum(int(each.sum()) + int(np.count_nonzero(each < 0)) for each in lengths)

    def key(self, index: int) -> bytes | None:
        """Return the key of the record at ``index``; None if it is null."""
        return self._bytes(int(self.key_starts[index]), int(self.key_lengths[index]))

    def value(self, index: int) -> bytes | None:
        """Return the value of the record at ``index``; None if it is null."""
        return self._bytes(int(self.value_starts[index]), int(self.value_lengths[index]))

    def headers(self, index: int) -> tuple[Header, ...]:
        """Return a record's headers; bytes of names that are not UTF-8 become U+FFFD, as in Java."""
        places = self.header_places
        if places is None:
            return ()
        index = range(len(self))[index]
        found: list[Header] = []
        for at in range(int(places.first[index]), int(places.first[index + 1])):
            name = self._bytes(int(places.name_starts[at]), int(places.name_lengths[at]))
            value = self._bytes(int(places.value_starts[at]), int(places.value_lengths[at]))
            found.append((NAMES[name or b""], value))
        return tuple(found)

    def slice(self, start: int, stop: int) -> RecordColumns:
        """Return the records ``start`` to ``stop`` (exclusive) without copying."""
        return part_of(self, TopicPartition(self.topic, self.partition), start, stop)

    def rows(self) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the records as ``ConsumerRecord`` objects, as :meth:`Consumer.poll` does without deserializers."""
        tp = TopicPartition(self.topic, self.partition)
        return RowBuilder(self, self.data.data).build(tp, 0, len(self))

    def to_arrow(self, include_headers: bool = False, *, views: bool = False) -> pyarrow.RecordBatch:
        """Return an Arrow batch with columns key, value, topic, partition, offset, timestamp and timestampType.

        ``include_headers`` adds a column named headers, null for records without any. Keys and values are copied, so
        the batch does not keep ``data`` alive. Timestamps are in UTC, and clamped if they do not fit into 64 bits as
        microseconds (from the year 294,000 on).

        With ``views``, keys, values and the values of headers have the type ``binary_view`` instead of ``binary``, and
        those of more than 12 bytes are not copied: each array with one keeps all of ``data`` in memory.

        Raises:
            ImportError: pyarrow is not installed, or with ``views`` is older than 19.
        """
        from .arrow import SCHEMA, SCHEMA_WITH_HEADERS, to_arrow

        return to_arrow(self, (SCHEMA_WITH_HEADERS if include_headers else SCHEMA).names, views)

    # The capsules are pyarrow's: with some of our own, the callbacks that free the memory would be Python functions,
    # which other libraries call from their threads, also after the interpreter has ended.

    def __arrow_c_schema__(self) -> object:
        """Return the schema of ``to_arrow(include_headers=True)`` as a capsule of the Arrow C data interface."""
        return self.slice(0, 0).to_arrow(include_headers=True).schema.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return ``to_arrow(include_headers=True)`` as capsules of the Arrow C data interface: schema and array."""
        capsules: tuple[object, object] = self.to_arrow(include_headers=True).__arrow_c_array__(requested_schema)
        return capsules

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a stream of one batch, ``to_arrow(include_headers=True)``, as a capsule of the Arrow C interface."""
        return self.to_arrow(include_headers=True).__arrow_c_stream__(requested_schema)

    def _bytes(self, start: int, length: int) -> bytes | None:
        return None if length < 0 else self.data[start : start + length].tobytes()


def part_of(columns: RecordColumns, tp: TopicPartition, start: int, stop: int) -> RecordColumns:
    """Return the records ``start`` to ``stop`` (exclusive), which are all of this partition, without copying."""
    part = slice(*slice(start, stop).indices(len(columns)))
    places = columns.header_places
    if places is not None:
        first = places.first[part.start : max(part.start, part.stop) + 1]
        places = places._replace(first=first) if first[0] != first[-1] else None
    return RecordColumns(
        *tp, columns.offsets[part], columns.timestamps[part], columns.timestamp_types[part],
        columns.leader_epochs[part], columns.data, columns.key_starts[part], columns.key_lengths[part],
        columns.value_starts[part], columns.value_lengths[part], places,
    )  # fmt: skip
