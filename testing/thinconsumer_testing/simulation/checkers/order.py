"""Checks that each partition's records and positions only go forwards, unless the reader has a reason to go back.

Reasons are a seek, the deletion of the next record, and a loss of committed records by an unclean election: the reader
goes back to the offset where the logs diverge (KIP-320), at any time until it has read a record of the new leader. If a
deposed leader does not know the leader epoch of the reader's last record, the reader resets its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message

from ..truth import Truth
from .base import Checker, Records, SimReader, by_reader
from .epochs import looked_up, too_old_to_know


@dataclass(slots=True)
class _Expected:
    """The records and positions of one partition that a reader may return next."""

    next: int | None = None  #: The lowest offset that the next record or position may have; None: any offset.
    #: The epoch of a leader that lacks records which the reader has passed. The reader may go back to where that
    #: leader's log differs, until it gets a record of this epoch or a newer one. None: there is no such leader.
    doubt: int | None = None
    #: Whether an election has lost the records right after the last one that the reader got. ``next`` then stays the
    #: offset after that record, even if the position is higher (after a transaction marker): the reader may detect the
    #: truncation, and go back.
    parted: bool = False
    sought: bool = False  #: Whether ``next`` comes from a seek, and no record has been read since.


@dataclass(eq=False)
class OrderChecker(Checker):
    """Checks that no record comes twice or out of order, and that positions do not go back."""

    _expected: dict[SimReader, dict[TopicPartition, _Expected]] = by_reader(dict)

    def assigned(self, reader: SimReader, tps: Sequence[TopicPartition]) -> None:
        before = self._expected[reader]
        self._expected[reader] = {tp: before.get(tp) or _Expected() for tp in tps}

    def sought(self, reader: SimReader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Expect no record before ``offset``; any record if the log lacks this offset, as the reader then resets."""
        expected = self._expected[reader][tp] = _Expected(offset if self._exists(tp, offset) else None, sought=True)
        truth = self.truth(tp)
        back = truth.answer_for(epoch) if truth is not None else None
        if truth is not None and back is not None and back < offset:
            expected.doubt = truth.latest_epoch  # records before ``offset`` were lost: the reader will go back
        elif truth is not None and epoch >= 0:
            # The reader goes back if it fetches from a deposed leader that lacks the record before ``offset``.
            expected.doubt = truth.rival(offset - 1, epoch)

    def reset(self, reader: SimReader, tp: TopicPartition, to_end: bool) -> None:
        self._expected[reader][tp] = _Expected()

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """Allow readers that are beyond the first lost record to go back, or to reset if they know no leader epoch."""
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
                continue  # there is no record to compare; BoundsChecker reports an empty list
            at = None if expected.doubt is not None or _has_expired(expected, truth) else expected.next
            for record in found:
                offset = record.offset
                if at is not None and offset < at:
                    self.accuse(f"{reader} read {tp.topic}-{tp.partition} offset {offset} again, when {at} was next")
                    return
                at = offset + 1
            last = found[-1]
            expected.next, expected.parted, expected.sought = at, False, False
            # If a deposed leader wrote the last record, the reader will go back. If a deposed leader lacks this record,
            # the reader may go back, since that leader may answer the reader's OffsetForLeaderEpoch request.
            successor = truth.successor(last.offset, last.leader_epoch)
            if successor is None:
                successor = truth.rival(last.offset, last.leader_epoch)
            if successor is not None:
                expected.doubt = successor
            elif expected.doubt is not None and last.leader_epoch >= expected.doubt:
                expected.doubt = None

    def answered(self, client: str, node: int, request: Message, response: Message, now: float) -> None:
        """Allow any record after a response upon which the reader may reset its position.

        One is the OffsetForLeaderEpoch response of a leader that is older than the requested epoch. The other is a
        deposed leader's ListOffsets response after a seek, since the log of that leader may end before the position.
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
    """Return whether the next record was deleted, so that the reader resets its position.

    The reset may even go back: the log of a new leader that has not replicated the deletion yet starts earlier.
    """
    return expected.next is not None and expected.next < truth.start
