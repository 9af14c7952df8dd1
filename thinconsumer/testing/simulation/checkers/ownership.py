"""Is anything delivered that the reader did not want at that moment?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....types import TopicPartition
from .base import Checker, Reader, Records


class OwnershipChecker(Checker):
    """Records come only of partitions that are assigned and not paused.

    Who owns a partition by the coordinator's answers is for the checkers of groups, which will stand beside this one.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._assigned: dict[Reader, set[TopicPartition]] = {}
        self._paused: dict[Reader, set[TopicPartition]] = {}

    def started(self, reader: Reader) -> None:
        """It has nothing."""
        self._assigned[reader], self._paused[reader] = set(), set()

    def ended(self, reader: Reader) -> None:
        """It has nothing any more."""
        self._assigned[reader], self._paused[reader] = set(), set()

    def assigned(self, reader: Reader, tps: Sequence[TopicPartition]) -> None:
        """It has these."""
        self._assigned[reader] = set(tps)
        self._paused[reader] &= set(tps)

    def paused(self, reader: Reader, tps: Iterable[TopicPartition], on: bool) -> None:
        """It wants these, or does not."""
        if on:
            self._paused[reader] |= set(tps)
        else:
            self._paused[reader] -= set(tps)

    def delivered(self, reader: Reader, records: Records, limit: int) -> None:
        """Compare with what it has and wants."""
        for tp in records:
            name = f"{tp.topic}-{tp.partition}"
            if tp not in self._assigned[reader]:
                self.accuse(f"{reader} was given records of {name}, which is not assigned to it")
            elif tp in self._paused[reader]:
                self.accuse(f"{reader} was given records of {name}, which it has paused")
