"""The batches of a log in order, and finding and reading them without looking at each.

Owns parallel lists, one entry a batch, so that a read is two bisections, a slice and a join. Positions are bytes since
the list was made; they go on when batches at the front are dropped, and begin anew with :meth:`Batches.replace`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from .stored import StoredBatch


class BatchList:
    """Batches with ascending offsets, with holes between them where compaction was."""

    __slots__ = ("_data", "_ends", "_highest", "_nexts", "items", "start_position")

    def __init__(self) -> None:
        self.items: list[StoredBatch] = []
        self.start_position = 0  #: Of the first batch.
        self._data: list[bytes] = []
        self._nexts: list[int] = []  #: The offsets after each batch.
        self._ends: list[int] = []  #: The positions after each batch.
        self._highest: list[int] = []  #: The highest timestamp up to and with each batch.

    def __len__(self) -> int:
        return len(self.items)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.end_position - self.start_position

    @property
    def end_position(self) -> int:
        """The position after the last batch."""
        return self._ends[-1] if self._ends else self.start_position

    def append(self, batch: StoredBatch) -> None:
        """Add one whose offsets are above all others."""
        highest = self._highest
        stamp = batch.max_timestamp
        highest.append(stamp if not highest or stamp > highest[-1] else highest[-1])
        self._ends.append(self.end_position + len(batch.data))
        self._nexts.append(batch.next_offset)
        self._data.append(batch.data)
        self.items.append(batch)

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that holds it, or else of the first one behind it."""
        return bisect_right(self._nexts, offset)

    def from_offset(self, offset: int) -> Iterator[StoredBatch]:
        """Yield what :meth:`index_of` finds and all behind it, for as long as the list only grows at its end."""
        index = self.index_of(offset)
        items = self.items
        while index < len(items):
            yield items[index]
            index += 1

    def read(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> bytes:
        """Return the bytes of batches from the one that holds ``offset``, none of which ends above ``end_offset``.

        The last one is cut off at ``max_bytes``, but for the first, if ``at_least_one``.
        """
        first = bisect_right(self._nexts, offset)
        stop = bisect_right(self._nexts, end_offset)
        if first >= stop:
            return b""
        data, ends = self._data, self._ends
        size = len(data[first])
        if at_least_one and max_bytes < size:
            max_bytes = size
        limit = ends[first] - size + max(0, max_bytes)
        last = bisect_left(ends, limit, first, stop)
        if last == stop:
            last, excess = stop - 1, 0
        else:
            excess = ends[last] - limit
        chunks: list[bytes | memoryview] = [*data[first : last + 1]]
        if excess:
            chunks[-1] = memoryview(chunks[-1])[: len(chunks[-1]) - excess]
        return data[first] if len(chunks) == 1 and not excess else b"".join(chunks)

    def first_index_since(self, timestamp: int) -> int:
        """Return an index before which no batch has a record that late."""
        return bisect_left(self._highest, timestamp)

    def drop_front(self, count: int) -> None:
        """Drop the oldest batches."""
        if count:
            self.start_position = self._ends[count - 1]
            for column in self._columns():
                del column[:count]

    def drop_back(self, index: int) -> None:
        """Drop the batch there and all behind it."""
        for column in self._columns():
            del column[index:]

    def replace(self, batches: Iterable[StoredBatch]) -> None:
        """Hold these instead."""
        kept = list(batches)
        self.start_position = 0
        for column in self._columns():
            column.clear()
        for batch in kept:
            self.append(batch)

    def _columns(self) -> tuple[list[StoredBatch] | list[bytes] | list[int], ...]:
        return self.items, self._data, self._nexts, self._ends, self._highest
