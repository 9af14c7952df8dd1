"""Does every partition only go forwards, as long as nobody has said otherwise?

What may say otherwise: the user's seek, and a loss of committed records by an unclean election, after which a reader
has to go back to where the logs part (KIP-320).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....types import TopicPartition
from ..truth import Truth
from .base import Checker, Reader, Records


class OrderChecker(Checker):
    """No record comes twice, none before its turn, and positions do not go back."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        #: The lowest offset that may come next; None: any.
        self._next: dict[Reader, dict[TopicPartition, int | None]] = {}

    def started(self, reader: Reader) -> None:
        """Nothing is known of it."""
        self._next[reader] = {}

    def ended(self, reader: Reader) -> None:
        """Nothing more will come."""
        self._next.pop(reader, None)

    def assigned(self, reader: Reader, tps: Sequence[TopicPartition]) -> None:
        """What stays assigned keeps its position."""
        before = self._next[reader]
        self._next[reader] = {tp: before.get(tp) for tp in tps}

    def sought(self, reader: Reader, tp: TopicPartition, offset: int) -> None:
        """The next one is that or a later one."""
        self._next[reader][tp] = offset

    def reset(self, reader: Reader, tp: TopicPartition, to_end: bool) -> None:
        """Anything may come."""
        self._next[reader][tp] = None

    def lost(self, truth: Truth, offset: int) -> None:
        """Whoever was past it may go back: to there, or, where its epoch is not known any more, by policy."""
        for expected in self._next.values():
            at = expected.get(truth.tp)
            if at is not None and at > offset:
                expected[truth.tp] = None

    def delivered(self, reader: Reader, records: Records, limit: int) -> None:
        """Compare offsets with those before."""
        expected = self._next[reader]
        for tp, found in records.items():
            at = expected.get(tp)
            for record in found:
                offset = record.offset
                if at is not None and offset < at:
                    self.accuse(f"{reader} read {tp.topic}-{tp.partition} offset {offset} again, when {at} was next")
                    return
                at = offset + 1
            expected[tp] = at
            truth = self.truth(tp)
            if found and truth is not None:
                last = found[-1]
                parted = truth.parted_at(last.leader_epoch)
                if parted is not None and last.offset >= parted:
                    expected[tp] = None  # it was read from a leader that had been deposed: this will be taken back

    def positioned(self, reader: Reader, tp: TopicPartition, offset: int) -> None:
        """A position is not below what was read."""
        at = self._next[reader].get(tp)
        if at is not None and offset < at:
            self.accuse(f"{reader}'s position of {tp.topic}-{tp.partition} went back from {at} to {offset}")
            return
        self._next[reader][tp] = offset
