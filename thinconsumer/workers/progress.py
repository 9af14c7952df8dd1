"""Which records of one partition are finished: the offset to commit, the map behind it, and what still fits into it.

Records are received in the order of the log, dispatched in any order, and finished in any order. The committed offset
is that of the first unfinished record. The map has to name every other unfinished record below the last finished one,
in bounded space and whatever the order in which the dispatched records finish. So a record is only dispatched if the
map fits even when that record finishes first of all: its size then bounds that of every later map.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from .offset_map import HEADER_MAX, OffsetMap, bitmap_size, encode, epoch_size, gap_size, number_size, room_for

#: How many runs of finished records of one leader epoch are remembered. Others are processed again after a truncation.
PASSED_RUNS = 100


class _Unfinished:
    """An unfinished record, in a list that is linked in the order of the log."""

    __slots__ = ("before", "next", "offset")
    before: _Unfinished
    next: _Unfinished

    def __init__(self, offset: int) -> None:
        self.offset = offset


class PartitionProgress:
    """The unfinished records of one assigned partition, from its committed offset on.

    Args:
        offset: where the partition is read from: the committed offset, or where a reset has put the position; -1 if
            that is not known before the first record.
        leader_epoch: of the last record before it, -1 if unknown.
        topic_id: written into maps.
        text_max: the longest metadata of a commit, in characters (the broker's ``offset.metadata.max.bytes``).
        distance_max: how far a dispatched record may be from the committed offset. A restart reads so much again.
        restored: the map that the commit of ``offset`` had.
    """

    def __init__(
        self,
        offset: int,
        leader_epoch: int = -1,
        topic_id: bytes = bytes(16),
        text_max: int = 4096,
        distance_max: int = 1_000_000,
        restored: OffsetMap | None = None,
    ) -> None:
        self.topic_id = topic_id
        self._room = room_for(text_max) - HEADER_MAX
        self._distance_max = distance_max
        #: Both ends of the linked list; ``_ends.next`` is the first unfinished record.
        self._ends = _Unfinished(-1)
        self._ends.before = self._ends.next = self._ends
        self._by_offset: dict[int, _Unfinished] = {}
        self.next_offset = offset  #: The offset after the last record received.
        #: The first offset and leader epoch of each run of records from the last one before the committed offset on.
        self._epochs = deque([(offset - 1, leader_epoch)])
        self.begun = offset  #: The offset that this was begun with.
        #: Those before, of finished records: by them it is known which of them were replaced if the log is truncated.
        self._passed: deque[tuple[int, int]] = deque(maxlen=PASSED_RUNS)
        self._dispatched_end = offset  #: The offset after the last record that was dispatched.
        self._finished_end = offset  #: The offset after the last record that is finished.
        self._counted = self._ends  #: The last unfinished record below ``_dispatched_end``; ``_ends`` if there is none.
        self.finished_count = 0  #: How many records have finished under this owner.
        self._gaps_size = 0  #: The size of a body of gaps of the unfinished records up to ``_counted``.
        #: Unfinished records of the restored map that have not been received yet, in order.
        self._expected: deque[int] = deque()
        self._restored = restored
        if restored is not None:
            self._restore(restored)

    def _restore(self, restored: OffsetMap) -> None:
        self._expected.extend((restored.offset, *restored.unfinished))
        for offset in self._expected:
            self._append(offset)
        self._epochs.extend(restored.epochs)
        self._dispatched_end = self._finished_end = restored.end
        self._count_again()

    # -- records, in the order of the log

    def receive(self, offset: int, leader_epoch: int) -> bool:
        """Take the next record of the log. Return False if the restored map names it as finished."""
        restored = self._restored
        if restored is not None:
            if offset >= restored.end:
                self._end_restored(restored.end)
            elif restored.epoch_of(offset) not in (-1, leader_epoch):  # those of a foreign map are unknown
                # The log was truncated and has grown again: from here on the map names records that are gone.
                self._end_restored(offset)
            else:
                self._drop_expected(offset)
                is_unfinished = bool(self._expected) and self._expected[0] == offset
                if is_unfinished:
                    self._expected.popleft()
                self.next_offset = offset + 1
                return is_unfinished
        if self._epochs[-1][1] != leader_epoch:
            self._epochs.append((offset, leader_epoch))
        self._append(offset)
        self.next_offset = offset + 1  # at last: cut off by Ctrl-C before this line, no commit is past the record
        return True

    def advance(self, position: int) -> None:
        """Take note that the log has no more records before ``position``: compaction or control batches left a gap."""
        if position > self.next_offset:
            if self._restored is not None:
                self._drop_expected(position)
            self.next_offset = position

    def _drop_expected(self, offset: int) -> None:
        """Drop the records below ``offset`` that the map names, and that the log does not have any more."""
        while self._expected and self._expected[0] < offset:
            self._remove(self._expected.popleft())

    def _end_restored(self, end: int) -> None:
        """Stop to use the restored map at ``end``: what it names from there on is unknown."""
        self._restored = None
        self._drop_expected(end)
        while self._expected:
            self._remove(self._expected.popleft())
        while len(self._epochs) > 1 and self._epochs[-1][0] >= end:
            self._epochs.pop()
        self._dispatched_end = min(self._dispatched_end, end)
        self._finished_end = min(self._finished_end, end)
        while self._finished_end - 1 in self._by_offset:
            self._finished_end -= 1
        self._count_again()

    # -- dispatching and finishing

    def dispatch(self, offset: int) -> bool:
        """Dispatch an unfinished record; return False if it has to wait until earlier ones are finished."""
        if offset < self._dispatched_end:
            return True
        first = self._ends.next
        if offset != first.offset:
            if offset - first.offset >= self._distance_max:
                return False
            room = self._room - self._epochs_size()
            if bitmap_size(first.offset, offset + 1) > room:
                size = self._gaps_size
                each = self._counted
                while each.offset < offset:
                    each = each.next
                    if each is not first:
                        size += gap_size(each.before.offset, each.offset)
                        if size > room:
                            return False
        self._dispatched_end = offset + 1
        self._count_on()
        return True

    def finish(self, offset: int) -> None:
        """Take note that a dispatched record is finished."""
        self._remove(offset)
        self.finished_count += 1
        if offset >= self._finished_end:
            self._finished_end = offset + 1

    @property
    def offset(self) -> int:
        """The offset to commit: that of the first unfinished record, or of the next one to receive."""
        first = self._ends.next
        return first.offset if first is not self._ends else self.next_offset

    @property
    def count(self) -> int:
        """How many records are unfinished, received or not."""
        return len(self._by_offset)

    @property
    def received_count(self) -> int:
        """How many records were received and are unfinished. Others may be gone from the log."""
        return len(self._by_offset) - len(self._expected)

    def leader_epoch(self) -> int:
        """Return the leader epoch of the last record before :attr:`offset`; -1 if unknown (KIP-320)."""
        self._drop_epochs(self.offset - 1)
        return self._epochs[0][1]

    def epoch_of(self, offset: int) -> int | None:
        """Return the leader epoch of a record received, or of the one before :attr:`begun`; None if it is not known."""
        runs = [*self._passed, *self._epochs]
        run = bisect_right(runs, offset, key=lambda each: each[0]) - 1
        is_known = offset >= self.begun - 1 and run >= 0 and runs[run][1] >= 0
        return runs[run][1] if is_known else None

    def metadata(self) -> str:
        """Return what to commit with :attr:`offset`: the map as text, empty if no record behind it is finished."""
        found = self.offset_map()
        return "" if found is None else encode(found)

    def offset_map(self) -> OffsetMap | None:
        """Return which records behind :attr:`offset` are finished; None if none is."""
        first = self._ends.next
        if first is self._ends or self._finished_end <= first.offset:
            return None
        self._drop_epochs(first.offset - 1)
        unfinished = []
        each = first.next
        while each is not self._ends and each.offset < self._finished_end:
            unfinished.append(each.offset)
            each = each.next
        epochs = [(max(at, first.offset), epoch) for at, epoch in self._epochs if at < self._finished_end]
        if len(epochs) > 1 and epochs[1][0] == first.offset:
            del epochs[0]  # of the record before
        return OffsetMap(first.offset, self._finished_end, unfinished, epochs, self.topic_id)

    # -- the list, and the size of a map of all that is dispatched

    def _append(self, offset: int) -> None:
        each, last = _Unfinished(offset), self._ends.before
        each.before, each.next = last, self._ends
        last.next = self._ends.before = each
        self._by_offset[offset] = each

    def _remove(self, offset: int) -> None:
        each = self._by_offset.pop(offset)
        before, after = each.before, each.next
        before.next, after.before = after, before
        if offset < self._dispatched_end:
            if each is self._counted:
                self._counted = before
            elif before is self._ends:  # the second record is the first now, which takes no space
                self._gaps_size -= gap_size(offset, after.offset)
            else:
                self._gaps_size += gap_size(before.offset, after.offset) - gap_size(offset, after.offset)
            if before is not self._ends:
                self._gaps_size -= gap_size(before.offset, offset)

    def _count_on(self) -> None:
        """Count the unfinished records up to the last one dispatched."""
        each, first = self._counted.next, self._ends.next
        while each is not self._ends and each.offset < self._dispatched_end:
            if each is not first:
                self._gaps_size += gap_size(each.before.offset, each.offset)
            self._counted = each
            each = each.next

    def _count_again(self) -> None:
        self._counted, self._gaps_size = self._ends, 0
        self._count_on()

    def _drop_epochs(self, offset: int) -> None:
        """Drop the leader epochs that ended before ``offset``."""
        while len(self._epochs) > 1 and self._epochs[1][0] <= offset:
            self._passed.append(self._epochs.popleft())

    def _epochs_size(self) -> int:
        self._drop_epochs(self.offset - 1)
        size = number_size(len(self._epochs))
        before = self._epochs[0][0]
        for first, epoch in self._epochs:
            size += epoch_size(before, first, epoch)
            before = first
        return size
