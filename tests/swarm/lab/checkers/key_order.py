"""Checks the order of each key's records while partitions are added and deleted (KIP-253).

The truth is the order in which leaders have appended the records, in virtual time and over all partitions:
:class:`ReportingLog` reports each append, also of records that no producer got an acknowledgement for. A record's
partition, offset and leader epoch identify it, since one epoch has one leader. What a deposed leader appends is never
committed, so no consumer gets it.

* The *first* delivery of each record within the group must follow the first deliveries of the records of its key that
  were appended before. Repeated deliveries are allowed, as after every crash. A record that a replica has removed, by
  compaction or by a higher log start offset, before the group read the next one in its partition counts as delivered
  then: a group that reads these offsets again may get it from a leader that still has it.
* A gate that has opened in the generation in which the owner of an awaited partition has got it, or later, must stay
  true: this owner returns no record of the awaited part any more. The position of an earlier owner, which may have died
  before it committed it, must not open a gate. Generations begin again if a group that was empty is made anew, as by a
  member with the classic protocol after ones with the consumer group protocol: gates of before are not judged then.
* Each record is committed at most once. A producer sends a batch again if a leader was deposed before the batch was
  committed, and if the next leader lacks it: the first append must never become committed then, also not when the
  deposed leader is elected again.
* Each producer's records of one key are committed in the order of ``send``.
* An acknowledged record is committed, at the partition and offset that the producer was told. A committed record stays
  in the log, and consumers get no other ones.
* In the end, each record that no replica has removed must have been delivered.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from thinconsumer.support.timers import NEVER
from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.broker.log.log import AppendInfo, Log
from thinconsumer_testing.broker.partition import PartitionReplica

#: Members of a consumer group (KIP-848) change their epochs one after another. For so many seconds after a partition
#: has a new owner, others may still use the position of the owner before, if that one gave it up without a commit. One
#: that has died was removed before the new owner's epoch began.
EPOCH_SLACK_S = 8.0


class OutOfOrder(Exception):
    """A finding of the checker."""


class WrittenRecord(NamedTuple):
    """The value of a simulated record."""

    producer: int
    key: int
    number: int  #: Of this producer and key, counted from 1.

    @staticmethod
    def of(value: bytes | None) -> WrittenRecord:
        """Return the record with this value."""
        return WrittenRecord(*map(int, bytes(value or b"").split(b":")))

    def value(self) -> bytes:
        """Return the record's value."""
        return b"%d:%d:%d" % self


class Owner(NamedTuple):
    """The member that was last to get a partition."""

    member: str
    since: float
    generation: int  #: In which no earlier owner had the partition any more.
    judged_from: float  #: Gates that have opened later, in this generation or a later one, need this owner's position.


class OpenedGate(NamedTuple):
    """A gate that a member has opened, as seen from one of the partitions that it waits for."""

    threshold: int
    tp: TopicPartition
    member: str
    at: float
    generation: int


