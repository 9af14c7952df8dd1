"""Leader epochs of a log with their start offsets (KIP-101, KIP-279, KIP-320).

Follows Kafka's ``LeaderEpochFileCache``. Both epochs and offsets are strictly ascending.
"""

from __future__ import annotations

UNKNOWN = (-1, -1)


class LeaderEpochs(list[tuple[int, int]]):
    """The leader epochs of one log as (epoch, first offset), oldest first."""

    @property
    def latest(self) -> int:
        """The latest epoch, -1 without one."""
        return self[-1][0] if self else -1

    def assign(self, epoch: int, start: int) -> None:
        """Set the start offset of an epoch; remove entries with the same or a later epoch or start offset."""
        if epoch < 0 or (self and self[-1][0] == epoch and self[-1][1] <= start):
            return
        while self and (self[-1][0] >= epoch or self[-1][1] >= start):
            self.pop()
        self.append((epoch, start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the highest epoch up to this one and its end offset; (-1, -1) if unknown.

        An epoch below all known ones ends where the first known one starts: its records have been deleted.
        """
        if epoch == -1 or not self:
            return UNKNOWN
        if epoch == self.latest:
            return epoch, log_end
        found = epoch
        for known, start in self:
            if known > epoch:
                return found, start
            found = known
        return UNKNOWN

    def truncate_to(self, end: int) -> None:
        """Remove epochs that start at or after an offset."""
        while self and self[-1][1] >= end:
            self.pop()

    def start_at(self, start: int) -> None:
        """Remove epochs that end before the new log start offset; the epoch of that offset starts there."""
        before = sum(first <= start for _, first in self)
        if before:
            self[:before] = [(self[before - 1][0], start)]
