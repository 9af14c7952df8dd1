"""The records of one partition that a poll returns, without building all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
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
    iteration and each index builds records anew; ``list(records)`` builds all of them once. The sequence keeps the
    memory of the response that the records came in, until it is no longer referenced; its records do not.
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
            return list(self)[index]
        place = range(len(self))[index]
        for part, end in zip(self._parts, self._ends):
            if place < end:
                return part[place - end + len(part)]
        raise IndexError("record index out of range")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, RecordSequence)):
            return NotImplemented
        return len(self) == len(other) and all(map(ConsumerRecord.__eq__, self, other))

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


def as_list_or_sequence(parts: list[Sequence[ConsumerRecord[K, V]]]) -> Sequence[ConsumerRecord[K, V]]:
    """Return the records of these parts: a list if there are few of them, or if all are built already."""
    if len(parts) == 1 and isinstance(parts[0], list):
        return parts[0]
    if all(isinstance(part, list) for part in parts) or sum(map(len, parts)) <= LIST_MAX:
        return list(chain.from_iterable(parts))
    return RecordSequence(parts)