class KeyOrderChecker:
    """Collects ``findings``; the swarm raises the first one. ``now`` returns the virtual time.

    ``epoch_slack_s`` is 0 if all members use the classic protocol, in which a generation begins for all at once.
    """

    def __init__(self, now: Callable[[], float], epoch_slack_s: float = 0.0) -> None:
        self.findings: list[str] = []
        self.counts: Counter[str] = Counter()
        self.seen: set[tuple[TopicPartition, int]] = set()  #: The records that the group got, by partition and offset.
        self._now = now
        self._epoch_slack_s = epoch_slack_s
        self._ranks: dict[tuple[TopicPartition, int, int], tuple[int, WrittenRecord]] = {}
        self._latest: dict[int, tuple[int, WrittenRecord]] = {}  #: The latest delivered record of each key.
        self._written: set[WrittenRecord] = set()
        self._epochs: dict[tuple[TopicPartition, int], int] = {}  #: The leader epochs of the committed records.
        self._places: dict[WrittenRecord, tuple[TopicPartition, int]] = {}  #: The committed records.
        #: The numbers of the committed records by producer and key, with their ranks, in ascending order.
        self._committed: dict[tuple[int, int], list[tuple[int, int]]] = {}
        #: The offsets that may not be delivered yet, by partition.
        self._unread: dict[TopicPartition, dict[int, None]] = {}
        #: The offsets that a replica has removed, and that the group has not passed yet, by partition.
        self._removed: dict[TopicPartition, set[int]] = {}
        self._highest: dict[TopicPartition, int] = {}  #: The highest delivered offset by partition.
        self._owners: dict[TopicPartition, Owner] = {}
        self._released: dict[TopicPartition, int] = {}  #: Partitions without an owner, and since which generation.
        self._ended: set[str] = set()  #: The members that were closed or killed.
        self._generation = 0  #: The highest generation that was reported.
        self._least_generations: dict[str, int] = {}  #: By member: the least one that it can have in the same group.
        self._gates: dict[TopicPartition, list[OpenedGate]] = {}

    def appended(self, tp: TopicPartition, epoch: int, offset: int, value: bytes | None) -> None:
        """Take a record that the leader of ``epoch`` has appended."""
        record = WrittenRecord.of(value)
        self.counts["appended"] += 1
        self._ranks[tp, offset, epoch] = self.counts["appended"], record
        self._unread.setdefault(tp, {})[offset] = None
        if record in self._written:
            self.counts["appended again"] += 1
        self._written.add(record)

    def committed(self, tp: TopicPartition, epoch: int, offset: int) -> None:
        """Check a record that a replica has below its high watermark now."""
        known = self._epochs.setdefault((tp, offset), epoch)
        where = f"{_name(tp)} offset {offset}"
        if known != epoch:
            self._find(f"the record of leader epoch {known} was committed ({where}), and then that of epoch {epoch}")
            return
        rank, record = self._ranks[tp, offset, epoch]
        place = self._places.setdefault(record, (tp, offset))
        if place != (tp, offset):
            self._find(f"{record} was committed twice: {_name(place[0])} offset {place[1]}, and {where}")
            return
        others = self._committed.setdefault(record[:2], [])
        at = bisect(others, (record.number, rank))
        if at and others[at - 1][0] == record.number:
            return  # another replica has committed it before
        others.insert(at, (record.number, rank))
        for number, other_rank in others[max(at - 1, 0) : at + 2]:
            if (number < record.number) != (other_rank < rank) and number != record.number:
                how = "before" if rank < other_rank else "after"
                self._find(f"{record} ({where}) was appended {how} number {number}")

    def acknowledged(self, value: bytes, tp: TopicPartition, offset: int) -> None:
        """Check a record that was acknowledged with this partition, and offset: -1 if the leader did not know it."""
        record = WrittenRecord.of(value)
        place = self._places.get(record)
        if place is None or place[0] != tp or offset not in (-1, place[1]):
            self._find(f"{record} was acknowledged at {_name(tp)} offset {offset}, and is committed at {place}")

    def ended_at(self, tp: TopicPartition, end: int) -> None:
        """Check that a log which ends at this offset has not lost committed records."""
        lost = [offset for other, offset in self._epochs if other == tp and offset >= end]
        if lost:
            self._find(f"{_name(tp)} ends at {end}, but offset {max(lost)} was committed")

    def started(self, member: str) -> None:
        """Note that a process begins, which is not a member yet: the group then has a higher generation than now."""
        self._least_generations[member] = self._generation

    def assigned(self, member: str, tps: Collection[TopicPartition], generation: int) -> None:
        """Note that a member has got partitions.

        The gates that the owner before has opened itself are right: it knew its own position. Its generation may be as
        high as the new owner's: a new coordinator counts a rebalance that the one before did not complete once more.
        """
        self._follow_generation(member, generation)
        now = self._now()
        for tp in tps:
            before = self._owners.get(tp)
            had_slack = self._epoch_slack_s > 0 and before is not None and before.member not in self._ended
            since = self._released.pop(tp, generation)
            self._owners[tp] = Owner(member, now, since, now + self._epoch_slack_s if had_slack else -NEVER)
            self._gates[tp] = [
                gate
                for gate in self._gates.get(tp, ())
                if gate.generation >= since and not had_slack and (before is None or gate.member != before.member)
            ]

    def released(self, member: str, tps: Collection[TopicPartition], generation: int) -> None:
        """Note that a member has given up partitions, which it does not own from this generation on.

        The gates that it has opened itself until now are right, although it may give up what it has not committed.
        """
        for tp in tps:
            owner = self._owners.get(tp)
            if owner is not None and owner.member == member and not self._epoch_slack_s:
                self._released[tp] = generation
                self._gates[tp] = [gate for gate in self._gates.get(tp, ()) if gate.member != member]

    def ended(self, member: str) -> None:
        """Note that a member was closed or killed."""
        self._ended.add(member)

    def opened(
        self, member: str, tp: TopicPartition, thresholds: Mapping[TopicPartition, int], generation: int
    ) -> None:
        """Note that a member opens a gate, which waits until each of these partitions is read up to an offset."""
        self.counts["gates opened"] += 1
        if not self._epoch_slack_s:
            # JoinGroup's generation does not count: a new coordinator may give its number to another rebalance.
            generation = min(generation, self._least_generations.get(member, generation))
        for awaited, threshold in thresholds.items():
            gate = OpenedGate(threshold, tp, member, self._now(), generation)
            self._gates.setdefault(awaited, []).append(gate)

    def delivered(self, member: str, record: ConsumerRecord[Any, Any]) -> None:
        """Check a record that a poll has returned."""
        self.counts["delivered"] += 1
        tp, offset = TopicPartition(record.topic, record.partition), record.offset
        where = f"{_name(tp)} offset {offset}"
        rank, written = self._ranks.get((tp, offset, record.leader_epoch), (0, None))
        if written is None or written != WrittenRecord.of(record.value):
            self._find(f"{member} got {record.value!r} ({where}), which no leader of its epoch has appended")
            return
        if self._epochs.get((tp, offset)) != record.leader_epoch:
            self._find(f"{member} got {written} ({where}), which is not committed")
            return
        self._check_gates(member, tp, offset)
        if (tp, offset) in self.seen:
            self.counts["repeated"] += 1
            return
        self.seen.add((tp, offset))
        self._pass_removed(tp, offset)
        last_rank, last = self._latest.get(written.key, (0, None))
        if rank < last_rank:
            self._find(f"{member} got {written} ({where}) after {last}, which was appended later")
            return
        self._latest[written.key] = rank, written

    def removed(self, tp: TopicPartition, high: int, kept: Collection[int]) -> None:
        """Note that a replica has removed all offsets below ``high`` but ``kept``: they need no delivery, even if a
        later leader still has them, because it was down when they were compacted or deleted.
        """
        offsets = self._unread.get(tp, {})
        for offset in [offset for offset in offsets if offset < high and offset not in kept]:
            del offsets[offset]
            if offset > self._highest.get(tp, -1):
                self._removed.setdefault(tp, set()).add(offset)

    def first_unread(self, leader: PartitionReplica) -> int | None:
        """Return the first offset of a log with a record that was not delivered; None if there is none."""
        offsets, log = self._unread.get(leader.tp, {}), leader.log
        for offset in list(offsets):
            is_in_log = log.start_offset <= offset < log.end_offset
            if (leader.tp, offset) in self.seen or not is_in_log:
                del offsets[offset]
            else:
                return offset
        return None

    def _follow_generation(self, member: str, generation: int) -> None:
        """Forget the gates if the group was made anew: the member then has a lower generation than it can have."""
        if generation < self._least_generations.get(member, 0):
            self._gates.clear()
            self._released.clear()
            self._least_generations.clear()
            self._generation = 0
            self.counts["groups made anew"] += 1
        self._generation = max(generation, self._generation)
        self._least_generations[member] = generation

    def _pass_removed(self, tp: TopicPartition, offset: int) -> None:
        """Count the records before ``offset`` that a replica has removed as delivered."""
        removed = self._removed.get(tp, set())
        passed = {one for one in removed if one < offset}
        removed -= passed
        self._highest[tp] = max(offset, self._highest.get(tp, -1))
        self.seen.update((tp, one) for one in passed)

    def _check_gates(self, member: str, tp: TopicPartition, offset: int) -> None:
        owner = self._owners.get(tp)
        if owner is None or owner.member != member:
            return  # a member that was removed from the group and has not noticed it yet
        for gate in self._gates.get(tp, ()):
            is_newer = gate.generation >= owner.generation and gate.at > owner.judged_from
            if offset < gate.threshold and is_newer:
                self._find(
                    f"{gate.member} has opened the gate of {_name(gate.tp)} at {gate.at:.3f}, which waits until "
                    f"{_name(tp)} is read up to {gate.threshold}, but {member}, its owner since {owner.since:.3f}, "
                    f"got offset {offset} now"
                )

    def _find(self, words: str) -> None:
        self.findings.append(f"at {self._now():.3f}: {words}")


