"""Leader epochs of a log with their start offsets (KIP-101, KIP-279, KIP-320).

Follows Kafka's ``LeaderEpochFileCache``. Both epochs and offsets are strictly ascending.
"""

from __future__ import annotations

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """The leader epochs of one log, oldest first."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []  #: (epoch, its first offset)

    @property
    def latest(self) -> int:
        """The latest epoch, -1 without one."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, start: int) -> None:
        """Set the start offset of an epoch; remove entries with the same or a later epoch or start offset."""
        entries = self.entries
        if epoch < 0 or (entries and entries[-1][0] == epoch and entries[-1][1] <= start):
            return
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start):
            entries.pop()
        entries.append((epoch, start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the highest epoch up to this one and its end offset; (-1, -1) if unknown.

        An epoch below all known ones ends where the first known one starts: its records have been deleted.
        """
        if epoch == -1 or not self.entries:
            return UNKNOWN
        if epoch == self.latest:
            return epoch, log_end
        found = epoch
        for known, start in self.entries:
            if known > epoch:
                return found, start
            found = known
        return UNKNOWN

    def truncate_to(self, end: int) -> None:
        """Remove epochs that start at or after an offset."""
        while self.entries and self.entries[-1][1] >= end:
            self.entries.pop()

    def start_at(self, start: int) -> None:
        """Remove epochs that end before the new log start offset; the epoch of that offset starts there."""
        entries = self.entries
        before = 0
        while before < len(entries) and entries[before][1] <= start:
            before += 1
        if before:
            entries[:before] = [(entries[before - 1][0], start)]
