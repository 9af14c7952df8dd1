"""Build ``ConsumerRecord`` objects from the columns of many batches, some hundred at a time.

Records that are built long before they are used have left the processor's caches by then, and Python's garbage
collection visits each of them meanwhile. Together this takes a fifth of the time of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, cycle, pairwise, repeat
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt

from ...support.garbage_collection import garbage_collection_paused
from ...types import ConsumerRecord, TopicPartition
from ..encoded_headers import new_record_with_encoded_headers
from ..headers import NAMES, Header
from ..rows import new_record
from .pieces import Int64s, Pieces

if TYPE_CHECKING:
    from .fields import HeaderPlaces
    from .record_columns import RecordColumns

Row: TypeAlias = ConsumerRecord["bytes | None", "bytes | None"]
#: If a program reads a few records, about this many are built and kept for its next readings.
BLOCK = 256
#: Header names of more bytes are read anew for each record: comparing them byte by byte, to find out whether all
#: records have the same names, would take longer.
COMMON_NAME_MAX = 40


class RowBuilder:
    """Builds the records of any range of rows of the columns."""

    def __init__(self, flat: RecordColumns, data: bytes | memoryview, ends: Int64s | None = None) -> None:
        """``data``: the same bytes as ``flat.data``. ``ends``: where records end; given if headers stay encoded."""
        self.average_size = len(data) / max(len(flat.offsets), 1)  #: Bytes per record.
        self.offsets = flat.offsets
        self._timestamps = flat.timestamps
        self._leader_epochs = _Values(flat.leader_epochs)
        self._timestamp_types = _Values(flat.timestamp_types)
        # A record's key, value and headers follow one another, so that all pieces are in ascending order.
        pieces = [(flat.value_starts, flat.value_lengths)]
        self._has_keys = len(flat.key_lengths) > 0 and int(flat.key_lengths.max()) >= 0
        if self._has_keys:
            pieces.insert(0, (flat.key_starts, flat.key_lengths))
        self.new = new_record
        if ends is not None:
            headers_start = flat.value_starts + np.maximum(flat.value_lengths, 0)
            pieces.append((headers_start, ends - headers_start))
            self.new = new_record_with_encoded_headers
        self._headers = None if flat.header_places is None else _Headers(data, flat.header_places)
        self._pieces = _alternating(data, pieces)
        self._pieces_each = len(pieces)

    @garbage_collection_paused
    def build(self, tp: TopicPartition, begin: int, end: int) -> list[Row]:
        """Return the records ``begin`` to ``end`` (exclusive), which are all of this partition."""
        # All fields that are pieces share one iterator: pieces come in the order in which ``zip`` asks for the fields.
        pieces = iter(self._pieces.read(self._pieces_each * begin, self._pieces_each * end))
        return list(map(self.new, zip(*self._columns(tp, begin, end, [pieces] * self._pieces_each))))

    def columns(self, tp: TopicPartition, begin: int, end: int) -> list[Any]:
        """Return an iterable for each field of records ``begin`` to ``end``: lists for keys and values.

        The iterables for other fields may repeat a value without end.
        """
        each = self._pieces_each
        pieces = self._pieces.read(each * begin, each * end)
        return self._columns(tp, begin, end, [pieces[place::each] for place in range(each)])

    def _columns(self, tp: TopicPartition, begin: int, end: int, pieces: list[Iterable[Any]]) -> list[Iterable[Any]]:
        """Return an iterable for each field. ``pieces``: those of keys (unless all null), values, encoded headers."""
        if not self._has_keys:
            pieces = [[None] * (end - begin), *pieces]
        if len(pieces) == 2:
            pieces = [*pieces, repeat(()) if self._headers is None else self._headers.read(begin, end)]
        return [
            repeat(tp.topic),
            repeat(tp.partition),
            self._leader_epochs.read(begin, end),
            self.offsets[begin:end].tolist(),
            self._timestamps[begin:end].tolist(),
            self._timestamp_types.read(begin, end),
            *pieces,
        ]


class LazyRows(Sequence[Row]):
    """The records of one partition: a range of rows of the columns, built when they are read. Slices are lists."""

    __slots__ = ("_begin", "_block", "_builder", "_end", "_tp")

    def __init__(self, builder: RowBuilder, tp: TopicPartition, begin: int, end: int) -> None:
        self._builder = builder
        self._tp = tp
        self._begin, self._end = begin, end
        #: The index of the first kept record, and the kept records: those that the last short readings have built.
        self._block: tuple[int, list[Row]] = 0, []

    def __len__(self) -> int:
        return self._end - self._begin

    def __iter__(self) -> Iterator[Row]:
        build, tp, end = self._builder.build, self._tp, self._end
        blocks = (build(tp, begin, min(begin + BLOCK, end)) for begin in range(self._begin, end, BLOCK))
        return chain.from_iterable(blocks)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            return self._read(begin, max(begin, end)) if step == 1 else self._read(0, len(self))[index]
        begin = range(len(self))[index]
        return self._read(begin, begin + 1)[0]

    def part(self, begin: int, end: int) -> LazyRows:
        """Return the records ``begin`` to ``end`` (exclusive), to be built later."""
        return LazyRows(self._builder, self._tp, self._begin + begin, self._begin + end)

    def columns(self) -> tuple[Callable[[tuple[object, ...]], Row], list[Any]]:
        """Return the function that makes a record from a tuple of fields, and an iterable for each field."""
        return self._builder.new, self._builder.columns(self._tp, self._begin, self._end)

    def find(self, offset: int) -> int:
        """Return the index of the first record with at least this offset; the count of records if there is none."""
        return int(np.searchsorted(self._builder.offsets[self._begin : self._end], offset))

    def _read(self, begin: int, end: int) -> list[Row]:
        first, rows = self._block
        known = first + len(rows)
        if begin < first or end > known:
            build, base, count = self._builder.build, self._begin, end - begin
            if count > 2 * BLOCK:
                return build(self._tp, base + begin, base + end)  # not kept: the memory would not be bounded
            # To build one record takes as long as to build fifty: ``max_poll_records=1`` must not build each alone. A
            # block has the records of one or more whole readings of this size: no reading needs parts of two blocks.
            size = count * max(BLOCK // max(count, 1), 1)
            if first <= begin < known:
                # If the program calls ``position``, say, after each record, each reading begins one record later than
                # the last one: build only the records that are not kept.
                stop = min(max(end, known + BLOCK), len(self))
                rows = rows[begin - first :] + build(self._tp, base + known, base + stop)
                first = begin
            else:
                # A program that reads backwards, as ``reversed`` does, needs the records before these next.
                first, stop = (max(end - size, 0), end) if begin < first else (begin, min(begin + size, len(self)))
                rows = build(self._tp, base + first, base + stop)
            self._block = first, rows
        return rows[begin - first : end - first]


class _Values:
    """The values of a column, which are mostly all the same."""

    def __init__(self, column: npt.NDArray[Any]) -> None:
        self._column = column
        is_constant = len(column) > 0 and bool((column == column[0]).all())
        self._constant = int(column[0]) if is_constant else None

    def read(self, begin: int, end: int) -> Iterable[int]:
        if self._constant is not None:
            return repeat(self._constant)
        values: list[int] = self._column[begin:end].tolist()
        return values


class _Headers:
    """The headers of each record. If all records with headers have the same names (mostly), the names are read once."""

    def __init__(self, data: bytes | memoryview, places: HeaderPlaces) -> None:
        first = places.first
        # If the columns are a slice, ``places`` has the headers of all columns before slicing: use those of the slice.
        used = slice(int(first[0]), int(first[-1]))
        names = places.name_starts[used], places.name_lengths[used]
        values = places.value_starts[used], places.value_lengths[used]
        counts = np.diff(first)
        #: By record: the index of its first header; at the end, the count of all headers.
        self._first = first - first[0]
        self._having = np.flatnonzero(counts)
        #: The header names that all records with headers have; None if names differ between records, or one is long.
        self._names = _common_names(data, *names, counts[self._having])
        self._pieces = _alternating(data, [values] if self._names else [names, values])

    def read(self, begin: int, end: int) -> Iterable[tuple[Header, ...]]:
        low, high = int(self._first[begin]), int(self._first[end])
        if low == high:
            return repeat(())
        if self._names is None:
            parts = self._pieces.read(2 * low, 2 * high)
            each = list(zip(map(NAMES.__getitem__, cast("list[bytes]", parts[::2])), parts[1::2]))
            places = (self._first[begin : end + 1] - low).tolist()
            return [tuple(each[start:stop]) for start, stop in pairwise(places)]
        size = len(self._names)
        pairs = zip(cycle(self._names), self._pieces.read(low, high))
        found = zip(*[pairs] * size)  # takes as many pairs at a time as a record has
        if high - low == size * (end - begin):
            return found
        headers: list[tuple[Header, ...]] = [()] * (end - begin)
        for index, some in zip((self._having[low // size : high // size] - begin).tolist(), found):
            headers[index] = some
        return headers


def _common_names(data: bytes | memoryview, starts: Int64s, lengths: Int64s, counts: Int64s) -> list[str] | None:
    """Return the names of one record's headers; None if other records with headers have other names, or long ones."""
    if not len(counts) or (counts != counts[0]).any():
        return None
    size = int(counts[0])
    first = lengths[:size].tolist()
    if max(first) > COMMON_NAME_MAX or (lengths.reshape(-1, size) != lengths[:size]).any():
        return None
    bytewise = np.frombuffer(data, np.uint8)
    names = []
    for starts_of_one, length in zip(starts.reshape(-1, size).T, first):
        known = bytewise[starts_of_one[0] : starts_of_one[0] + length]
        for place in range(length):
            if (bytewise.take(starts_of_one + place) != known[place]).any():
                return None
        names.append(NAMES[known.tobytes()])
    return names


def _alternating(data: bytes | memoryview, columns: list[tuple[Int64s, Int64s]]) -> Pieces:
    """Return the pieces of all columns, row by row (a record or a header), given each column's starts and lengths."""
    if len(columns) == 1:
        return Pieces(data, *columns[0])
    return Pieces(data, *(np.column_stack(some).ravel() for some in zip(*columns)))
