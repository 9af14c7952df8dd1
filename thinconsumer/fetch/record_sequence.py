"""The sequence of records in a poll's result: used like a list, but it may build records only while they are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from operator import eq
from typing import Any, ClassVar, Generic, TypeVar, overload

from ..types import ConsumerRecord

__all__ = ["BUILT_MAX", "RecordSequence"]

K = TypeVar("K")
V = TypeVar("V")

#: Up to this many records of a partition are built before a poll returns. More would take an eighth longer to read:
#: they leave the processor's caches before the program comes to them, and Python's garbage collection visits them all.
BUILT_MAX = 500


class RecordSequence(Sequence[ConsumerRecord[K, V]], Generic[K, V]):
    """The records of one partition in offset order, as :meth:`Consumer.poll` returns them.

    It cannot be changed; apart from that, it is used like a list, and is equal to a list of the same records:
    ``records[0]``, ``records[:10]``, ``records + others``, ``sorted(records)``, ``pickle.dumps(records)``. Code that
    needs a list, pandas for example, gets ``list(records)``, and JSON is written by
    ``json.dumps(records, default=list)``.

    With numpy, a sequence of more than 500 records may build them only while a program reads it: then each iteration
    builds records anew, and ``list(records)`` builds all of them once. Until it is no longer referenced, such a
    sequence keeps a copy of the decompressed batches that were decoded together, those of other partitions
    included: up to 4 MB and a batch for each such decoding. A record alone keeps no such copy.
    """

    __slots__ = ("_ends", "_parts")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def __init__(self, parts: Sequence[Sequence[ConsumerRecord[K, V]]] = ()) -> None:
        """``parts`` are the records in order; neither ``parts`` nor one of its items may change from now on."""
        self._parts = parts
        # The most frequent case, without ``accumulate``.
        self._ends = [len(parts[0])] if len(parts) == 1 else list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return iter(self._parts[0]) if len(self._parts) == 1 else chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord[K, V]]: ...

    def __getitem__(self, index: int | slice) -> ConsumerRecord[K, V] | list[ConsumerRecord[K, V]]:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            return self._slice(begin, end) if step == 1 else list(self)[index]
        place = range(len(self))[index]
        number = bisect_right(self._ends, place)
        part = self._parts[number]
        return part[place - self._ends[number] + len(part)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, RecordSequence)):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __add__(self, other: Iterable[ConsumerRecord[K, V]]) -> list[ConsumerRecord[K, V]]:
        return [*self, *other]

    def __radd__(self, other: Iterable[ConsumerRecord[K, V]]) -> list[ConsumerRecord[K, V]]:
        return [*other, *self]

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the response's memory: an unpickled copy has the records alone.
        return RecordSequence, ((list(self),),)

    def __repr__(self) -> str:
        if not self:
            return "<RecordSequence: no records>"
        first, last = self[0], self[-1]
        return (
            f"<RecordSequence: {len(self)} records of {first.topic}-{first.partition}, "
            f"offsets {first.offset} to {last.offset}>"
        )

    def _slice(self, begin: int, end: int) -> list[ConsumerRecord[K, V]]:
        """Return the records ``begin`` to ``end`` (exclusive) without reading parts that have none of them."""
        found: list[ConsumerRecord[K, V]] = []
        for number in range(bisect_right(self._ends, begin), len(self._parts)):
            part = self._parts[number]
            first = self._ends[number] - len(part)
            if first >= end:
                break
            found += part[max(begin - first, 0) : end - first]
        return found
