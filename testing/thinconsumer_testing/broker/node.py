"""One broker node: its metadata image, its replicas and its coordinators.

A kill discards everything except the logs. While the node is paused (SIGSTOP), timers, requests and metadata deltas
wait until it resumes. Handlers must use the node's own image, never the controller's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from thinconsumer.support.timers import Random
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from .client_metrics import ClientInstances
from .config import BrokerConfig, TopicConfig, new_authorizer
from .controller import CONTROLLER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ControllerError, MetadataDelta
from .fetch_sessions import FetchSessionCache
from .group.coordinator import GroupCoordinator
from .group.hashing import partition_for
from .image import BrokerImage, ClusterImage, TopicImage
from .login.authenticator import Authenticator
from .partition import PartitionReplica
from .schedule import Schedule, Timer
from .security import ListenerSecurity
from .txn.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from .acl.authorizer import Authorizer
    from .call import Api
    from .cluster import Cluster
    from .connection import ServerConnection

log = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
#: Seconds that a coordinator waits for a WriteTxnMarkers response: Kafka's request.timeout.ms of brokers.
MARKER_TIMEOUT_S = 30.0


class BrokerNode:
    """One broker. ``is_running`` is False while it is down or paused."""

    def __init__(self, cluster: Cluster, node_id: int, host: str, port: int, rack: str | None) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.config: BrokerConfig = cluster.config
        self.security: ListenerSecurity = cluster.security
        self.schedule: Schedule = cluster.schedule
        self.random: Random = cluster.random
        self.apis: Mapping[int, Api] = cluster.apis  #: The APIs that the broker supports, by API key.
        self.is_alive: bool = False
        self.is_paused: bool = False
        #: Whether the broker has loaded the controller's metadata since it was started.
        self.has_metadata: bool = False
        self.connections: list[ServerConnection] = []
        #: The number of starts and kills of this broker. A callback that was registered before the last of these is
        #: ignored, because it belongs to a process that no longer exists.
        self._incarnation = 0
        self._deferred: list[Callable[[], None]] = []
        #: Metadata deltas that this broker has not applied yet, with the times at which they arrive.
        self._pending_deltas: deque[tuple[float, MetadataDelta]] = deque()
        self._last_delta_at = 0.0
        #: The value of ``_incarnation`` for which :meth:`apply_due_deltas` is running; 0 if it is not running.
        self._applying_incarnation = 0
        self._reset()

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "up" if self.is_alive else "down"
        return f"<BrokerNode {self.node_id} {self.host}:{self.port} {state}>"

    def _reset(self) -> None:
        self.image: ClusterImage = ClusterImage(self.cluster.cluster_id)
        #: None if the cluster has no authorizer.
        self.authorizer: Authorizer | None = new_authorizer(self.config, self.image.acls)
        self.partitions: dict[TopicPartition, PartitionReplica] = {}
        self.group_coordinator: GroupCoordinator = GroupCoordinator(self)
        self.transaction_coordinator: TransactionCoordinator = TransactionCoordinator(self)
        self.fetch_sessions: FetchSessionCache = FetchSessionCache(self)
        self.client_instances: ClientInstances = ClientInstances()

    @property
    def is_running(self) -> bool:
        """Whether the broker is alive and not paused."""
        return self.is_alive and not self.is_paused

    @property
    def is_serving(self) -> bool:
        """Whether the broker processes requests: it is running and has loaded the metadata."""
        return self.has_metadata and self.is_running

    @property
    def broker_image(self) -> BrokerImage:
        """The broker's registration, as other brokers see it."""
        return BrokerImage(self.node_id, self.host, self.port, self.rack)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call ``callback`` after ``seconds``, or never if the broker is killed before. If the broker is paused when
        the time is over, the callback is called when the broker resumes.
        """
        if not self.is_alive:
            dead = Timer(self.schedule.now, callback)
            dead.cancel()
            return dead
        incarnation = self._incarnation
        timer: Timer

        def fire() -> None:
            if self._incarnation != incarnation:
                return
            if self.is_paused:
                # The callback runs when the broker resumes. Until then the timer counts as pending, so that cancelling
                # it still prevents the callback.
                timer.rearm(fire)
                self._deferred.append(timer.fire)
            else:
                callback()

        timer = self.schedule.call_later(seconds, fire)
        return timer

    def new_authenticator(self, logged_in: Callable[[str], None]) -> Authenticator | None:
        """Return the login of a new connection, which calls ``logged_in`` with the principal; None without SASL."""
        if not self.security.uses_sasl:
            return None
        security, mechanisms = self.security, self.cluster.mechanisms
        return Authenticator(
            security.sasl_enabled_mechanisms,
            lambda name: mechanisms.new_exchange(name, self.image.scram_credentials),
            security.connections_max_reauth_ms,
            logged_in,
        )

    def note_failed_login(self, client_host: str, why: str) -> None:
        """Log a failed login, and add its reason to the cluster's ``failed_logins``."""
        log.info("the login of client %s at %r failed: %s", client_host, self, why)
        self.cluster.failed_logins.append(why)

    def start(self) -> None:
        """Start without metadata; :meth:`load_metadata` follows once the controller is reachable."""
        self._begin_incarnation(is_alive=True)
        self._reset()

    def load_metadata(self) -> None:
        """Load the controller's metadata, and then process requests. The caller registers the broker afterwards; deltas
        that the controller publishes from now on are queued behind this metadata.
        """
        self.has_metadata = True
        truth = self.cluster.controller.image
        self.image.brokers.update(truth.brokers)
        self.image.scram_credentials.update(truth.scram_credentials)
        self.image.acls.add(truth.acls)
        now = self.schedule.now
        for topic in truth.topics.values():
            delta = MetadataDelta(topic.name, partial(ClusterImage.put_topic, topic=topic))
            self._pending_deltas.append((now, delta))
        self.apply_due_deltas()
        for connection in list(self.connections):
            connection.process_frames()

    def _begin_incarnation(self, *, is_alive: bool) -> None:
        self._incarnation += 1
        self.is_alive, self.is_paused, self.has_metadata = is_alive, False, False
        self._deferred.clear()
        self._pending_deltas.clear()

    def kill(self) -> None:
        """Stop like ``kill -9``: reset all connections; pending requests and timers never complete."""
        self._begin_incarnation(is_alive=False)
        incarnation, partitions = self._incarnation, list(self.partitions.values())
        for connection in list(self.connections):
            connection.abort()
        for partition in partitions:
            partition.stop()
        if self._incarnation == incarnation:
            # If a callback above has started this broker again, a reset would discard its new state.
            self._reset()

    def pause(self) -> None:
        """Suspend all processing until :meth:`resume`."""
        self.is_paused = self.is_alive

    def resume(self) -> None:
        """Run the timers that became due while the broker was paused, then process buffered requests and deltas."""
        if not self.is_paused:
            return
        self.is_paused = False
        deferred, self._deferred = self._deferred, []
        for callback in deferred:
            callback()
        for connection in list(self.connections):
            connection.process_frames()
        self.apply_due_deltas()

    def enqueue_delta(self, delta: MetadataDelta) -> None:
        """Queue a delta from the controller, if the broker has loaded the metadata. Deltas arrive in order, each after
        a random delay.
        """
        if not self.has_metadata:
            return
        self._last_delta_at = max(
            self._last_delta_at, self.schedule.now + self.config.metadata_lag_s * self.random.random()
        )
        self._pending_deltas.append((self._last_delta_at, delta))
        if self._last_delta_at > self.schedule.now:
            self.schedule.call_at(self._last_delta_at, self.apply_due_deltas)

    def apply_due_deltas(self) -> bool:
        """Apply the metadata deltas that have arrived; return whether at least one was applied. Deltas wait while the
        broker is paused or cannot reach the controller.
        """
        incarnation = self._incarnation
        if self._applying_incarnation == incarnation:
            # Applying a delta has published another one and called this method again. The outer call applies the new
            # delta after the current one, so that deltas take effect in order.
            return False
        applied = False
        self._applying_incarnation = incarnation
        try:
            while (
                self._incarnation == incarnation
                and self._pending_deltas
                and self._pending_deltas[0][0] <= self.schedule.now
            ):
                if not self.is_running or not self.cluster.reachable(self.node_id, CONTROLLER):
                    break
                applied = True
                self._apply_delta(self._pending_deltas.popleft()[1])
        finally:
            if self._applying_incarnation == incarnation:
                self._applying_incarnation = 0
        return applied

    def apply_all_deltas(self) -> None:
        """Apply all queued deltas immediately, regardless of their delays."""
        while self._pending_deltas:
            now = self._last_delta_at = self.schedule.now
            self._pending_deltas = deque((now, delta) for _, delta in self._pending_deltas)
            self.apply_due_deltas()

    def _apply_delta(self, delta: MetadataDelta) -> None:
        """Apply a delta to this broker's metadata image, then to its replicas of the topic that has changed. Replicas
        are added, removed, or become leader or follower.
        """
        image, incarnation = self.image, self._incarnation
        old = image.topics.get(delta.topic) if delta.topic is not None else None
        delta.apply(image)
        topic = image.topics.get(delta.topic) if delta.topic is not None else None
        if topic is old:
            return
        if old is not None and (topic is None or topic.topic_id != old.topic_id):
            for row in old.partitions:
                partition = self.partitions.get(row.tp)
                if partition is not None and partition.topic_id == old.topic_id:
                    self._remove_replica(partition)
            if self._incarnation == incarnation:
                self.group_coordinator.on_topics_deleted([old.name])
            old = None
        if topic is not None:
            self._apply_topic(topic, old)

    def _apply_topic(self, topic: TopicImage, old: TopicImage | None) -> None:
        incarnation = self._incarnation
        for row in old.partitions[len(topic.partitions) :] if old is not None else ():
            removed = self.partitions.get(row.tp)
            if removed is not None and self._incarnation == incarnation:
                self._remove_replica(removed)
        config = TopicConfig.parse(topic.configs, self.config)
        known = old.partitions if old is not None and old.configs == topic.configs else ()
        new = [row for row, before in zip(topic.partitions, known) if row is not before]
        for row in (*new, *topic.partitions[len(known) :]):
            if self._incarnation != incarnation:
                return  # A callback has killed this broker.
            partition = self.partitions.get(row.tp)
            if self.node_id not in row.replicas:
                if partition is not None:
                    self._remove_replica(partition)
                continue
            if partition is None:
                replica_log = self.cluster.log_of(self.node_id, row, config)
                partition = self.partitions[row.tp] = PartitionReplica(self, row, config, replica_log)
            led, epoch = partition.is_leader, partition.leader_epoch
            partition.apply_image(row, config)
            if self._incarnation == incarnation:
                self._notify_coordinators(partition, led, epoch)
                self.cluster.replication.on_leader_change(row.tp, row.replicas)

    def _remove_replica(self, partition: PartitionReplica) -> None:
        del self.partitions[partition.tp]
        led, epoch = partition.is_leader, partition.leader_epoch
        partition.stop()
        self._notify_coordinators(partition, led, epoch)
        self.cluster.forget_log(self.node_id, partition.tp, partition.topic_id)

    def _notify_coordinators(self, partition: PartitionReplica, led: bool, epoch: int) -> None:
        coordinator: GroupCoordinator | TransactionCoordinator
        if partition.tp.topic == OFFSETS_TOPIC:
            coordinator = self.group_coordinator
        elif partition.tp.topic == TRANSACTIONS_TOPIC:
            coordinator = self.transaction_coordinator
        else:
            return
        if led == partition.is_leader and epoch == partition.leader_epoch:
            return
        if led:
            coordinator.resigned(partition.tp.partition)
        if partition.is_leader:
            coordinator.elected(partition.tp.partition, partition.leader_epoch, partition)

    def leader_replica(self, tp: TopicPartition, current_leader_epoch: int = -1) -> tuple[PartitionReplica | None, int]:
        """Return (replica, 0) if this broker leads the partition in this leader epoch (-1: any), else (None, code)."""
        row = self.image.partition(tp.topic, tp.partition)
        if row is None:
            return None, int(Code.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self.partitions.get(tp)
        epoch = row.leader_epoch if partition is None else partition.leader_epoch
        if current_leader_epoch != -1 and current_leader_epoch != epoch and partition is not None:
            older = current_leader_epoch < epoch
            return None, int(Code.FENCED_LEADER_EPOCH if older else Code.UNKNOWN_LEADER_EPOCH)
        if partition is None or not partition.is_leader:
            return None, int(Code.NOT_LEADER_OR_FOLLOWER)
        return partition, 0

    def coordinator_for(self, kind: int, key: str) -> tuple[int, BrokerImage | None]:
        """Return (error code, coordinator or None) of the group (``kind`` 0) or transactional id (1) ``key``. If the
        internal topic is missing, try to create it.
        """
        name = OFFSETS_TOPIC if kind == GROUP else TRANSACTIONS_TOPIC
        topic = self.image.topics.get(name)
        if topic is None and self.cluster.reachable(self.node_id, CONTROLLER):
            try:
                self.cluster.controller.ensure_internal_topic(name)
            except ControllerError as error:
                log.info("%r cannot create %s: %s", self, name, error)
            topic = self.image.topics.get(name)
        broker = None
        if topic is not None:  # The topic is None until the delta that creates it has reached this broker.
            row = topic.partitions[partition_for(key, len(topic.partitions))]
            broker = self.image.brokers.get(row.leader)
        return int(Code.COORDINATOR_NOT_AVAILABLE if broker is None else Code.NONE), broker

    def write_transaction_marker(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        done: Callable[[int], None],
        *,
        transaction_version: int = 0,
    ) -> None:
        """Append a transaction marker on the partition's leader; ``done(code)`` is called once.

        After 30 s ``done`` is called with REQUEST_TIMED_OUT, so that a paused leader cannot block the transaction.
        ``done`` is not called if this broker is killed first.
        """
        row = self.image.partition(tp.topic, tp.partition)
        if row is None:
            done(int(Code.UNKNOWN_TOPIC_OR_PARTITION))
            return
        leader = self.cluster.nodes.get(row.leader)
        if leader is None or not leader.is_running or not self.cluster.reachable(self.node_id, leader.node_id):
            done(int(Code.NOT_LEADER_OR_FOLLOWER))
            return
        partition, code = leader.leader_replica(tp)
        if partition is None:
            done(code)
            return

        incarnation, is_done = self._incarnation, False

        def answer(code: int) -> None:
            nonlocal is_done
            if not is_done and self._incarnation == incarnation:
                is_done = True
                timer.cancel()
                done(code)

        def written(code: int) -> None:
            if not code and tp.topic == OFFSETS_TOPIC:
                leader.group_coordinator.on_marker(tp.partition, producer_id, commit)
            answer(code)

        timer = self.call_later(MARKER_TIMEOUT_S, lambda: answer(int(Code.REQUEST_TIMED_OUT)))

        partition.append_marker(
            producer_id, producer_epoch, commit, coordinator_epoch, written, transaction_version=transaction_version
        )

    def new_producer_id(self) -> int:
        return self.cluster.new_producer_id()
