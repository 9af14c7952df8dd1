"""Hold partitions of topics with ordered delivery until the partitions that had their keys before are read (KIP-253).

A manager of the engine, created once the metadata has a topic with a changed partition count. A gate is the place in a
partition behind which records are held until other partitions are read (:mod:`.gates`). The manager asks brokers for
the leader epochs and offsets that decide about gates, exchanges positions with the other members of the group, and
moves the end up to which records are returned (``Partition.delivery_end``).

The listener's callbacks run between two steps of a poll. ``consumer.group_callbacks`` calls the listener for the result
of :meth:`OrderedDelivery.opening` and :meth:`OrderedDelivery.due_reports`, and then :meth:`OrderedDelivery.opened` and
:meth:`OrderedDelivery.report`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from ..config import ConsumerConfig
from ..connection.request import Answer, Request
from ..errors import KafkaError
from ..fetch.leader_queries import LeaderQuery
from ..fetch.lookups import ListedOffset, OffsetLookups
from ..metadata import Metadata
from ..partitions import Cursor, Partition, Partitions, Reset
from ..timers import Random
from ..types import TopicPartition
from ..wire.consumer_group_positions import ConsumerGroupPositionsRequest
from ..wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from .gates import START, Requirement
from .group_positions import GroupPositions
from .holds import Hold, HoldState
from .leader_epochs import LeaderEpochRequests
from .positions import Place, Report
from .thresholds import Thresholds
from .topics import OrderedTopic, Shape

if TYPE_CHECKING:
    from ..group.group import Group

log = logging.getLogger(__name__)

ASKER = "ordered"
#: Thresholds that the group has not reached after this many heartbeat intervals are determined anew: the log of an
#: awaited partition may have lost its end in a way that no leader epoch shows.
STALLED_INTERVALS = 10


class LogStart:
    """The log start of a partition, looked up for a position."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.offset: int | None = None  #: None until the leader has answered.


