"""Checks that each partition's records and positions only go forwards, unless the reader has a reason to go back.

Such reasons are a seek, and a loss of committed records by an unclean election: readers go back to where the logs
diverge (KIP-320), at any time until they have read a record of the new leader. If a deposed leader does not know the
last record's epoch, the reader resets by ``auto_offset_reset``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....types import TopicPartition
from ....wire import Message
from ..truth import Truth
from .base import Checker, Records, SimReader, by_reader
from .epochs import looked_up, too_old_to_know


@dataclass(slots=True)
class _Expected:
    """What may come next from one partition of a reader."""

    next: int | None = None  #: The lowest offset that may come next; None: any offset.
    doubt: int | None = None  #: The epoch that lost records: until it reads one of its records, the reader may go back.
    #: Records were lost right after the last record that was read. A position beyond it (after a transaction marker,
    #: for example) is then not kept in ``next``, since the reader may go back.
    parted: bool = False
    sought: bool = False  #: A seek has set ``next``, and no record has come since.


@dataclass(eq=False)
class OrderChecker(Checker):
    """Checks that no record comes twice or out of order, and that positions do not go back."""

    _expected: dict[SimReader, dict[TopicPartition, _Expected]] = by_reader(dict)

    def assigned(self, reader: SimReader, tps: Sequence[TopicPartition]) -> None:
        before = self._expected[reader]
        self._expected[reader] = {tp: before.get(tp) or _Expected() for tp in tps}

    def sought(self, reader: SimReader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Expect no record before ``offset``; if the log does not have that offset, any record may come (a reset)."""
        expected = self._expected[reader][tp] = _Expected(offset if self._exists(tp, offset) else None, sought=True)
        truth = self.truth(tp)
        back = truth.answer_for(epoch) if truth is not None else None
        if truth is not None and back is not None and back < offset:
            expected.doubt = truth.latest_epoch  # records before it were lost: the reader will go back
        elif truth is not None and epoch >= 0:
            expected.doubt = truth.rival(offset - 1, epoch)  # it may fetch from a deposed leader

    def reset(self, reader: SimReader, tp: TopicPartition, to_end: bool) -> None:
        self._expected[reader][tp] = _Expected()

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """Allow readers beyond the lost records to go back to them, or to reset if their epoch is unknown."""
        for by_tp in self._expected.values():
            expected = by_tp.get(truth.tp)
            if expected is not None and (expected.next is None or expected.next > offset):
                expected.doubt = epoch
            elif expected is not None:
                expected.parted = expected.next == offset

    def delivered(self, reader: SimReader, records: Records, limit: int) -> None:
        for tp, found in records.items():
            expected, truth = self._expected[reader].get(tp), self.truth(tp)
            if expected is None or truth is None or not found:
                continue  # nothing to compare; BoundsChecker reports empty lists
            at = None if expected.doubt is not None or _has_expired(expected, truth) else expected.next
            for record in found:
                offset = record.offset
                if at is not None and offset < at:
                    self.accuse(f"{reader} read {tp.topic}-{tp.partition} offset {offset} again, when {at} was next")
                    return
                at = offset + 1
            last = found[-1]
            expected.next, expected.parted, expected.sought = at, False, False
            # The reader goes back from a deposed leader's record, and may go back from one that a deposed leader lacks.
            successor = truth.successor(last.offset, last.leader_epoch)
            if successor is None:
                successor = truth.rival(last.offset, last.leader_epoch)
            if successor is not None:
                expected.doubt = successor
            elif expected.doubt is not None and last.leader_epoch >= expected.doubt:
                expected.doubt = None

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """Allow any record (a reset) after the answer of a leader that is older than the reader's epoch.

        The same holds for a deposed leader's ListOffsets response after a seek, which may be beyond its log.
        """
        for tp, asked, _ in looked_up(request, response):
            truth = self.truth(tp)
            for reader, by_tp in self._expected.items():
                found = by_tp.get(tp) if reader.name == client else None
                if found is None or not found.sought or truth is None:
                    continue
                if 0 <= asked.current_leader_epoch < truth.latest_epoch:
                    by_tp[tp] = _Expected()
        for tp, epoch in too_old_to_know(request, response):
            truth = self.truth(tp)
            for reader, by_tp in self._expected.items():
                if reader.name == client and tp in by_tp and truth is not None and epoch <= truth.latest_epoch:
                    by_tp[tp] = _Expected()

    def positioned(self, reader: SimReader, tp: TopicPartition, offset: int) -> None:
        expected, truth = self._expected[reader].get(tp), self.truth(tp)
        if expected is None or truth is None or expected.doubt is not None or _has_expired(expected, truth):
            return
        if expected.next is not None and offset < expected.next:
            self.accuse(f"{reader}'s position of {tp.topic}-{tp.partition} went back from {expected.next} to {offset}")
            return
        if self._exists(tp, offset) and not expected.parted:
            expected.next = offset

    def _exists(self, tp: TopicPartition, offset: int) -> bool:
        truth = self.truth(tp)
        return truth is not None and truth.start <= offset <= truth.end


def _has_expired(expected: _Expected, truth: Truth) -> bool:
    """Return whether the reader may reset, since the next record was deleted.

    It may even go back: a new leader may not have replicated the deletion yet, so that its log starts earlier.
    """
    return expected.next is not None and expected.next < truth.start
