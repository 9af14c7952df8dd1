"""Transactions of one log: ongoing, completed and aborted ones, and the last stable offset.

Follows the transactional half of Kafka's ``ProducerStateManager``, and its ``TransactionIndex``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction that has ended: its marker is in the log."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int  #: The last stable offset after this transaction was completed.


class LogTransactions:
    """Ongoing transactions by producer id; completed ones in the order of their markers' offsets."""

    __slots__ = ("aborted", "completed", "ongoing")

    def __init__(self) -> None:
        #: The first offset of each ongoing transaction by producer id, in ascending order of offsets.
        self.ongoing: dict[int, int] = {}
        self.completed: list[CompletedTransaction] = []
        self.aborted: list[CompletedTransaction] = []

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add an ongoing transaction of a producer; its first batch begins at ``first_offset``."""
        self.ongoing[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, is_abort: bool) -> None:
        """Complete the producer's ongoing transaction at the marker's offset; without a transaction, do nothing."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        stable = next(iter(self.ongoing.values()), marker_offset + 1)
        ended = CompletedTransaction(producer_id, first, marker_offset, stable)
        self.completed.append(ended)
        if is_abort:
            self.aborted.append(ended)

    def first_unstable(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction without a marker below the high watermark, if any."""
        at = bisect_left(self.completed, high_watermark, key=_marker_offset)
        unstable = [one.first_offset for one in self.completed[at:]]
        if self.ongoing:
            unstable.append(next(iter(self.ongoing.values())))
        return min(unstable, default=None)

    def aborted_in(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that may have batches between two offsets, in the
        order of their markers.
        """
        found = []
        for one in self.aborted[bisect_left(self.aborted, start, key=_marker_offset) :]:
            if one.first_offset < end:
                found.append((one.producer_id, one.first_offset))
            if one.last_stable_offset >= end:
                break  # all transactions that were completed later began at or after ``end``
        return found

    def forget_before(self, start: int) -> None:
        """Remove the completed transactions with markers below the new log start offset."""
        for index in (self.completed, self.aborted):
            del index[: bisect_left(index, start, key=_marker_offset)]


def _marker_offset(ended: CompletedTransaction) -> int:
    return ended.marker_offset
