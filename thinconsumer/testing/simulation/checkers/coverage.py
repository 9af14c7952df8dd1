"""Was anything skipped?

For each partition of a reader there is an offset up to which it has seen everything that counts. When it goes beyond,
by a record or by its position, nothing that counts may lie in between. What does not count any more (expired,
compacted, lost) may be missing, and so may be what the user jumped over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....types import TopicPartition
from ..truth import Truth
from .base import Checker, Reader, Records


@dataclass(slots=True)
class _Covered:
    """How far one partition has been read without a hole."""

    up_to: int | None  #: None: wherever it starts is right.
    epoch: int = -1  #: Of the record before, as far as the reader knows: what it can ask a new leader about.
    doubt: int | None = None  #: The epoch that a loss began: until it has read of it, a reader need not know.


class CoverageChecker(Checker):
    """Every record that counts is delivered before any later one, and before the position passes it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._covered: dict[Reader, dict[TopicPartition, _Covered]] = {}

    def started(self, reader: Reader) -> None:
        """Nothing is known of it."""
        self._covered[reader] = {}

    def ended(self, reader: Reader) -> None:
        """Nothing more will come."""
        self._covered.pop(reader, None)

    def assigned(self, reader: Reader, tps: Sequence[TopicPartition]) -> None:
        """A new one starts by policy: at the beginning, or somewhere."""
        before = self._covered[reader]
        start = 0 if reader.policy == "earliest" else None
        self._covered[reader] = {tp: before.get(tp) or _Covered(start) for tp in tps}

    def sought(self, reader: Reader, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """From there on everything is owed."""
        covered = self._covered[reader][tp] = _Covered(offset, epoch)
        truth = self.truth(tp)
        back = truth.answer_for(epoch) if truth is not None else None
        if truth is not None and back is not None and back < offset:
            self._send_back(reader, covered, truth, truth.latest_epoch)

    def reset(self, reader: Reader, tp: TopicPartition, to_end: bool) -> None:
        """From the beginning on everything is owed; where the end is, is not known."""
        self._covered[reader][tp] = _Covered(None if to_end else 0)

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """Whoever has read beyond owes itself what is written there now."""
        for reader, by_tp in self._covered.items():
            covered = by_tp.get(truth.tp)
            if covered is not None and (covered.up_to is None or covered.up_to > offset):
                self._send_back(reader, covered, truth, epoch)

    def delivered(self, reader: Reader, records: Records, limit: int) -> None:
        """Look for holes before each record."""
        for tp, found in records.items():
            truth, covered = self.truth(tp), self._covered[reader].get(tp)
            if truth is None or covered is None:
                continue
            self._forgive(reader, covered, truth)
            for record in found:
                if not self._cover(reader, tp, covered, truth, record.offset, record.leader_epoch):
                    return

    def positioned(self, reader: Reader, tp: TopicPartition, offset: int) -> None:
        """Look for holes before the position."""
        truth, covered = self.truth(tp), self._covered[reader].get(tp)
        if truth is None or covered is None or covered.doubt is not None:
            return
        self._forgive(reader, covered, truth)
        if covered.up_to is None:
            covered.up_to = offset
        elif covered.up_to < offset <= truth.end:
            missing = truth.first_from(covered.up_to, offset, committed=reader.read_committed)
            if missing is not None:
                self._accuse(reader, tp, missing, f"has position {offset}", covered.up_to)

    # -- inside

    def _cover(
        self, reader: Reader, tp: TopicPartition, covered: _Covered, truth: Truth, offset: int, epoch: int
    ) -> bool:
        """Note that a record was read; return whether all was well."""
        up_to = covered.up_to
        missing = None
        if up_to is not None and offset > up_to:
            missing = truth.first_from(up_to, offset, committed=reader.read_committed)
        if missing is not None:
            if truth.counts(offset, epoch):
                self._accuse(reader, tp, missing, f"read offset {offset}", up_to)
                return False
        elif up_to is None or offset >= up_to:
            covered.up_to = offset + 1
        covered.epoch = epoch
        successor = truth.successor(offset, epoch)
        if successor is not None:
            covered.doubt = successor
        elif covered.doubt is not None and epoch >= covered.doubt:
            covered.doubt = None
        return True

    @staticmethod
    def _send_back(reader: Reader, covered: _Covered, truth: Truth, epoch: int) -> None:
        """What was read is not there any more: a reader goes back to where the new leader says its epoch ended.

        Without an epoch to ask about it stays where it is, or goes by policy; "latest" leaves out what "earliest" does
        not.
        """
        covered.doubt = epoch
        back = truth.answer_for(covered.epoch)
        if covered.up_to is None or reader.policy != "earliest":
            covered.up_to = None
        elif back is not None:
            covered.up_to = min(covered.up_to, back)

    @staticmethod
    def _forgive(reader: Reader, covered: _Covered, truth: Truth) -> None:
        """Whoever had not come to the log's start when it moved goes on by policy, which may be the end."""
        if covered.up_to is not None and covered.up_to < truth.start:
            covered.up_to = truth.start if reader.policy == "earliest" else None

    def _accuse(self, reader: Reader, tp: TopicPartition, missing: int, what: str, up_to: int | None) -> None:
        name = f"{tp.topic}-{tp.partition}"
        self.accuse(f"{reader} skipped {name} offset {missing}: it {what}, having seen everything below {up_to}")
