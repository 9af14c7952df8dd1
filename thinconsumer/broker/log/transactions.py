"""Transactions in one log: which are open, how far read_committed may read, which were aborted.

Follows the transactional half of Kafka's ``ProducerStateManager``, and its ``TransactionIndex``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction that has its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int  #: Up to where all transactions were decided when this one was.


class LogTransactions:
    """Open ones by producer; ended ones by their marker's offset, which is the order they are noted in."""

    __slots__ = ("aborted", "completed", "ongoing")

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}  #: First offsets by producer id, ascending: they are noted as they begin.
        self.completed: list[CompletedTransaction] = []
        self.aborted: list[CompletedTransaction] = []

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A producer has none open and writes its first batch of one."""
        self.ongoing[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, is_abort: bool) -> None:
        """A marker was appended. One without a transaction changes nothing."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        stable = next(iter(self.ongoing.values()), marker_offset + 1)
        ended = CompletedTransaction(producer_id, first, marker_offset, stable)
        self.completed.append(ended)
        if is_abort:
            self.aborted.append(ended)

    def first_unstable(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction that is open, or whose marker is not committed."""
        at = bisect_left(self.completed, high_watermark, key=_marker_offset)
        unstable = [one.first_offset for one in self.completed[at:]]
        if self.ongoing:
            unstable.append(next(iter(self.ongoing.values())))
        return min(unstable, default=None)

    def aborted_in(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of those that may have batches there, by the offsets of their markers."""
        found = []
        for one in self.aborted[bisect_left(self.aborted, start, key=_marker_offset) :]:
            if one.first_offset < end:
                found.append((one.producer_id, one.first_offset))
            if one.last_stable_offset >= end:
                break  # whatever ended later began there or later
        return found

    def forget_before(self, start: int) -> None:
        """Forget those whose markers are deleted."""
        for index in (self.completed, self.aborted):
            del index[: bisect_left(index, start, key=_marker_offset)]


def _marker_offset(ended: CompletedTransaction) -> int:
    return ended.marker_offset