class OrderedDelivery:
    """Holds the assigned partitions of changed topics, and opens their gates."""

    asker = ASKER

    def __init__(
        self,
        config: ConsumerConfig,
        partitions: Partitions,
        metadata: Metadata,
        lookups: OffsetLookups,
        random: Random,
        group: Group | None,
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._lookups = lookups
        self._epochs = LeaderEpochRequests(ASKER, config, metadata, random)
        self._thresholds = Thresholds(config, metadata, random, ASKER)
        self.positions = GroupPositions(config, partitions, random, group)
        self._subscription = None if group is None else group.subscription
        #: The topics with ordered delivery that were read before their first change, which created this manager.
        self._read_before = frozenset(partitions.counts)
        self._topics: dict[str, OrderedTopic] = {}
        self._seen = (-1, -1)
        #: Each hold that is at a closed gate, or has not got its gates yet, with its topic.
        self._waiting: list[tuple[OrderedTopic, Hold]] = []
        self._log_starts: dict[Partition, LogStart] = {}  #: The log starts that are looked up, or wait to be used.
        self._has_moved = True  #: Whether positions may have moved since the last step.

    @property
    def is_waiting(self) -> bool:
        """Whether a partition is held, so that each position that moves may open a gate."""
        return bool(self._waiting)

    def moved(self) -> None:
        """Note that positions have moved: the next step looks at the held partitions again."""
        self._has_moved = True

    def errors(self) -> Iterator[KafkaError]:
        """Yield the errors of brokers' responses that the application has to act on."""
        if self._epochs.error is not None:
            yield self._epochs.error
        yield from self.positions.errors()

    def step(self, now: float) -> list[Request]:
        """Follow metadata and assignment, open gates, and return the requests that are due."""
        self._has_moved = False
        self._follow()
        self.positions.follow()
        before = self._lookups.version
        for topic, hold in self._waiting:
            self._advance(topic, hold, now)
        self._waiting = [one for one in self._waiting if one[1].state is not HoldState.FREE]
        requests = self._epochs.step(now, self._missing_epochs()) + self._thresholds.step(now)
        if self._lookups.version != before:
            requests += self._lookups.step(now)
        return requests + self.positions.step(now, self._topics, self._awaited())

    def wake_at(self, now: float) -> float:
        """Return when the next step is due."""
        if self._has_moved or self._seen != (self._metadata.version, self._partitions.generation):
            return now
        times = [self._thresholds.wake_at(now), self.positions.wake_at(now)]
        if self._waiting:
            times += [hold.ask_again_at for _, hold in self._waiting if hold.state is HoldState.AWAITING_POSITIONS]
            if self._missing_epochs():
                times.append(self._epochs.wake_at())
        return max(now, min(times))

    def handle(self, answer: Answer, now: float) -> None:
        """Take the response to a request of :meth:`step`."""
        if answer.request.api is PartitionLeaderEpochsForPartitionsRequest:
            self._epochs.handle(answer, {topic.shape.topic_id: topic for topic in self._topics.values()}, now)
        elif answer.request.api is ConsumerGroupPositionsRequest:
            self.positions.handle(answer, now)
        else:
            self._thresholds.handle(answer, now)

    def restart(self, now: float) -> None:
        """Forget the requests in flight, as their connections are closed."""
        self._seen = (-1, -1)
        self._log_starts.clear()
        self._epochs.restart()
        self._thresholds.restart(now)
        for topic in self._topics.values():
            topic.asked.clear()
        self.positions.restart(now)

    def opening(self) -> list[TopicPartition]:
        """Return the partitions with a gate that opens once ``on_partition_keys_assigned`` has succeeded."""
        found = (hold.partition for _, hold in self._waiting if hold.state is HoldState.AWAITING_CALLBACK)
        return [partition.tp for partition in found if not partition.callback_pending]

    def opened(self, tps: Collection[TopicPartition]) -> None:
        """Open the gates of these partitions, after the listener was called."""
        for _, hold in self._waiting:
            if hold.partition.tp in tps and hold.state is HoldState.AWAITING_CALLBACK:
                hold.called()
        self.moved()

    def due_reports(self, now: float) -> dict[Place, Report] | None:
        """Return the positions for the next request, before which ``on_partition_keys_maybe_revoked`` is called; None
        if no request waits for them.
        """
        return self.positions.due_reports(now, self._topics)

    def report(self, reports: Mapping[Place, Report]) -> None:
        """Send these positions with the request that is due."""
        self.positions.report(reports)
        self.moved()

    def tps_of(self, places: Collection[Place]) -> list[TopicPartition]:
        """Return the partitions at these places."""
        names = {topic.shape.topic_id: topic.name for topic in self._topics.values()}
        return [TopicPartition(names[topic_id], number) for topic_id, number in places if topic_id in names]

    def waits(self) -> Iterator[tuple[Partition, str, bool]]:
        """Yield the partitions of which no record may be returned now, each with the reason, and whether it only waits
        for the progress of other partitions.
        """
        for topic, hold in self._waiting:
            partition = hold.partition
            end = partition.delivery_end
            if end is not None and partition.has_position and partition.cursor.offset >= end:
                yield partition, self._why(topic, hold), hold.state is HoldState.AWAITING_POSITIONS

    def _why(self, topic: OrderedTopic, hold: Hold) -> str:
        if hold.state is HoldState.AWAITING_EPOCHS:
            return "held until the leader epochs at the changes of its topic are known"
        if hold.state is HoldState.AWAITING_START:
            return "held until its log start is known"
        if hold.state is HoldState.AWAITING_CALLBACK:
            return "held until on_partition_keys_assigned has succeeded"
        if hold.state is HoldState.AWAITING_THRESHOLDS:
            return "held until the ends of leader epochs are known"
        words = []
        for one in hold.gate.requires:
            threshold, position = topic.thresholds.get(one), self.positions.of(topic, one.partition)
            if threshold is not None and (position is None or position < threshold.offset):
                at = "not known" if position is None else f"{position:.0f}"
                words.append(f"{topic.name}-{one.partition} is read up to {threshold.offset} (the position is {at})")
        return f"held until {' and '.join(words)}" if words else "held until the next step"

    # --- metadata and assignment ---

    def _follow(self) -> None:
        seen = self._metadata.version, self._partitions.generation
        if self._seen == seen:
            return
        self._seen = seen
        for name in self._metadata.ordered:
            shape = Shape.of(self._metadata.topics[name])
            if shape is not None:
                self._follow_topic(name, shape)
        self._read_before = frozenset()
        for name in [name for name in self._topics if name not in self._metadata.ordered]:
            self._forget(name)
        self._follow_assignment()

    def _follow_topic(self, name: str, shape: Shape) -> None:
        topic = self._topics.get(name)
        if topic is None or topic.shape.topic_id != shape.topic_id:
            if topic is not None:
                self._forget(name)
            is_read = topic is None and name in self._read_before
            topic = self._topics[name] = OrderedTopic(name, shape)
            if is_read:
                topic.holds = {p: Hold.free(p) for p in self._partitions if p.tp.topic == name}
                topic.changed(shape)
            self._adopt(topic)
        elif topic.shape != shape:
            topic.changed(shape)
            self._adopt(topic)
            self._log_starts.clear()
            self.positions.topic_changed()

    def _adopt(self, topic: OrderedTopic) -> None:
        """Let Fetch requests carry the topic's count from now on, and begin new partitions with all records held."""
        self._partitions.set_count(topic.name, topic.shape.counts.undeleted)
        if topic.shape.has_changed:
            self._partitions.held_topics.add(topic.name)
        else:
            self._partitions.held_topics.discard(topic.name)

    def _forget(self, name: str) -> None:
        topic = self._topics.pop(name)
        for partition in topic.holds:
            partition.delivery_end = None
        topic.clear()  # else its queries would go on, and refresh metadata for partitions that do not exist any more
        self.positions.topic_forgotten()
        self._partitions.set_count(name, None)
        self._partitions.held_topics.discard(name)

    def _follow_assignment(self) -> None:
        for topic in self._topics.values():
            topic.holds = {p: hold for p, hold in topic.holds.items() if self._partitions.get(p.tp) is p}
        for partition in self._partitions:
            topic_of = self._topics.get(partition.tp.topic)
            if topic_of is not None and partition not in topic_of.holds:
                topic_of.holds[partition] = Hold(partition)
        self._log_starts = {p: found for p, found in self._log_starts.items() if self._partitions.get(p.tp) is p}
        self._waiting = [
            (topic, hold)
            for topic in self._topics.values()
            for hold in topic.holds.values()
            if hold.state is not HoldState.FREE
        ]

    # --- holds ---

    def _advance(self, topic: OrderedTopic, hold: Hold, now: float) -> None:
        """Move the hold as far as it goes without another response."""
        hold.follow_position()
        before = None
        while hold.state is not before:
            before = hold.state
            if before is HoldState.AWAITING_EPOCHS:
                number = hold.partition.tp.partition
                if not topic.missing_epochs(number):
                    hold.epochs_found(topic.gates(number), topic.creation(number))
            elif before is HoldState.AWAITING_START:
                self._decide_start(topic, hold)
            elif before is HoldState.AWAITING_THRESHOLDS:
                self._find_thresholds(topic, hold, now)
            elif before is HoldState.AWAITING_POSITIONS:
                self._compare_positions(topic, hold, now)
            elif before is HoldState.AWAITING_CALLBACK:
                self._await_callback(topic, hold)

    @property
    def _has_key_listener(self) -> bool:
        listener = None if self._subscription is None else self._subscription.listener
        return hasattr(listener, "on_partition_keys_assigned")

    def _decide_start(self, topic: OrderedTopic, hold: Hold) -> None:
        partition = hold.partition
        if partition.topic_id != topic.shape.topic_id:
            return  # the position may still be that of a topic of the same name, which was deleted
        log_start: int | None = None
        if hold.awaits_log_start:
            known = self._log_starts.get(partition)
            if known is None or known.cursor is not partition.cursor:
                self._look_up_log_start(partition)
                return
            log_start = known.offset
        if hold.decide_start(log_start):
            # It is looked up again for the next decision: the position moves on, and the partition may be removed and
            # added again with another log start.
            self._log_starts.pop(partition, None)

    def _look_up_log_start(self, partition: Partition) -> None:
        log_start = self._log_starts[partition] = LogStart(partition.cursor)

        def wanted() -> bool:
            return self._log_starts.get(partition) is log_start

        def found(answer: ListedOffset, now: float) -> None:
            log_start.offset = answer.offset

        def failed(error: KafkaError, final: bool) -> None:
            partition.failed(error, is_raised=final)

        self._lookups.add(LeaderQuery(partition.tp, Reset.EARLIEST, wanted, found, failed))

    def _thresholds_of(self, hold: Hold) -> Iterator[Requirement]:
        """Yield the thresholds that the gate needs: in the awaited partitions, and in the held one."""
        yield from hold.gate.requires
        if hold.gate.after != START:
            yield Requirement(hold.partition.tp.partition, hold.gate.after)

    def _find_thresholds(self, topic: OrderedTopic, hold: Hold, now: float) -> None:
        hold.hold_unfetched()
        missing = [one for one in self._thresholds_of(hold) if not self._thresholds.is_current(topic, one)]
        for one in missing:
            self._thresholds.ask(topic, one)
        if not missing:
            own = topic.thresholds.get(Requirement(hold.partition.tp.partition, hold.gate.after))
            hold.thresholds_found(-1 if own is None else own.offset)
            hold.ask_again_at = now + STALLED_INTERVALS * self.positions.interval

    def _compare_positions(self, topic: OrderedTopic, hold: Hold, now: float) -> None:
        outdated = [one for one in self._thresholds_of(hold) if not self._thresholds.is_current(topic, one)]
        if now >= hold.ask_again_at:
            outdated = list(self._thresholds_of(hold))
            self._look_up_stalled(topic, hold, now)
        if outdated:
            for one in outdated:
                topic.thresholds.pop(one, None)
            hold.thresholds_outdated()
            return
        if self._is_read(topic, hold):
            hold.passed()

    def _await_callback(self, topic: OrderedTopic, hold: Hold) -> None:
        """Open the gate at once without a listener. Otherwise wait for its call, which a later poll makes: a rebalance
        that ends before this poll may have given an awaited partition to a member that reads from the last commit on.
        """
        if not self._has_key_listener:
            hold.called()
        elif hold.gates and not self._is_read(topic, hold):
            hold.positions_lost()

    def _is_read(self, topic: OrderedTopic, hold: Hold) -> bool:
        """Return whether the group has read all that the gate requires; False if a threshold is not known."""
        for one in hold.gate.requires:
            threshold = topic.thresholds.get(one)
            first_offset = topic.first_offsets.get(one.partition, 0)
            if threshold is None or threshold.offset > max(first_offset, self.positions.of(topic, one.partition) or 0):
                return False
        return True

    def _look_up_stalled(self, topic: OrderedTopic, hold: Hold, now: float) -> None:
        """Look up the log starts of awaited partitions in which the group makes no progress, with ``assign()``.

        No member owns such a partition. If retention has emptied it, it may never be read, as there is nothing to read.
        If the group makes progress, its reader may still have records that retention has deleted, and commits soon.
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

    def _look_up_first_offset(self, topic: OrderedTopic, tp: TopicPartition) -> None:
        def wanted() -> bool:
            return self._topics.get(tp.topic) is topic and tp.partition in topic.stalled

        def found(answer: ListedOffset, now: float) -> None:
            topic.first_offsets[tp.partition] = answer.offset
            self.moved()

        self._lookups.add(LeaderQuery(tp, Reset.EARLIEST, wanted, found, lambda error, final: None))

    # --- what brokers and members are asked for ---

    def _missing_epochs(self) -> dict[bytes, frozenset[int]]:
        wanted: dict[bytes, frozenset[int]] = {}
        for topic, hold in self._waiting:
            if hold.state is HoldState.AWAITING_EPOCHS:
                missing = topic.missing_epochs(hold.partition.tp.partition)
                if missing:
                    wanted[topic.shape.topic_id] = wanted.get(topic.shape.topic_id, frozenset()) | missing
        return wanted

    def _awaited(self) -> dict[Place, TopicPartition]:
        """Return the partitions that held ones wait for and that are not assigned to this consumer, by place.

        Positions count until the listener was called: without them, the gate would wait for them again.
        """
        wanted: dict[Place, TopicPartition] = {}
        for topic, hold in self._waiting:
            if hold.awaits_thresholds or (hold.state is HoldState.AWAITING_CALLBACK and hold.gates):
                for one in hold.gate.requires:
                    tp = TopicPartition(topic.name, one.partition)
                    if tp not in self._partitions:
                        wanted[topic.shape.topic_id, one.partition] = tp
        return wanted
