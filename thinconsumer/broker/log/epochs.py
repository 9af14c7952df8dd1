"""Which leader epoch began at which offset, and where each ended (KIP-101, KIP-279, KIP-320).

Follows Kafka's ``LeaderEpochFileCache``. Epochs and offsets both ascend, strictly.
"""

from __future__ import annotations

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []  #: (epoch, its first offset)

    @property
    def latest(self) -> int:
        """The newest epoch, -1 when there is none."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, start: int) -> None:
        """Learn that an epoch begins there. What contradicts that is forgotten: newer news is better news."""
        entries = self.entries
        if epoch < 0 or (entries and entries[-1][0] == epoch and entries[-1][1] <= start):
            return
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start):
            entries.pop()
        entries.append((epoch, start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the highest epoch not above this one, and where it ended; (-1, -1) when that cannot be known.

        An epoch below all that are known ends where the first known one begins: all it had is deleted.
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
        """Forget the epochs that begin at or after an offset."""
        while self.entries and self.entries[-1][1] >= end:
            self.entries.pop()

    def start_at(self, start: int) -> None:
        """Forget the epochs that ended before an offset; the one it lies in begins there from now on."""
        entries = self.entries
        before = 0
        while before < len(entries) and entries[before][1] <= start:
            before += 1
        if before:
            entries[:before] = [(entries[before - 1][0], start)]
