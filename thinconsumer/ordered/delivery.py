"""Hold partitions of topics with ordered delivery until the partitions that had their keys before are read (KIP-253).

A gatekeeper (:mod:`thinconsumer.fetch.gatekeeper`), created once the metadata has a topic with a changed partition
count. It asks brokers for the leader epochs and offsets that decide about gates (:mod:`.gates`), and exchanges
positions with the other members of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ..config import ConsumerConfig
from ..errors import KafkaError
from ..fetch.leader_queries import LeaderQuery, ListedOffset, OffsetLookups
from ..group.listener import call_key_listener
from ..network.metadata import Metadata
from ..network.request import Answer, Request
from ..positions.partitions import Cursor, Partition, Partitions, Reset
from ..support.timers import Random
from ..types import TopicPartition
from ..wire.consumer_group_positions import ConsumerGroupPositionsRequest
from ..wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from .gates import Requirement
from .holds import Hold, HoldEvent, HoldState
from .key_gatekeeper import KeyGatekeeper
from .known_positions import KnownPositions
from .leader_epochs import LeaderEpochRequests
from .position_exchange import ASKER, Place, Report
from .topics import GatedTopic, Shape, shapes

if TYPE_CHECKING:
    from ..group.group import Group

log = logging.getLogger(__name__)

#: Thresholds that the group has not reached after this many heartbeat intervals are looked up again: the log of an
#: awaited partition may have lost its end without a new leader epoch.
STALLED_INTERVALS = 10


class OrderedDelivery(KeyGatekeeper[GatedTopic]):
    """Holds the assigned partitions of changed topics, and opens their gates."""

    asker = ASKER
    REASONS: ClassVar = {
        HoldState.AWAITING_EPOCHS: "the leader epochs at the changes of its topic are known",
        HoldState.AWAITING_START: "its log start is known",
        HoldState.AWAITING_THRESHOLDS: "the ends of leader epochs are known",
        HoldState.AWAITING_CALLBACK: "on_partition_keys_assigned has succeeded",
    }
    PROGRESS = frozenset({HoldState.AWAITING_POSITIONS})

    def __init__(
        self,
        config: ConsumerConfig,
        partitions: Partitions,
        metadata: Metadata,
        lookups: OffsetLookups,
        random: Random,
        group: Group | None,
    ) -> None:
        super().__init__(config, partitions, metadata, random, group)
        self._lookups = lookups
        self._epochs = LeaderEpochRequests(ASKER, config, metadata, random, self._agenda)
        self.positions = KnownPositions(config, partitions, random, group, self._topics)
        #: The topics that the consumer read before this manager was created: records fetched until then are not held.
        self._read_before = frozenset(partitions.counts)
        #: By partition: the cursor for which its log start is looked up, and the log start; None before the response.
        self._log_starts: dict[Partition, tuple[Cursor, int | None]] = {}

    def errors(self) -> Iterator[KafkaError]:
        if self._epochs.error is not None:
            yield self._epochs.error
        yield from self.positions.errors()

    def step(self, now: float) -> list[Request]:
        """Follow metadata and assignment, open gates, and return the requests that are due."""
        self._follow(now)
        self.positions.follow()
        self._advance_all(now)
        without_gates = [
            (topic, hold.partition.tp.partition)
            for topic, hold in self._waiting
            if hold.state is HoldState.AWAITING_EPOCHS
        ]
        requests = self._epochs.step(now, without_gates) + self._thresholds.step(now)
        return requests + self.positions.step(now, self._awaited())

    def handle(self, answer: Answer, now: float) -> None:
        if answer.request.api is PartitionLeaderEpochsForPartitionsRequest:
            self._epochs.handle(answer, now)
        elif answer.request.api is ConsumerGroupPositionsRequest:
            self.positions.handle(answer, now)
        else:
            super().handle(answer, now)

    def restart(self, now: float) -> None:
        super().restart(now)
        self._log_starts.clear()
        self._epochs.restart()
        self.positions.restart(now)

    def next_callback(self, now: float) -> Callable[[], bool] | None:
        """Return the listener's call that is due: for assigned keys, or before this member's positions are sent."""
        call = super().next_callback(now)
        if call is None and (reports := self.positions.due_reports()) is not None:
            call = partial(self._call_keys_maybe_revoked, reports)
        return call

    def _call_keys_maybe_revoked(self, reports: Mapping[Place, Report]) -> bool:
        """Call the listener, then queue the positions for sending: they may open gates of other members."""
        names = {topic.shape.topic_id: topic.name for topic in self._topics.values()}
        tps = [TopicPartition(names[topic_id], number) for topic_id, number in reports if topic_id in names]
        call_key_listener(self._listener, "maybe_revoked", tps)
        self.positions.report(reports)
        return True

    def _awaited_progress(self, topic: GatedTopic, hold: Hold) -> Iterator[str]:
        for one in hold.gate.requires if hold.gates else ():
            threshold, position = topic.thresholds.get(one), self.positions.of(topic, one.partition)
            if threshold is not None and (position is None or position < threshold.offset):
                at = "not known" if position is None else f"{position:.0f}"
                yield f"{topic.name}-{one.partition} is read up to {threshold.offset} (the position is {at})"

    # --- metadata and assignment ---

    def _follow_topics(self, now: float) -> None:
        for name, shape in shapes(self._metadata).items():
            self._follow_topic(name, shape)
        self._read_before = frozenset()
        counted = self._metadata.counted()
        for name in [name for name in self._topics if name not in counted]:
            self._forget(name)
        self._log_starts = {p: found for p, found in self._log_starts.items() if self._partitions.get(p.tp) is p}

    def _follow_topic(self, name: str, shape: Shape) -> None:
        topic = self._topics.get(name)
        if topic is None or topic.shape.topic_id != shape.topic_id:
            if topic is not None:
                self._forget(name)
            is_read = topic is None and name in self._read_before
            topic = self._topics[name] = GatedTopic(name, shape)
            if is_read:
                topic.holds = {p: Hold(p, self._agenda, HoldState.FREE) for p in self._partitions if p.tp.topic == name}
                topic.changed(shape)
            self._adopt(topic)
        elif topic.shape != shape:
            topic.changed(shape)
            self._adopt(topic)
            self._log_starts.clear()
            self.positions.topic_changed()

    def _adopt(self, topic: GatedTopic) -> None:
        """Let Fetch requests carry the topic's count from now on.

        If the topic has changed, all records of newly assigned partitions are held at first.
        """
        self._partitions.set_count(topic.name, topic.shape.counts.undeleted)
        if topic.shape.has_changed:
            self._partitions.held_topics.add(topic.name)
        else:
            self._partitions.held_topics.discard(topic.name)

    def _forget(self, name: str) -> None:
        topic = self._topics.pop(name)
        for partition in topic.holds:
            partition.delivery_end = None
        topic.clear()  # otherwise its queries would go on, and refresh metadata for partitions that no longer exist
        self.positions.topic_forgotten()
        self._partitions.set_count(name, None)
        self._partitions.held_topics.discard(name)

    # --- holds ---

    def _find_gates(self, topic: GatedTopic, hold: Hold, now: float) -> None:
        number = hold.partition.tp.partition
        if not topic.missing_epochs(number):
            hold.epochs_found(topic.gates(number), topic.creation(number))

    def _decide_start(self, topic: GatedTopic, hold: Hold, now: float) -> None:
        partition = hold.partition
        if partition.topic_id != topic.shape.topic_id:
            return  # the position may still be that of a deleted topic with the same name
        log_start: int | None = None
        if hold.awaits_log_start:
            known = self._log_starts.get(partition)
            if known is None or known[0] is not partition.cursor:
                self._look_up_log_start(partition)
                return
            log_start = known[1]
        hold.decide_start(log_start)

    def _look_up_log_start(self, partition: Partition) -> None:
        cursor = partition.cursor
        asked: tuple[Cursor, int | None] = cursor, None
        self._log_starts[partition] = asked

        def wanted() -> bool:
            return self._log_starts.get(partition) is asked

        def found(answer: ListedOffset, now: float) -> None:
            self._log_starts[partition] = cursor, answer.offset

        def failed(error: KafkaError, final: bool) -> None:
            partition.failed(error, is_raised=final)

        self._lookups.add(LeaderQuery(partition.tp, Reset.EARLIEST, wanted, found, failed))

    def _find_thresholds(self, topic: GatedTopic, hold: Hold, now: float) -> None:
        hold.hold_unfetched()
        missing = [one for one in hold.thresholds if not self._thresholds.is_current(topic, one)]
        for one in missing:
            self._thresholds.ask(topic, one)
        if not missing:
            own = topic.thresholds.get(Requirement(hold.partition.tp.partition, hold.gate.after))
            hold.thresholds_found(-1 if own is None else own.offset)
            hold.patience.set(now + STALLED_INTERVALS * self.positions.interval)

    def _compare_positions(self, topic: GatedTopic, hold: Hold, now: float) -> None:
        outdated = [one for one in hold.thresholds if not self._thresholds.is_current(topic, one)]
        if hold.patience.is_over(now):
            outdated = hold.thresholds
            self._look_up_stalled(topic, hold, now)
        if outdated:
            for one in outdated:
                topic.thresholds.pop(one, None)
            hold.thresholds_outdated()
        elif self._is_read(topic, hold):
            hold.move(HoldEvent.PASSED)

    def _await_callback(self, topic: GatedTopic, hold: Hold, now: float) -> None:
        """Open the gate or wait for the listener's call, as the base class does; wait again if a position was lost.

        Before the poll that calls the listener, a rebalance may have given an awaited partition to a member that reads
        from the last commit on.
        """
        super()._await_callback(topic, hold, now)
        if hold.state is HoldState.AWAITING_CALLBACK and hold.gates and not self._is_read(topic, hold):
            hold.move(HoldEvent.POSITIONS_LOST)

    def _is_read(self, topic: GatedTopic, hold: Hold) -> bool:
        """Return whether the group has read all that the gate requires; False if a threshold is not known."""
        for one in hold.gate.requires:
            threshold = topic.thresholds.get(one)
            first_offset = topic.first_offsets.get(one.partition, 0)
            if threshold is None or threshold.offset > max(first_offset, self.positions.of(topic, one.partition) or 0):
                return False
        return True

    def _look_up_stalled(self, topic: GatedTopic, hold: Hold, now: float) -> None:
        """With ``assign()``, look up the log starts of awaited partitions in which the group makes no progress.

        Such a partition may have no owner, and if retention has emptied it, no commit will ever show that it was read.
        The lookup follows only once progress has stopped: a reader that makes progress may still process records that
        retention has deleted meanwhile.
        """
        for number in {one.partition for one in hold.gate.requires}:
            tp = TopicPartition(topic.name, number)
            if not self.positions.counts_commits(tp):
                continue
            position = self.positions.of(topic, number)
            seen = topic.stalled.get(number)
            if seen is None or seen[0] != position:
                topic.stalled[number] = position, now
            elif now >= seen[1] + STALLED_INTERVALS * self.positions.interval:
                self._look_up_first_offset(topic, tp)

    def _look_up_first_offset(self, topic: GatedTopic, tp: TopicPartition) -> None:
        def wanted() -> bool:
            return self._topics.get(tp.topic) is topic and tp.partition in topic.stalled

        def found(answer: ListedOffset, now: float) -> None:
            topic.first_offsets[tp.partition] = answer.offset
            self.moved()

        self._lookups.add(LeaderQuery(tp, Reset.EARLIEST, wanted, found, lambda error, final: None))

    # --- what brokers and members are asked for ---

    def _awaited(self) -> dict[Place, TopicPartition]:
        """Return the partitions that held partitions wait for and that are not assigned to this consumer, by place.

        A partition is included until the listener was called for the gate: otherwise the partition's position would be
        forgotten, and the gate would wait for it again.
        """
        wanted: dict[Place, TopicPartition] = {}
        for topic, hold in self._waiting:
            if hold.awaits_thresholds or (hold.state is HoldState.AWAITING_CALLBACK and hold.gates):
                for one in hold.gate.requires:
                    tp = TopicPartition(topic.name, one.partition)
                    if tp not in self._partitions:
                        wanted[topic.shape.topic_id, one.partition] = tp
        return wanted
