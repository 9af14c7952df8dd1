"""Leader epochs of a log with their start offsets (KIP-101, KIP-279, KIP-320).

Follows Kafka's ``LeaderEpochFileCache``. Both epochs and offsets are strictly ascending.
"""

UNKNOWN = (-1, -1)


class LeaderEpochs(list[tuple[int, int]]):
    """The leader epochs of one log as (epoch, first offset), oldest first."""

    @property
    def latest(self) -> int:
        """The latest leader epoch of the log, -1 if it has none."""
        return self[-1][0] if self else -1

    def assign(self, epoch: int, start: int) -> None:
        """Add an epoch that starts at the offset ``start``, unless it is the latest one already.

        Entries with a later epoch, or with the same or a later start offset, are removed.
        """
        if epoch < 0 or (self and self[-1][0] == epoch and self[-1][1] <= start):
            return
        while self and (self[-1][0] >= epoch or self[-1][1] >= start):
            self.pop()
        self.append((epoch, start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the highest epoch of the log that is not above ``epoch``, and its end offset (exclusive).

        If ``epoch`` is below all epochs of the log, its records have been deleted: return ``epoch`` with the start
        offset of the log's first epoch. Return (-1, -1) if ``epoch`` is -1 or above all epochs, or there are none.
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
        """Remove the epochs that start at or after ``end``, the new log end offset."""
        while self and self[-1][1] >= end:
            self.pop()

    def start_at(self, start: int) -> None:
        """Remove the epochs that end at or before ``start``, the new log start offset. The epoch that contains this
        offset then starts there.
        """
        before = sum(first <= start for _, first in self)
        if before:
            self[:before] = [(self[before - 1][0], start)]