class ReportingLog(Log):
    """A replica's log that reports what it appends as leader, and what is committed."""

    def __init__(self, tp: TopicPartition, config: TopicConfig, checker: KeyOrderChecker) -> None:
        self._checker = checker
        self._high_watermark = 0
        super().__init__(tp, config)

    @property
    def high_watermark(self) -> int:
        """The high watermark."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        before, self._high_watermark = self._high_watermark, offset
        if offset > before:
            for batch in self.batches_from(before):
                for one in range(max(batch.base_offset, before), min(batch.next_offset, offset)):
                    self._checker.committed(self.tp, batch.leader_epoch, one)

    def append(
        self, data: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int, from_client: bool = True
    ) -> AppendInfo:
        """Append a batch, and report its records unless it repeats an earlier one."""
        end = self.end_offset
        info = super().append(data, leader_epoch=leader_epoch, now_ms=now_ms, from_client=from_client)
        for batch in self.read_batches(end, self.end_offset):
            for row in batch.decode(self.tp.topic, self.tp.partition):
                self._checker.appended(self.tp, leader_epoch, row.offset, row.value)
        return info

    def compact(self, now_ms: int, high_watermark: int) -> None:
        """Compact the log, and report the records that remain."""
        super().compact(now_ms, high_watermark)
        if self.config.compact:
            batches = self.read_batches(self.start_offset, high_watermark)
            kept = {row.offset for batch in batches for row in batch.decode(self.tp.topic, self.tp.partition)}
            self._checker.removed(self.tp, high_watermark, kept)

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset, and report that the records before it are gone."""
        super().delete_before(offset)
        self._checker.removed(self.tp, self.start_offset, ())


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"
