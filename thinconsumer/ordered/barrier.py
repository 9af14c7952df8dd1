"""A barrier for topics without ordered delivery: on real Kafka, new partitions start after old ones (KIP-253).

A barrier is a set of gates (:mod:`.gates`), one in each partition of an expanded topic. Kafka does not report when a
topic was expanded, and producers use the old count until they refresh their metadata. After this consumer has seen the
new count, it therefore waits for a grace time, and then looks up the ends of the old partitions: all records of
producers with outdated metadata are before these ends. A new partition starts once the group has read up to these ends
(committed offsets show that, or the positions of this consumer). Each old partition stops at the end that it had when
the new count was seen, until the group has reached these earlier ends in all old partitions: Kafka's own partitioner
also moves keys between old partitions.
docs/ordered-delivery.md proves the order.

The barrier is stored only in the group's commits: a partition without a committed offset counts as new. A member that
restarts, or that joins later, begins the barrier anew for such partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, ClassVar

from ..config import ConsumerConfig
from ..network.metadata import Metadata, TopicMetadata
from ..network.request import Request
from ..positions.partitions import NOTHING, Partitions
from ..support.agenda import Agenda
from ..support.calls import Call
from ..support.timers import Random
from ..types import OffsetAndMetadata, TopicPartition
from .gates import END, START, Gate, Requirement
from .holds import Hold, HoldEvent, HoldState
from .key_gatekeeper import KeyGatekeeper
from .topics import EpochEnds, HeldTopic

if TYPE_CHECKING:
    from ..group.group import Group

GRACE_ENDS = "ordered_delivery_grace_ms has passed and the ends of old partitions are known"


def barrier_gates(partition: int, started: Collection[int], new: Collection[int]) -> list[Gate]:
    """Return the gates of a partition, if the group has ``started`` some partitions and ``new`` ones were added since.

    A new partition waits for all started ones, and for the new ones below half its number. Together, these include each
    partition that had one of its keys before, since linear hashing splits partition p off from one below p / 2.
    """
    if not new:
        return []
    if partition in new:
        awaited = sorted({*started, *(one for one in new if 2 * one < partition)})
        return [Gate(START, tuple(Requirement(one, END) for one in awaited))]
    return [Gate(END, tuple(Requirement(one, END) for one in sorted(started)))]


class BarrierTopic(HeldTopic):
    """One topic, the partitions that the group has started, and the holds of the assigned ones."""

    def __init__(self, name: str, topic_id: bytes, agenda: Agenda) -> None:
        super().__init__(name)
        self.topic_id = topic_id
        self.existing: frozenset[int] = frozenset()
        self.new: set[int] = set()  #: Partitions that the group has not started: without a committed offset, and held.
        #: Whether committed offsets have arrived since the topic last grew: they show the started partitions.
        self.is_known = False
        self.grace = agenda.alarm()  #: The end of ``ordered_delivery_grace_ms`` after the last change.
        self.ends_before = EpochEnds(name, keeps_lowest=True)  #: The ends when the change was seen.
        self.ends_after = EpochEnds(name, keeps_lowest=True)  #: The ends after the grace time.

    def ends_at(self, gate: Gate) -> EpochEnds:
        """Return the ends up to which other partitions must be read before the gate opens."""
        return self.ends_after if gate.after == START else self.ends_before

    def begin(self, new: Collection[int], grace_end: float) -> None:
        """Begin a barrier for added partitions, together with those that are new already."""
        self.new |= set(new)
        self.grace.set(grace_end)
        self.ends_before.clear()
        self.ends_after.clear()
        for hold in self.holds.values():
            hold.opened.discard(END)
            hold.topic_changed()


class Barrier(KeyGatekeeper[BarrierTopic]):
    """Holds partitions of expanded topics without ordered delivery."""

    asker = "barrier"
    REASONS: ClassVar = {
        HoldState.AWAITING_EPOCHS: "the group's committed offsets are known",
        HoldState.AWAITING_START: GRACE_ENDS,
        HoldState.AWAITING_THRESHOLDS: GRACE_ENDS,
        HoldState.AWAITING_CALLBACK: "on_partition_keys_assigned has succeeded",
    }
    PROGRESS = frozenset({HoldState.AWAITING_THRESHOLDS, HoldState.AWAITING_POSITIONS})

    def __init__(
        self, config: ConsumerConfig, partitions: Partitions, metadata: Metadata, random: Random, group: Group
    ) -> None:
        super().__init__(config, partitions, metadata, random, group)
        self._group = group
        self._grace = config.ordered_delivery_grace_ms / 1000
        self._interval = config.heartbeat_interval_ms / 1000
        self._committed: dict[TopicPartition, int] = {}
        self._call: Call[dict[TopicPartition, OffsetAndMetadata | None]] | None = None
        self._asked_about: list[BarrierTopic] = []
        self._pause = self._agenda.alarm()  #: When committed offsets may be requested again.

    def step(self, now: float) -> list[Request]:
        """Follow metadata, assignment and committed offsets, open gates, and return the requests that are due."""
        self._follow(now)
        self._take_committed(now)
        self._advance_all(now)
        self._read_committed(now)
        return self._thresholds.step(now)

    def restart(self, now: float) -> None:
        super().restart(now)
        self._call = None

    def _awaited_progress(self, topic: BarrierTopic, hold: Hold) -> Iterator[str]:
        for one in hold.gate.requires if hold.gates else ():
            end, at = topic.ends_at(hold.gate).thresholds.get(one), self._of(topic, one)
            if end is not None and at < end.offset:
                yield f"{topic.name}-{one.partition} is committed up to {end.offset} (now {at})"

    # --- metadata and assignment ---

    def _follow_topics(self, now: float) -> None:
        assigned = self._partitions.topics()
        for name in assigned:
            known = self._metadata.topics.get(name)
            if known is not None and known.partitions and known.counts is None:
                self._follow_topic(known, now)
        for name in [name for name in self._topics if name not in assigned]:
            self._partitions.held_topics.discard(name)
            del self._topics[name]

    def _follow_topic(self, known: TopicMetadata, now: float) -> None:
        topic = self._topics.get(known.name)
        if topic is None or topic.topic_id != known.topic_id:
            topic = self._topics[known.name] = BarrierTopic(known.name, known.topic_id, self._agenda)
            self._partitions.held_topics.add(known.name)
        existing = frozenset(known.partitions)
        added, topic.existing = existing - topic.existing, existing
        if added and topic.is_known:
            topic.begin(added, now + self._grace)
            topic.is_known = False  # read commits again: a new partition that has one by now is started, and awaited

    # --- holds ---

    def _find_gates(self, topic: BarrierTopic, hold: Hold, now: float) -> None:
        if topic.is_known:
            hold.epochs_found(barrier_gates(hold.partition.tp.partition, topic.existing - topic.new, topic.new))

    def _decide_start(self, topic: BarrierTopic, hold: Hold, now: float) -> None:
        # A new partition has no commit, so a position above 0 that is not from a reset was chosen by the application,
        # and opens the gate.
        hold.decide_start(0)

    def _open(self, topic: BarrierTopic, hold: Hold) -> None:
        if hold.gates and hold.gate.after == START:
            topic.new.discard(hold.partition.tp.partition)
        super()._open(topic, hold)

    def _find_thresholds(self, topic: BarrierTopic, hold: Hold, now: float) -> None:
        hold.hold_unfetched()
        if hold.gate.after == START and topic.grace.is_ahead(now):
            return
        ends, own = topic.ends_at(hold.gate), Requirement(hold.partition.tp.partition, END)
        missing = [one for one in hold.thresholds if one not in ends.thresholds]
        for one in missing:
            self._thresholds.ask(ends, one)
        if not missing:
            hold.thresholds_found(ends.thresholds[own].offset if hold.gate.after == END else -1)

    def _compare_positions(self, topic: BarrierTopic, hold: Hold, now: float) -> None:
        ends = topic.ends_at(hold.gate)
        for one in hold.gate.requires:
            if not self._thresholds.is_current(ends, one):
                self._thresholds.ask(ends, one)
            if self._of(topic, one) < ends.thresholds[one].offset:
                return
        hold.move(HoldEvent.PASSED)

    def _of(self, topic: BarrierTopic, one: Requirement) -> int:
        """Return how far the group has read a partition, for another member's the committed offset; 0 if unknown."""
        tp = TopicPartition(topic.name, one.partition)
        own = self._partitions.get(tp)
        if own is not None and own.has_position and own.delivery_end != NOTHING and not own.callback_pending:
            read = self._partitions.read_up_to(own)
            return 0 if read is None else read.offset
        return self._committed.get(tp, 0)

    # --- committed offsets ---

    def _read_committed(self, now: float) -> None:
        """Ask for the committed offsets of all partitions of all followed topics, at most once a heartbeat interval."""
        if self._call is not None or self._pause.is_ahead(now):
            return
        is_waiting = any(hold.state is HoldState.AWAITING_POSITIONS for _, hold in self._waiting)
        if not is_waiting and all(topic.is_known for topic in self._topics.values()):
            return
        self._pause.set(now + self._interval)
        self._asked_about = [topic for topic in self._topics.values() if topic.existing]
        tps = [TopicPartition(topic.name, number) for topic in self._asked_about for number in sorted(topic.existing)]
        self._call = self._group.committed.ask(tps)

    def _take_committed(self, now: float) -> None:
        call = self._call
        if call is None or not call.done:
            return
        self._call = None
        if call.error is not None:
            return
        self._committed = found = {tp: value.offset for tp, value in call.result().items() if value is not None}
        for topic in self._asked_about:
            started = {tp.partition for tp in found if tp.topic == topic.name}
            topic.new -= started
            if topic.is_known:
                continue
            topic.is_known = True
            if started:  # without any commit the group is new, and starts all partitions together
                topic.begin(topic.existing - started, now + self._grace)
