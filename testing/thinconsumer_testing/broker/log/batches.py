"""The batches of a log in offset order, with fast search and reads.

Owns parallel lists with one entry per batch, so that a read is three bisections, a slice and a join. A byte position is
the distance from the first batch that was ever in the list: when batches at the front are dropped, the positions of
later batches stay the same. :meth:`BatchList.replace` restarts positions at 0.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from .stored import StoredBatch


class BatchList:
    """A list of batches with ascending offsets; after a compaction there may be gaps between adjacent batches."""

    __slots__ = ("_data", "_ends", "_highest", "_nexts", "items", "start_position")

    def __init__(self) -> None:
        self.items: list[StoredBatch] = []
        self.start_position = 0  #: Byte position of the first batch.
        self._data: list[bytes] = []
        self._nexts: list[int] = []  #: For each batch, its last offset plus one.
        self._ends: list[int] = []  #: For each batch, the byte position of its end.
        self._highest: list[int] = []  #: For each batch, the highest timestamp in it and all batches before.

    def __len__(self) -> int:
        return len(self.items)

    @property
    def size(self) -> int:
        """The total size of the batches in bytes."""
        return self.end_position - self.start_position

    @property
    def end_position(self) -> int:
        """The byte position after the last batch."""
        return self._ends[-1] if self._ends else self.start_position

    def append(self, batch: StoredBatch) -> None:
        """Append a batch; its offsets must be higher than those of all batches in the list."""
        highest = self._highest
        stamp = batch.max_timestamp
        highest.append(stamp if not highest or stamp > highest[-1] else highest[-1])
        self._ends.append(self.end_position + len(batch.data))
        self._nexts.append(batch.next_offset)
        self._data.append(batch.data)
        self.items.append(batch)

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that contains an offset, or of the first later batch if none contains it."""
        return bisect_right(self._nexts, offset)

    def from_offset(self, offset: int) -> Iterator[StoredBatch]:
        """Yield the batch that contains an offset and all later ones, also those appended during the iteration."""
        index = self.index_of(offset)
        items = self.items
        while index < len(items):
            yield items[index]
            index += 1

    def read(self, offset: int, end_offset: int, max_bytes: int, at_least_one: bool) -> bytes:
        """Return the bytes of the batch that contains ``offset`` and of later batches; see :meth:`.log.Log.read`."""
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
        """Return the index of the first batch with a maximum timestamp of ``timestamp`` or later."""
        return bisect_left(self._highest, timestamp)

    def drop_front(self, count: int) -> None:
        """Drop the ``count`` oldest batches."""
        if count:
            self.start_position = self._ends[count - 1]
            for column in self._columns():
                del column[:count]

    def drop_back(self, index: int) -> None:
        """Drop the batch at an index and all later ones."""
        for column in self._columns():
            del column[index:]

    def replace(self, batches: Iterable[StoredBatch]) -> None:
        """Replace all batches, and restart the byte positions at 0."""
        kept = list(batches)
        self.start_position = 0
        for column in self._columns():
            column.clear()
        for batch in kept:
            self.append(batch)

    def _columns(self) -> tuple[list[StoredBatch] | list[bytes] | list[int], ...]:
        return self.items, self._data, self._nexts, self._ends, self._highest
