"""The ledger of a group: the records that its members have processed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer_testing.simulation.truth import Truth

if TYPE_CHECKING:
    from .actors.member import MemberActor
    from .knobs import GroupKnobs


class Ledger:
    """The processed records of one group, by partition."""

    def __init__(self, truth: Callable[[TopicPartition], Truth | None], read_committed: bool) -> None:
        self.read_committed = read_committed
        self.count = 0
        self.doubles = 0
        #: The time since which processing a record twice is a violation; None while repetitions are allowed.
        self.strict_since: float | None = None
        self._truth = truth
        #: By partition: the leader epochs of the processed records, by offset.
        self._done: dict[TopicPartition, dict[int, int]] = {}
        #: By partition: the offset and leader epoch of processed records where one of a newer epoch was processed, too.
        self._replaced: dict[TopicPartition, set[tuple[int, int]]] = {}
        self._up_to: dict[TopicPartition, int] = {}  #: By partition: all records below this offset are processed.
        #: By partition: the offset and leader epoch of records that need not be processed, as they were lost once.
        self._excused: dict[TopicPartition, set[tuple[int, int]]] = {}

    def process(self, records: Iterable[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Add processed records; return those that were processed before, but none while repetitions are allowed."""
        twice = []
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            done = self._done.setdefault(tp, {})
            self.count += 1
            if done.get(record.offset) == record.leader_epoch:
                self.doubles += 1
                if self.strict_since is not None:
                    twice.append(record)
            # A member that has not noticed a truncation may process a record that another one has replaced. If a
            # deposed leader is elected again, that is the one that counts.
            older, newer = sorted((record.leader_epoch, done.get(record.offset, record.leader_epoch)))
            if older != newer:
                self._replaced.setdefault(tp, set()).add((record.offset, older))
            done[record.offset] = newer
        return twice

    def lost(self, truth: Truth, offset: int, epoch: int) -> None:
        """Excuse the group from the records from ``offset`` on, which the leader of ``epoch`` is about to lose.

        Those that a later election of the old leader brings back need not be processed: members are past them. The
        records stay due if the leader of ``epoch`` is a deposed one.
        """
        self._up_to[truth.tp] = min(self._up_to.get(truth.tp, 0), offset)
        if epoch > truth.latest_epoch:
            self._excuse(truth, offset, truth.end, lambda key: True)

    def never_had(self, tp: TopicPartition, end: int) -> None:
        """Excuse the group from records below ``end`` that a rival of the leader lacks.

        The leader never had the epoch of a member's last record, and has answered with the ``end`` of an older one. A
        member with a lower position goes on there, wherever the logs diverged.
        """
        if (truth := self._truth(tp)) is not None:
            self._excuse(truth, 0, end, lambda key: truth.rival(*key) is not None)

    def _excuse(self, truth: Truth, low: int, high: int, may: Callable[[tuple[int, int]], bool]) -> None:
        excused = self._excused.setdefault(truth.tp, set())
        while (found := truth.first_from(low, high, committed=False)) is not None:
            if may(key := (found, truth.epoch_at(found))):
                excused.add(key)
            low = found + 1

    def first_missing(self, tp: TopicPartition, before: int | None = None) -> int | None:
        """Return the first unprocessed offset below ``before`` (None: the committed records' end); None if none."""
        truth = self._truth(tp)
        if truth is None:
            return None
        high = truth.end if before is None else before
        low = self._up_to.get(tp, 0)
        missing = next(self.missing(tp, low, high), None)
        # Under read_committed, ``_up_to`` is not raised: once an open transaction commits, its records below the limit
        # have to be processed, too.
        if not self.read_committed:
            self._up_to[tp] = max(low, min(high, truth.end) if missing is None else missing)
        return missing

    def missing(self, tp: TopicPartition, low: int, high: int, epoch: int | None = None) -> Iterator[int]:
        """Yield the unprocessed offsets from ``low`` to below ``high``, of leader epochs up to ``epoch``."""
        truth, done = self._truth(tp), self.done(tp)
        excused, replaced = self._excused.get(tp), self._replaced.get(tp)
        while truth is not None:
            found = truth.first_from(low, high, committed=self.read_committed, but=done)
            if found is None:
                return
            is_excused = any((found, truth.epoch_at(found)) in each for each in (excused, replaced) if each)
            if not is_excused and (epoch is None or truth.epoch_at(found) <= epoch):
                yield found
            low = found + 1

    def done(self, tp: TopicPartition) -> Mapping[int, int]:
        """Return the leader epochs of a partition's processed records, by offset."""
        return self._done.setdefault(tp, {})

    def next_from(self, tp: TopicPartition, offset: int) -> int | None:
        """Return the first offset from ``offset`` on with a record that members must process, None if there is none."""
        truth = self._truth(tp)
        return None if truth is None else truth.first_from(offset, truth.end, committed=self.read_committed)


@dataclass
class SimulatedGroup:
    """One group: its members, and the records that they have processed together."""

    name: str
    knobs: GroupKnobs
    ledger: Ledger
    members: list[MemberActor] = field(default_factory=list)
    shards: frozenset[TopicPartition] = frozenset()  #: All shards of a group of workers; empty: a group of consumers.

    def running(self) -> list[MemberActor]:
        """Return the running members."""
        return [member for member in self.members if member.is_running]
