"""Checks that no record is skipped.

The checker keeps the offset up to which a reader has got every record that counts (see :class:`~..truth.Truth`). When a
record or the position is beyond that offset, no record that counts may lie in between. Records that no longer count
(expired, compacted, lost) may be missing, and so may records that a seek skipped.

After an unclean election a reader may have records that no longer count. It must then read again from the end offset
that the newest leader answers for the epoch of the reader's last record (KIP-320). A leader that never had this epoch
answers with the end of the epoch before it. If the reader's position is below that end, the reader continues from its
position, as Java's consumer does: it cannot find out that the logs diverged earlier. If an older leader with the
reader's records is elected before the reader has gone back, the reader continues from its position, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message

from ..truth import Truth
from .base import Checker, Records, SimReader, by_reader
from .epochs import never_had, too_old_to_know


@dataclass(slots=True)
class _Covered:
    """How far a reader has read one partition without skipping a record."""

    up_to: int | None  #: Every record below this offset was read; None: the next record may have any offset.
    #: Offset and leader epoch of the last record that was read; after a seek or a truncation, of the record before the
    #: offset to continue at. None: unknown.
    last: tuple[int, int] | None = None
    #: The highest ``up_to`` before a :meth:`go_back`, with ``last`` at that time. None: no call, or it was undone.
    furthest: tuple[int, tuple[int, int]] | None = None

    def go_back(self, offset: int, last: tuple[int, int]) -> None:
        """Expect every record from ``offset`` on again. :meth:`recover` undoes this if the old records count again."""
        if self.up_to is not None and self.last is not None:
            here = self.up_to, self.last
            self.furthest = here if self.furthest is None else max(self.furthest, here)
        self.up_to, self.last = offset, last

    def recover(self, truth: Truth) -> None:
        """If the records that were read before :meth:`go_back` count again, expect only the records after them."""
        if self.furthest is None or truth.successor(*self.furthest[1]) is not None:
            return
        (up_to, last), self.furthest = self.furthest, None
        if self.up_to is not None and self.up_to < up_to:
            self.up_to, self.last = up_to, last


@dataclass(eq=False)
class CoverageChecker(Checker):
    """Checks that neither later records nor the position skip a record that counts (see :class:`.Truth`)."""

    _covered: dict[SimReader, dict[TopicPartition, _Covered]] = by_reader(dict)

    def assigned(self, reader: SimReader, tps: Sequence[TopicPartition]) -> None:
        """Expect a new partition's records from offset 0 on if ``auto_offset_reset`` is "earliest", else from any."""
        before = self._covered[reader]
        start = 0 if reader.policy == "earliest" else None
        self._covered[reader] = {tp: before.get(tp) or _Covered(start) for tp in tps}

    def sought(self, reader: SimReader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Expect every record from ``offset`` on, or any record if the reader resets to the end of a shorter log."""
        truth = self.truth(tp)
        is_there = reader.policy in ("earliest", "none") or (truth is not None and offset <= truth.end)
        self._covered[reader][tp] = _Covered(offset if is_there else None, (offset - 1, epoch) if epoch >= 0 else None)

    def reset(self, reader: SimReader, tp: TopicPartition, to_end: bool) -> None:
        """Expect every record from offset 0 on; after ``seek_to_end()``, the next record may have any offset."""
        self._covered[reader][tp] = _Covered(None if to_end else 0)

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """Let readers that are beyond the first lost record continue anywhere, since they may reset their position.

        A reader with ``auto_offset_reset="earliest"`` resets to the beginning, and skips nothing.
        """
        for reader, by_tp in self._covered.items():
            covered = by_tp.get(truth.tp)
            beyond = covered is not None and (covered.up_to is None or covered.up_to > offset)
            if covered is not None and beyond and reader.policy != "earliest":
                covered.up_to = None

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp, found in records.items():
            truth, covered = self.truth(tp), self._covered[reader].get(tp)
            if truth is None or covered is None:
                continue
            self._forgive(reader, covered, truth)
            for record in found:
                if not self._cover(reader, covered, truth, record.offset, record.leader_epoch):
                    return

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """Allow readers to continue at the end offset that a leader returned for an epoch which its log never had.

        Such readers cannot find out where the logs diverged. If the leader's epoch is older than the requested one, the
        reader resets: unless its policy is "earliest", the next record may have any offset.
        """
        for tp, epoch, end in never_had(request, response):
            truth = self.truth(tp)
            for _, covered in self._of(client, tp):
                if covered.up_to is None:
                    continue
                covered.up_to = max(covered.up_to, end)
                last = covered.last
                if last is not None and end <= last[0] and truth is not None and truth.successor(*last) is not None:
                    # The last record does not count, and after it the reader has passed a transaction marker with a
                    # newer epoch. So the reader requested the end of the marker's epoch, and continues at this end.
                    covered.go_back(end, (end - 1, epoch))
                elif last is not None and last[1] < epoch and truth is not None and truth.successor(*last) is not None:
                    # Also after such a marker, but below the end: the reader continues at its position.
                    covered.last = None
        for tp, epoch in too_old_to_know(request, response):
            truth = self.truth(tp)
            for reader, covered in self._of(client, tp):
                if reader.policy != "earliest" and truth is not None and epoch <= truth.latest_epoch:
                    covered.up_to = None

    def positioned(self, reader: SimReader, tp: TopicPartition, offset: int) -> None:
        truth, covered = self.truth(tp), self._covered[reader].get(tp)
        if truth is None or covered is None:
            return
        self._forgive(reader, covered, truth)
        covered.recover(truth)
        if covered.up_to is None:
            covered.up_to = offset
        elif covered.up_to < offset <= truth.end and covered.last is not None and covered.last[1] >= truth.latest_epoch:
            # A reader with a last record of an older epoch is not checked: transaction markers that do not count may
            # have moved its position.
            missing = truth.first_from(covered.up_to, offset, committed=reader.read_committed)
            if missing is not None:
                self._accuse(reader, tp, missing, f"has position {offset}", covered.up_to)

    def _of(self, client: str, tp: TopicPartition) -> list[tuple[SimReader, _Covered]]:
        return [(who, by_tp[tp]) for who, by_tp in self._covered.items() if who.name == client and tp in by_tp]

    def _cover(self, reader: SimReader, covered: _Covered, truth: Truth, offset: int, epoch: int) -> bool:
        """Note that a record was read; return False if records before it were skipped."""
        if truth.successor(offset, epoch) is not None:
            covered.last = offset, epoch  # a record that does not count: a deposed leader wrote it
            if covered.up_to is not None:
                covered.up_to = offset + 1
            return True
        covered.recover(truth)
        self._send_back(reader, covered, truth)
        up_to = covered.up_to
        missing = None
        if up_to is not None and offset > up_to:
            missing = truth.first_from(up_to, offset, committed=reader.read_committed)
        if missing is not None and truth.counts(offset, epoch):
            self._accuse(reader, truth.tp, missing, f"read offset {offset}", up_to)
            return False
        if missing is None and (up_to is None or offset >= up_to):
            covered.up_to = offset + 1
        covered.last = offset, epoch
        return True

    @staticmethod
    def _send_back(reader: SimReader, covered: _Covered, truth: Truth) -> None:
        """If the reader's last record no longer counts, expect every record from the end of that record's epoch on.

        Unless the reader resets to "earliest", any record may be next.
        """
        if covered.last is None or covered.up_to is None or truth.successor(*covered.last) is None:
            return
        back = truth.answer_for(covered.last[1])
        if reader.policy != "earliest":
            covered.up_to = None  # the position may have been out of range, so that the reader has reset it
        elif back is not None and back < covered.up_to:
            covered.go_back(back, covered.last)

    @staticmethod
    def _forgive(reader: SimReader, covered: _Covered, truth: Truth) -> None:
        """Let a reader below the log start offset skip the deleted records.

        Its position is out of range, and is reset: only with "earliest" must the next record be the first of the log.
        """
        if covered.up_to is not None and covered.up_to < truth.start:
            covered.up_to = truth.start if reader.policy == "earliest" else None

    def _accuse(self, reader: SimReader, tp: TopicPartition, missing: int, what: str, up_to: int | None) -> None:
        name = f"{tp.topic}-{tp.partition}"
        self.accuse(f"{reader} skipped {name} offset {missing}: it {what} after it had read every record below {up_to}")
