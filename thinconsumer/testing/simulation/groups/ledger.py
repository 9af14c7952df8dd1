"""What a group has processed, all members together: the promise that counts in the end.

Owns, per group and partition, which records some application was through with, and how often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....types import ConsumerRecord, TopicPartition
from ..truth import Truth


class Ledger:
    """One group's."""

    def __init__(self, truth: Callable[[TopicPartition], Truth | None], *, read_committed: bool) -> None:
        self.read_committed = read_committed
        self.count = 0
        self.doubles = 0
        #: From then on nothing may be processed twice; None: anything may.
        self.strict_since: float | None = None
        self._truth = truth
        self._done: dict[TopicPartition, dict[int, int]] = {}  #: Offset to epoch, of what was processed.
        self._up_to: dict[TopicPartition, int] = {}  #: Everything before has been processed.

    def process(self, records: Iterable[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Note records; return those that were processed before, while that is forbidden."""
        twice = []
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            done = self._done.setdefault(tp, {})
            self.count += 1
            if done.get(record.offset) == record.leader_epoch:
                self.doubles += 1
                if self.strict_since is not None:
                    twice.append(record)
            done[record.offset] = record.leader_epoch
        return twice

    def first_missing(self, tp: TopicPartition, before: int | None = None) -> int | None:
        """Return the first offset that nobody has processed, of those ``before`` an offset; None if all are."""
        truth = self._truth(tp)
        if truth is None:
            return None
        high = truth.end if before is None else before
        low = self._up_to.get(tp, 0)
        done = self._done.get(tp, {})
        missing = truth.first_from(low, high, committed=self.read_committed, but=done)
        if not self.read_committed:  # else what is hidden now may come to light
            self._up_to[tp] = max(low, min(high, truth.end) if missing is None else missing)
        return missing

    def next_from(self, tp: TopicPartition, offset: int) -> int | None:
        """Return the first record that a member has yet to read whose position is ``offset``; None: there is none."""
        truth = self._truth(tp)
        return None if truth is None else truth.first_from(offset, truth.end, committed=self.read_committed)
