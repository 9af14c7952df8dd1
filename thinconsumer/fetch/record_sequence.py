"""The records of one partition that a poll returns, without building all of them at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from operator import eq
from typing import Any, Generic, TypeVar, overload

from ..types import ConsumerRecord

__all__ = ["LIST_MAX", "RecordSequence", "as_list_or_sequence"]

K = TypeVar("K")
V = TypeVar("V")

#: A poll returns a list of up to this many records of a partition. A list of more records would take longer to read:
#: they leave the processor's caches before the program comes to them, and Python's garbage collection visits them all.
LIST_MAX = 500


class RecordSequence(Sequence[ConsumerRecord[K, V]], Generic[K, V]):
    """The records of one partition in offset order, built while a program iterates over them.

    It cannot be changed; apart from that, it can be used like a list, and is equal to a list of the same records. Each
    iteration and each index builds records anew; ``list(records)`` builds all of them once. Until it is no longer
    referenced, the sequence keeps a copy of the decompressed batches that were decoded together, those of other
    partitions included: up to 2 MB and a batch for each such decoding. Its records do not.
    """

    __slots__ = ("_ends", "_parts")
    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash

    def __init__(self, parts: Iterable[Sequence[ConsumerRecord[K, V]]] = ()) -> None:
        self._parts = tuple(parts)
        self._ends = list(accumulate(map(len, self._parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return chain.from_iterable(self._parts)

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
        """Return the records ``begin`` to ``end`` (exclusive) without building any others."""
        found: list[ConsumerRecord[K, V]] = []
        for number in range(bisect_right(self._ends, begin), len(self._parts)):
            part = self._parts[number]
            first = self._ends[number] - len(part)
            if first >= end:
                break
            found += part[max(begin - first, 0) : end - first]
        return found


def as_list_or_sequence(parts: list[Sequence[ConsumerRecord[K, V]]]) -> Sequence[ConsumerRecord[K, V]]:
    """Return the records of these parts: a list if there are few of them, or if all are built already."""
    if len(parts) == 1 and isinstance(parts[0], list):
        return parts[0]
    if all(isinstance(part, list) for part in parts) or sum(map(len, parts)) <= LIST_MAX:
        return list(chain.from_iterable(parts))
    return RecordSequence(parts)
