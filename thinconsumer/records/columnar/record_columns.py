"""What ``poll_batches`` returns for a partition: columns over one buffer, on request rows or an Arrow batch.

The Arrow schema is exactly the one that Spark's own Kafka source has, column for column; a batch that differs in a
nullability or a time zone is refused there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from ...types import ConsumerRecord
from ..headers import Header, name_of
from .fields import HeaderPlaces

if TYPE_CHECKING:
    import pyarrow

__all__ = ["RecordColumns"]

Int64s: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecordColumns:
    """Records of one partition, field by field, in offset order. All arrays have the same length; change none of them.

    Keys and values stay where they were received: places and lengths in ``data``, which also holds what is not theirs.
    """

    topic: str
    partition: int
    offsets: Int64s
    timestamps: Int64s  #: Milliseconds since the epoch; -1 in message format 0.
    timestamp_types: npt.NDArray[np.int8]  #: 0: CreateTime, 1: LogAppendTime, -1: none (message format 0).
    leader_epochs: npt.NDArray[np.int32]  #: -1: unknown.
    data: npt.NDArray[np.uint8]
    key_starts: Int64s
    key_lengths: Int64s  #: -1: null.
    value_starts: Int64s
    value_lengths: Int64s  #: -1: null.
    header_places: HeaderPlaces | None = None  #: None: no record has headers.

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        span = f"offsets {self.offsets[0]} to {self.offsets[-1]}" if len(self) else "empty"
        return f"<RecordColumns {self.topic}-{self.partition}: {len(self)} records, {span}>"

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values; headers are not counted."""
        lengths = self.key_lengths, self.value_lengths
        return sum(int(each.sum()) + int(np.count_nonzero(each < 0)) for each in lengths)

    def key(self, index: int) -> bytes | None:
        """Return a record's key."""
        return self._bytes(int(self.key_starts[index]), int(self.key_lengths[index]))

    def value(self, index: int) -> bytes | None:
        """Return a record's value."""
        return self._bytes(int(self.value_starts[index]), int(self.value_lengths[index]))

    def headers(self, index: int) -> tuple[Header, ...]:
        """Return a record's headers; names that are not UTF-8 show U+FFFD, as in Java."""
        places = self.header_places
        if places is None:
            return ()
        index = range(len(self))[index]
        found: list[Header] = []
        for at in range(int(places.first[index]), int(places.first[index + 1])):
            name = self._bytes(int(places.name_starts[at]), int(places.name_lengths[at]))
            value = self._bytes(int(places.value_starts[at]), int(places.value_lengths[at]))
            found.append((name_of(name or b""), value))
        return tuple(found)

    def slice(self, start: int, stop: int) -> RecordColumns:
        """Return the records from ``start`` to before ``stop``; nothing is copied."""
        part = slice(*slice(start, stop).indices(len(self)))
        places = self.header_places
        if places is not None:
            first = places.first[part.start : max(part.start, part.stop) + 1]
            places = places._replace(first=first) if first[0] != first[-1] else None
        return RecordColumns(
            self.topic, self.partition, self.offsets[part], self.timestamps[part], self.timestamp_types[part],
            self.leader_epochs[part], self.data, self.key_starts[part], self.key_lengths[part], self.value_starts[part],
            self.value_lengths[part], places,
        )  # fmt: skip

    def rows(self) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the records one by one, as :meth:`Consumer.poll` has them."""
        data = self.data.tobytes() if len(self) else b""
        keys = _pieces(data, self.key_starts, self.key_lengths)
        values = _pieces(data, self.value_starts, self.value_lengths)
        headers = [self.headers(index) for index in range(len(self))] if self.header_places else [()] * len(self)
        fields = zip(
            self.leader_epochs.tolist(), self.offsets.tolist(), self.timestamps.tolist(), self.timestamp_types.tolist(),
            keys, values, headers,
        )  # fmt: skip
        return [ConsumerRecord(self.topic, self.partition, *row) for row in fields]

    def to_arrow(self, include_headers: bool = False) -> pyarrow.RecordBatch:
        """Return an Arrow batch with columns key, value, topic, partition, offset, timestamp and timestampType.

        With ``include_headers`` there is one more, headers, null where a record has none. Keys and values are copied,
        so that the batch needs nothing of this. Times are in UTC; those beyond what microseconds can say (the year
        294,000) become the last that they can.

        Raises:
            ImportError: pyarrow is not installed.
        """
        from .arrow import to_arrow

        return to_arrow(self, include_headers)

    def _bytes(self, start: int, length: int) -> bytes | None:
        return None if length < 0 else self.data[start : start + length].tobytes()


def _pieces(data: bytes, starts: Int64s, lengths: Int64s) -> list[bytes | None]:
    if not len(lengths) or int(lengths.max()) < 0:
        return [None] * len(lengths)
    if int(lengths.min()) >= 0:
        return [data[start:stop] for start, stop in zip(starts.tolist(), (starts + lengths).tolist())]
    return [
        None if length < 0 else data[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist())
    ]
