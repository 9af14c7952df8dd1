"""Swarm runs of topics with ordered delivery: partitions come and go, and keys must stay in order (KIP-253).

Members of one group read a topic while its partition count changes, leaders move, the metadata of brokers lag behind,
brokers, controllers, coordinators and producers fail, and members join, close and die. Writers are the package's own
producers; members use the classic or the consumer group protocol (KIP-848). :mod:`.checkers.key_order` says what must
hold.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from thinconsumer.support.timers import NEVER
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.config import TopicConfig
from thinconsumer_testing.broker.controller import ControllerError
from thinconsumer_testing.broker.image import PartitionImage
from thinconsumer_testing.broker.log.log import Log
from thinconsumer_testing.broker.partition import PartitionReplica
from thinconsumer_testing.cluster import MemoryCluster

from .actors.ordered import GROUP, HEARTBEAT_MS, SESSION_MS, TOPIC, SimulatedClient, SimulatedMember, SimulatedWriter
from .checkers.key_order import EPOCH_SLACK_S, KeyOrderChecker, OutOfOrder, ReportingLog
from .order_knobs import OrderKnobs
from .swarm import log_lines_dropped

#: Virtual seconds with changes and faults, and the limit for everything to be delivered afterwards.
FAULTS_S, PEACE_S = 45.0, 600.0
#: The least number of completed changes of the count; faults go on until then.
CHANGES_MIN = 3
COUNT_MAX = 12
MEMBERS_MAX = 5
RECORDS_MAX = 600


class OrderCluster(MemoryCluster):
    """A cluster that reports the appends of leaders to the checker."""

    def __init__(self, seed: int, knobs: OrderKnobs, checker: KeyOrderChecker) -> None:
        self._checker = checker
        super().__init__(
            3,
            seed=seed,
            replication_s=knobs.replication_s,
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
        )
        configs = {"enable.ordered.delivery": "true", "min.insync.replicas": "1", "segment.bytes": "2000"}
        if knobs.compacted:
            configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
        self.create_topic(TOPIC, knobs.initial, 3, configs)

    def new_log(self, node_id: int, row: PartitionImage, config: TopicConfig) -> Log:
        """Return a log that reports to the checker, if it is one of the topic."""
        is_checked = row.topic == TOPIC
        return ReportingLog(row.tp, config, self._checker) if is_checked else super().new_log(node_id, row, config)

    def lag(self, node_id: int, seconds: float) -> None:
        """Let a node apply each change of the metadata up to so many seconds late."""
        node = self.nodes[node_id]
        node.config = replace(node.config, metadata_lag_s=seconds)


class OrderSwarm:
    """One run. Without ``holds``, members ignore ordered delivery, as other clients do."""

    COMMAND = "PYTHONPATH=testing:tests/swarm python -m lab --order --seed {seed}"
    draw = OrderKnobs.draw
    member_kind: type[SimulatedMember] = SimulatedMember
    checker_kind: type[KeyOrderChecker] = KeyOrderChecker

    def __init__(self, seed: int, *, knobs: OrderKnobs | None = None, holds: bool = True) -> None:
        self.seed = seed
        self.holds = holds
        self.knobs = knobs or self.draw(seed)
        self.random = random.Random(f"order/{seed}")
        slack = 0.0 if self.knobs.protocol == "classic" else EPOCH_SLACK_S
        self.checker = self.checker_kind(lambda: self.now, slack)
        self.cluster = OrderCluster(seed, self.knobs, self.checker)
        self.cluster.on(ConsumerGroupPositionsRequest, self._see_positions)
        self.counts: Counter[str] = Counter()
        self.members: list[SimulatedMember] = []
        self.writers: list[SimulatedWriter] = []
        self._numbers = 0
        self._disturb_at = NEVER  #: When the group is disturbed, after the member ``_sender`` has sent positions.
        self._sender = ""
        self._is_calm = False
        self._faults: list[tuple[Callable[[], None], int]] = [
            (self._expand, 6),
            (self._shrink, 5),
            (self._remove, 4),
            (self._move_leader, 3),
            (self._lag_behind, 2),
            (self._cut, 1),
            (self._kill_broker, 2),
            (self._kill_controller, 2),
            (self._kill_writer, 2),
            (self._move_coordinator, 1),
            (self._join, 3 * self.knobs.churn),
            (self._leave, self.knobs.churn),
            (self._die, 2 * self.knobs.churn),
            (self._compact, 2),
        ]

    @log_lines_dropped()
    def run(self) -> Counter[str]:
        """Run all phases; return counts of events. Raises: OutOfOrder."""
        try:
            return self._run()
        finally:
            for client in self.clients:
                client.die()

    def _run(self) -> Counter[str]:
        for _ in range(self.knobs.members):
            self._join()
        for _ in range(self.knobs.writers):
            self._start_writer()
        end = self.now + FAULTS_S
        self._run_until(lambda: self.now >= end and self.counts["changes"] >= CHANGES_MIN, 10 * FAULTS_S)
        self._calm()
        self._run_until(lambda: self._missing() is None, PEACE_S)
        missing = self._missing()
        if missing is not None:
            health = [member.consumer.health().reason for member in self.members]
            raise OutOfOrder(f"{missing} was not delivered within {PEACE_S} s: {health}")
        self._check_logs()
        if self.cluster.bugs:
            raise OutOfOrder(f"a broker has a bug: {self.cluster.bugs[0]}")
        return sum((client.counts for client in self.clients), self.counts + self.checker.counts)

    @property
    def now(self) -> float:
        """The virtual time since the start."""
        return self.cluster.clock.now()

    @property
    def clients(self) -> list[SimulatedClient]:
        """The members and writers that run now."""
        return [*self.members, *self.writers]

    # --- time ---

    def _run_until(self, is_done: Callable[[], bool], limit: float) -> None:
        end = self.now + limit
        fault_at, look_at = self.now + 2, self.now
        while self.now < end:
            if self.now >= look_at:
                look_at = self.now + 1
                if is_done():
                    return
            due = min([fault_at, self._disturb_at, end, *(client.next_at for client in self.clients)])
            if due > self.now:
                self.cluster.clock.advance_to(due)
            self.cluster.network.run_due()
            if self.now >= fault_at:
                fault_at = end if self._is_calm else self.now + self.knobs.fault_every_s * self.random.uniform(0.2, 2)
                if not self._is_calm:
                    self._break_something()
            if self.now >= self._disturb_at:
                self._disturb_group()
            for client in [client for client in self.clients if client.next_at <= self.now]:
                client.turn()
            self._replace_dead_writers()
            if self.checker.findings:
                raise OutOfOrder(self.checker.findings[0])

    # --- clients ---

    def _join(self) -> None:
        if len(self.members) < MEMBERS_MAX:
            about = self.seed, self.knobs, self.cluster, self.checker
            self.members.append(self.member_kind(self._next_number(), *about, self.holds))

    def _leave(self) -> None:
        if len(self.members) > 1:
            self._take_away(self.random.choice(self.members)).close()

    def _die(self) -> None:
        if len(self.members) > 1:
            self._take_away(self.random.choice(self.members)).die()

    def _see_positions(self, call: ApiCall) -> None:
        """After some requests with positions, disturb the group before the members that wait for them have got them."""
        if call.request.positions and not self._is_calm and self.random.random() < self.knobs.disturbance:
            self._sender = call.client_id or ""
            self._disturb_at = self.now + self.random.uniform(0.0, 0.5)

    def _disturb_group(self) -> None:
        """Let the sender of positions leave before it has committed them, or let a member join."""
        self._disturb_at = NEVER
        senders = [member for member in self.members if member.name == self._sender]
        if senders and len(self.members) > 1 and self.random.random() < 0.4:
            self._take_away(senders[0]).close()
            self.counts["senders left"] += 1
        else:
            self._join()

    def _take_away(self, member: SimulatedMember) -> SimulatedMember:
        self.members.remove(member)
        self.counts += member.counts
        self.checker.ended(member.name)
        return member

    def _start_writer(self) -> None:
        if not self._is_calm:
            about = self.seed, self.knobs, self.cluster, self.checker
            self.writers.append(SimulatedWriter(self._next_number(), *about))

    def _kill_writer(self) -> None:
        if self.writers:
            self.random.choice(self.writers).is_doomed = True

    def _replace_dead_writers(self) -> None:
        for writer in [writer for writer in self.writers if writer.is_dead]:
            self.writers.remove(writer)
            self.counts += writer.counts
            self.counts["writers killed"] += 1
            self._later(self.random.uniform(0.0, 5.0), self._start_writer)
        if sum(writer.counts["sent"] for writer in self.writers) + self.counts["sent"] >= RECORDS_MAX:
            self._stop_writers()

    def _stop_writers(self) -> None:
        for writer in self.writers:
            if not writer.is_stopped:
                writer.stop()

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- faults ---

    def _break_something(self) -> None:
        fault = self.random.choices([one for one, _ in self._faults], [weight for _, weight in self._faults])[0]
        try:
            fault()
            self.counts[fault.__name__.strip("_")] += 1
        except (ControllerError, LookupError):
            self.counts["impossible"] += 1

    def _count(self) -> int:
        ordered = self.cluster.controller.image.topics[TOPIC].ordered
        assert ordered is not None
        return ordered.undeleted_partition_count

    def _expand(self) -> None:
        self.cluster.expand(TOPIC, min(COUNT_MAX, self._count() + self.random.randint(1, 4)))
        self.counts["changes"] += 1

    def _shrink(self) -> None:
        count = self._count()
        if count > self.knobs.initial:
            self.cluster.shrink(TOPIC, self.random.randint(self.knobs.initial, count - 1))
            self.counts["changes"] += 1

    def _remove(self) -> None:
        """Empty marked partitions that the group has read, or, with retention, any partition."""
        partitions = self.cluster.controller.image.topics[TOPIC].partitions
        for row in reversed(partitions[self._count() :]):
            leader = self._leader(row.tp)
            if leader is None:
                break
            unread = self.checker.first_unread(leader)
            if unread is not None and self.random.random() >= self.knobs.retention:
                break
            self.cluster.delete_records(row.tp, leader.log.end_offset)
            self.counts["emptied"] += 1
        if self.random.random() < self.knobs.retention:
            row = self.random.choice(partitions)
            leader = self._leader(row.tp)
            if leader is not None:
                self.cluster.delete_records(row.tp, self.random.randint(leader.log.start_offset, leader.high_watermark))

    def _move_leader(self) -> None:
        rows = self.cluster.controller.image.topics[TOPIC].partitions
        self.cluster.move_leader(self.random.choice(rows).tp)

    def _lag_behind(self) -> None:
        """Let a broker apply changes of the metadata late for a while."""
        node_id = self.random.choice(list(self.cluster.nodes))
        self.cluster.lag(node_id, self.knobs.lag_s)
        self._later(self.random.uniform(1, 20), lambda: self.cluster.lag(node_id, 0.0))

    def _cut(self) -> None:
        """Cut a broker off from the controller: it gets no change of the metadata, and is fenced after a second."""
        self.cluster.cut(self.random.choice(list(self.cluster.nodes)))
        self._later(self.random.choice([0.5, 5.0]), self.cluster.heal)

    def _kill_broker(self) -> None:
        running = [node_id for node_id, node in self.cluster.nodes.items() if node.is_running]
        if len(running) == len(self.cluster.nodes):
            victim = self.random.choice(running)
            self.cluster.kill(victim, noticed_after_s=self.random.choice([0.0, 1.0, None]))
            self._later(self.random.uniform(0.5, 15), lambda: self._start_broker(victim))

    def _start_broker(self, node_id: int) -> None:
        if not self.cluster.nodes[node_id].is_running:
            self.cluster.start(node_id)

    def _kill_controller(self) -> None:
        self.cluster.kill_controller()
        self._later(self.random.uniform(0.1, 5), self.cluster.start_controller)

    def _move_coordinator(self) -> None:
        self.cluster.move_coordinator(GROUP)

    def _compact(self) -> None:
        if self.knobs.compacted:
            self.cluster.compact(self.random.choice(self.cluster.controller.image.topics[TOPIC].partitions).tp)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self.cluster.network.call_at(self.now + seconds, action)

    def _calm(self) -> None:
        """End all faults."""
        self._is_calm = True
        self.cluster.start_controller()
        self.cluster.heal()
        for node_id in self.cluster.nodes:
            self.cluster.lag(node_id, 0.0)
            self._start_broker(node_id)
        for member in self.members:
            member.hurry()
        self._stop_writers()

    # --- liveness ---

    def _leader(self, tp: TopicPartition) -> PartitionReplica | None:
        """Return the leader that the controller has chosen, if that broker already leads the partition."""
        row = self.cluster.controller.image.partition(*tp)
        replica = None if row is None else self.cluster.responding_leader(row)
        if row is None or replica is None or not replica.is_leader or replica.leader_epoch != row.leader_epoch:
            return None
        return replica

    def _check_logs(self) -> None:
        """Raise OutOfOrder if a log has lost committed records."""
        for row in self.cluster.controller.image.topics[TOPIC].partitions:
            leader = self._leader(row.tp)
            if leader is not None:
                self.checker.ended_at(row.tp, leader.log.end_offset)
        if self.checker.findings:
            raise OutOfOrder(self.checker.findings[0])

    def _missing(self) -> str | None:
        """Return a record that is in a log and was not delivered, or else what hinders that; None if there is none."""
        for writer in self.writers:
            if not writer.is_idle:
                return f"a record of {writer.name}"
        for row in self.cluster.controller.image.topics[TOPIC].partitions:
            leader = self._leader(row.tp)
            if leader is None:
                return f"the leader of {TOPIC}-{row.partition}"
            offset = self.checker.first_unread(leader)
            if offset is not None:
                return f"{TOPIC}-{row.partition} offset {offset}"
        return None
