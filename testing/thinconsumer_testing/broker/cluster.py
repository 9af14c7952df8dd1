"""A whole Kafka cluster without I/O: broker nodes, their logs, the controller, time, and the operations of its users.

The caller (``server``, ``thinconsumer_testing.cluster``) calls :meth:`Cluster.advance` before every input and at the
time given by :meth:`Cluster.wake_at`, and attaches clients with :meth:`Cluster.connect`. Must not know sockets, clocks
or files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.support.timers import Random
from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code

from .acl.bindings import AclFilter, acl_bindings
from .apis import APIS
from .call import Api
from .client_metrics import DEFAULT_INTERVAL_MS, ClientMetrics, PushedMetrics, subscription
from .config import BrokerConfig, TopicConfig
from .connection import ClientTransport, ServerConnection
from .controller import CONTROLLER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Controller, ControllerError
from .faults import FaultRule, FaultRules, api_key_of
from .group.hashing import partition_for
from .image import PartitionImage, StoredCluster, TopicImage
from .log.log import Log
from .login.mechanisms import Mechanisms
from .new_records import as_list, missing_topic, new_records
from .node import BrokerNode
from .ordered.changes import keeps_tombstones
from .partition import PartitionReplica
from .replication import Replication
from .schedule import Schedule, Timer
from .security import ListenerSecurity

if TYPE_CHECKING:
    from .directory import ClusterDirectory

RETENTION_CHECK_S = 300.0
COORDINATOR_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)

#: Producer ids are reserved on disk in blocks of this size, so that a restarted cluster does not assign an id again.
PRODUCER_ID_BLOCK = 1000


class Cluster:
    """A cluster of broker nodes.

    Args:
        nodes: Number of brokers; their ids are 1, 2, ...
        topics: Topic names with their partition counts.
        config: Configuration shared by all brokers.
        random: Source of ids and random delays.
        hosts: Advertised ``(host, port)`` of each broker.
        racks: Rack of each broker.
        now, wall_time: The time at the start in seconds, monotonic and since the epoch; unused with ``schedule``.
        storage: The directory with the cluster's data; None keeps the data in memory.
        schedule: The clock and timers; None: new ones.
        security: TLS and SASL of the listeners, shared by all brokers; None for plaintext without logins.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        *,
        random: Random,
        config: BrokerConfig | None = None,
        hosts: Sequence[tuple[str, int]] | None = None,
        racks: Sequence[str | None] | None = None,
        now: float = 0.0,
        wall_time: float = 0.0,
        storage: ClusterDirectory | None = None,
        schedule: Schedule | None = None,
        security: ListenerSecurity | None = None,
    ) -> None:
        self.random = random
        self.config: BrokerConfig = config or BrokerConfig()
        self.security: ListenerSecurity = security or ListenerSecurity()
        self.mechanisms: Mechanisms = Mechanisms(self.security, random)
        self.schedule: Schedule = schedule or Schedule(now, wall_time)
        self._storage = storage
        stored = storage.load() if storage is not None else None
        self.cluster_id: str = (stored.cluster_id if stored else "") or self.new_id().hex()[:22]
        self.controller: Controller = Controller(self, self.cluster_id)
        self.replication: Replication = Replication(self)
        self.rules: FaultRules = FaultRules()
        self.apis: Mapping[int, Api] = APIS
        self.client_metrics: ClientMetrics = ClientMetrics()
        #: The reasons for which brokers have closed connections after an invalid request: the latest 100.
        self.invalid_requests: deque[str] = deque(maxlen=100)
        #: The reasons for which logins have failed, with details that clients are not told: the latest 100.
        self.failed_logins: deque[str] = deque(maxlen=100)
        #: Descriptions of exceptions that the broker's code has raised by mistake; tests assert that there are none.
        self.bugs: list[str] = []
        self.nodes: dict[int, BrokerNode] = {}
        self._logs: dict[tuple[int, TopicPartition], tuple[bytes, Log]] = {}
        #: By node id: the controller's timer that will fence a broker that is down, paused or unreachable.
        self._broker_session_timers: dict[int, Timer] = {}
        self._cuts: set[frozenset[int]] = set()
        self._producer_ids = self._producer_ids_end = stored.next_producer_id if stored else 0
        self._connection_ids = 0
        for index in range(nodes):
            host, port = hosts[index] if hosts else (f"kafka{index + 1}", 9092)
            self.nodes[index + 1] = BrokerNode(self, index + 1, host, port, racks[index] if racks else None)
        for topic in stored.topics.values() if stored else ():
            self.controller.image.put_topic(topic)
            self.controller.counts.follow(topic)
        self.controller.image.scram_credentials.update(
            self.mechanisms.first_credentials(stored.scram_credentials if stored else {})
        )
        self.controller.image.acls.add(stored.acls if stored else ())
        for node in self.nodes.values():
            node.start()
            node.load_metadata()
            self.controller.register(node.broker_image)
        for name, partitions in (topics or {}).items():
            if name not in self.controller.image.topics:
                self.controller.create_topic(name, partitions)
        for node in self.nodes.values():
            node.apply_all_deltas()  # The delay ``metadata_lag_s`` does not apply to the cluster's first topics.
        self.controller.counts.take_steps()
        self.schedule.call_later(RETENTION_CHECK_S, self._run_retention)

    def __repr__(self) -> str:
        return f"<Cluster of {list(self.nodes.values())}>"

    def advance(self, now: float, wall_time: float | None = None) -> None:
        """Set the cluster's time to ``now``, and run the timers of all brokers that are due by then."""
        self.schedule.advance(now, wall_time)

    def wake_at(self) -> float:
        """Return the time at which the next timer is due: :meth:`advance` must be called by then."""
        return self.schedule.wake_at()

    def connect(self, node_id: int, transport: ClientTransport) -> ServerConnection:
        """Attach a client to a broker, which must be alive (it may be paused)."""
        self._connection_ids += 1
        return ServerConnection(self.nodes[node_id], transport, self._connection_ids)

    def create_topic(
        self, name: str, partitions: int = -1, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> TopicImage:
        """Create a topic. Raises: ControllerError."""
        return self.active_controller.create_topic(name, partitions, replication_factor, configs)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises: ControllerError."""
        self.active_controller.delete_topic(name)

    def expand(self, topic: str, partitions: int) -> None:
        """Increase the partition count of a topic. Raises: ControllerError."""
        self.active_controller.create_partitions(topic, partitions)

    def shrink(self, topic: str, partitions: int) -> None:
        """Decrease the partition count of a topic with ordered delivery. The partitions from number ``partitions`` on
        are marked for deletion, and removed once they are empty. Raises: ControllerError.
        """
        self.active_controller.create_partitions(topic, partitions)

    def set_password(self, user: str, password: str | None) -> None:
        """Set a user's password, or remove the user; see ``BrokerOperations.set_password``."""
        self.active_controller.scram.replace(user, self.mechanisms.set_password(user, password))

    def create_acls(self, principal: str, operations: str | Iterable[str], **resources: Any) -> None:
        """Create ACLs; see ``BrokerOperations.create_acls``. Raises: IllegalArgumentError."""
        self.active_controller.acls.create(acl_bindings(principal, operations, **resources))

    def delete_acls(self, principal: str, operations: str | Iterable[str], **resources: Any) -> None:
        """Delete the ACLs that :meth:`create_acls` created with the same arguments. Raises: IllegalArgumentError."""
        bindings = acl_bindings(principal, operations, **resources)
        self.active_controller.acls.delete([AclFilter(*binding) for binding in bindings])

    def set_client_metrics(
        self,
        name: str,
        metrics: Iterable[str] | None,
        *,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        match: Mapping[str, str] | None = None,
    ) -> None:
        """Set a subscription of clients' metrics; see ``BrokerOperations``. Raises: IllegalArgumentError."""
        self.client_metrics.set(name, None if metrics is None else subscription(metrics, interval_ms, match or {}))

    def pushed_metrics(self) -> list[PushedMetrics]:
        """Return what clients have pushed; see ``BrokerOperations``."""
        return list(self.client_metrics.pushes)

    def produce(
        self,
        topic: str,
        records: Iterable[bytes | NewRecord | None],
        partition: int = 0,
        *,
        node: int | None = None,
        **batch: Any,
    ) -> int:
        """Append one batch like a producer with acks=1; return its base offset.

        Args:
            node: Write to this broker, like a producer with old metadata, instead of to the current leader. This broker
                must still act as leader, as a former leader does until the leader change reaches it.
            batch: Passed to ``thinconsumer.records.builder.build_batch``: a codec, a producer id, ...

        Raises:
            LookupError: There is no such partition, or it has no leader, or ``node`` does not act as leader.
            IllegalArgumentError: A key, value or header is not bytes.
            ValueError: The leader rejected the batch.
        """
        now_ms = self.schedule.wall_ms()
        found = new_records(as_list(records))
        dated = [r._replace(timestamp=now_ms) if r.timestamp < 0 else r for r in found]
        leader = self.leader(TopicPartition(topic, partition), node)
        results: list[tuple[int, int]] = []
        leader.append(
            build_batch(dated, **batch), 1, lambda code, a: results.append((code, -1 if a is None else a.base_offset))
        )
        code, offset = results[0]
        if code:
            raise ValueError(
                f"the leader of {topic}-{partition} rejected the batch with error {code} ({Code(code).name})"
            )
        return offset

    def leader(self, tp: TopicPartition, node_id: int | None = None) -> PartitionReplica:
        """Return the leader's replica according to the controller; with ``node_id``, that node's replica if it acts as
        leader.

        Raises:
            LookupError: The partition has no such replica.
        """
        row = self.controller.image.partition(*tp)
        leads = row.leader if row is not None and node_id is None else node_id
        node = self.nodes.get(leads) if leads is not None else None
        partition = node.partitions.get(tp) if node is not None and node.is_alive else None
        if partition is None or not partition.is_leader:
            raise self.no_leader(tp)
        return partition

    def no_leader(self, tp: TopicPartition) -> LookupError:
        """Return the error for a partition that does not exist, or has no leader."""
        topic = self.controller.image.topics.get(tp.topic)
        if topic is None:
            return missing_topic(tp.topic)
        count = len(topic.partitions)
        if tp.partition not in range(count):
            return LookupError(f"topic {tp.topic!r} has no partition {tp.partition}, but those from 0 to {count - 1}")
        return LookupError(f"{tp.topic}-{tp.partition} has no leader")

    def kill(self, node_id: int, *, noticed_after_s: float | None = None) -> None:
        """Kill a broker (``kill -9``); the controller fences it after ``noticed_after_s`` (None: session timeout)."""
        node = self.nodes[node_id]
        if not node.is_alive:
            return
        node.kill()
        if noticed_after_s is not None:
            self._cancel_broker_session(node)
        if noticed_after_s is not None and noticed_after_s <= 0 and self.controller.is_active:
            self.controller.fence(node_id)
        elif not node.is_alive:  # A callback that node.kill() ran may have started the broker again.
            self._update_broker_session(node, noticed_after_s)

    def start(self, node_id: int) -> None:
        """Start a killed broker again with its logs; it serves requests as soon as it can reach the controller."""
        node = self.nodes[node_id]
        if node.is_alive:
            return
        node.start()
        self._reconnect_broker(node)

    def kill_controller(self) -> None:
        """Kill the controller. Until :meth:`start_controller`, no metadata changes, and no broker is fenced."""
        self.controller.stop()
        for timer in self._broker_session_timers.values():
            timer.cancel()
        self._broker_session_timers.clear()

    def start_controller(self) -> None:
        """Start a controller with the metadata of the killed one, whose unfinished changes it completes."""
        if self.controller.is_active:
            return
        self.controller = Controller(self, self.cluster_id, predecessor=self.controller)
        for node in self.nodes.values():
            if node.is_running:
                node.apply_due_deltas()
                self._reconnect_broker(node)
            else:
                self._update_broker_session(node)
        self.controller.counts.take_steps()

    @property
    def active_controller(self) -> Controller:
        """The controller. Raises: ControllerError (NOT_CONTROLLER) while none is active."""
        if not self.controller.is_active:
            raise ControllerError(Code.NOT_CONTROLLER, "no controller is active")
        return self.controller

    def responding_leader(self, row: PartitionImage) -> PartitionReplica | None:
        """Return the replica of a partition's leader; None if there is no leader, it is down, paused or not reachable
        from the controller, or it has no replica with the partition's topic id yet.
        """
        node = self.nodes.get(row.leader)
        if node is None or not node.is_running or not self.reachable(node.node_id, CONTROLLER):
            return None
        replica = node.partitions.get(row.tp)
        return replica if replica is not None and replica.topic_id == row.topic_id else None

    def pause(self, node_id: int) -> None:
        """Suspend a broker like SIGSTOP; after the session timeout the controller fences it until it resumes."""
        node = self.nodes[node_id]
        if node.is_running:
            node.pause()
            self._update_broker_session(node)

    def resume(self, node_id: int) -> None:
        """Continue a paused broker like SIGCONT; if the controller has fenced it, it registers again."""
        node = self.nodes[node_id]
        if node.is_paused:
            node.resume()
            self._reconnect_broker(node)

    def cut(self, one: int, other: int = CONTROLLER) -> None:
        """Cut the network between two brokers, or between a broker and the controller. The controller fences a broker
        that it cannot reach, once the broker's session has timed out.
        """
        self._cuts.add(frozenset((one, other)))
        for node_id in (one, other):
            if CONTROLLER in (one, other) and node_id != CONTROLLER and self.nodes[node_id].is_alive:
                self._update_broker_session(self.nodes[node_id])

    def heal(self, but: Iterable[tuple[int, int]] = ()) -> None:
        """End all network cuts except those between the pairs of nodes in ``but``."""
        self._cuts.intersection_update(map(frozenset, but))
        for node in self.nodes.values():
            if node.is_running:
                node.apply_due_deltas()
                self._reconnect_broker(node)
        self.replication.catch_up()

    def reachable(self, one: int, other: int) -> bool:
        """Return whether the network connects two nodes, or a node and an active controller."""
        if CONTROLLER in (one, other) and not self.controller.is_active:
            return False
        return not self._cuts or frozenset((one, other)) not in self._cuts

    def move_leader(self, tp: TopicPartition, to: int | None = None) -> int:
        """Make another broker the leader; see ``Controller.move_leader``. Raises: ControllerError."""
        return self.active_controller.move_leader(tp, to)

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Move the offsets partition of a group, and all groups in it, to another broker. Raises: ControllerError."""
        topic = self.active_controller.ensure_internal_topic(OFFSETS_TOPIC)
        return self.active_controller.move_leader(
            TopicPartition(OFFSETS_TOPIC, partition_for(group, len(topic.partitions))), to
        )

    def compact(self, tp: TopicPartition) -> None:
        """Run the log cleaner on a partition now, on every replica."""
        now_ms = self.schedule.wall_ms()
        for node in self.nodes.values():
            if (partition := node.partitions.get(tp)) is not None:
                self._compact(node, partition, now_ms)

    @staticmethod
    def _compact(node: BrokerNode, partition: PartitionReplica, now_ms: int) -> None:
        topic = node.image.topics.get(partition.tp.topic)
        partition.log.keeps_tombstones = topic is not None and keeps_tombstones(topic, partition.tp.partition)
        partition.log.compact(now_ms, partition.high_watermark)
        partition.notify_listeners()

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Delete the records before an offset, at most up to the high watermark. Raises: LookupError: no leader."""
        self.leader(tp).delete_before(before)

    def on(self, api: Any, action: Any, **limits: Any) -> FaultRule:
        """Add a fault rule: see :class:`.faults.FaultRule`."""
        return self.rules.add(FaultRule(api, action, **limits))

    def set_versions(
        self, api: type[Message] | str, versions: tuple[int, int] | None, *, node: int | None = None
    ) -> None:
        """Make every broker, or one, support other versions of an API, as (lowest, highest); None removes the API.

        Raises:
            IllegalArgumentError: The API does not exist.
        """
        key = api_key_of(api)
        for one in self.nodes.values():
            if node in (None, one.node_id):
                apis = {k: known for k, known in one.apis.items() if k != key}
                if versions is not None:
                    apis[key] = self.apis[key]._replace(lowest=versions[0], highest=versions[1])
                one.apis = apis

    def new_id(self) -> bytes:
        """Return sixteen random bytes for a topic id or the cluster id; never all zero, Kafka's value for "no id"."""
        return bytes(self.random.randrange(256) for _ in range(15)) + b"\1"

    def new_producer_id(self) -> int:
        if self._producer_ids >= self._producer_ids_end:
            self._producer_ids_end = self._producer_ids + PRODUCER_ID_BLOCK
            self.save_metadata()
        self._producer_ids += 1
        return self._producer_ids - 1

    def save_metadata(self) -> None:
        """Write the metadata to the storage directory; does nothing if the cluster exists only in memory."""
        if self._storage is not None:
            image = self.controller.image
            topics, credentials = dict(image.topics), dict(image.scram_credentials)
            self._storage.save(
                StoredCluster(self.cluster_id, self._producer_ids_end, topics, credentials, tuple(image.acls))
            )

    def log_of(self, node_id: int, row: PartitionImage, config: TopicConfig) -> Log:
        """Return a node's log of a partition; a new log if the node has none with this topic id."""
        topic_id, log = self._logs.get((node_id, row.tp), (b"", None))
        if log is None or topic_id != row.topic_id:
            log = self.new_log(node_id, row, config)
            self._logs[node_id, row.tp] = (row.topic_id, log)
        return log

    def new_log(self, node_id: int, row: PartitionImage, config: TopicConfig) -> Log:
        """Return a log for a node's new replica, with the records that the storage directory has for it. Simulations
        override this method to observe the log.
        """
        store = self._storage.log_store(node_id, row.tp) if self._storage is not None else None
        return Log(row.tp, config, store)

    def forget_log(self, node_id: int, tp: TopicPartition, topic_id: bytes) -> None:
        """Drop the log of a removed replica, so that a replica created here later starts with an empty log."""
        kept = self._logs.get((node_id, tp))
        if kept is not None and kept[0] == topic_id:
            del self._logs[node_id, tp]

    def _update_broker_session(self, node: BrokerNode, session_s: float | None = None) -> None:
        """If the broker runs and is reachable, cancel the timer that ends its session with the controller. Otherwise
        start this timer, unless it is running, to fire after ``session_s`` (None: the session timeout).
        """
        if not self.controller.is_active:
            return  # The next controller begins new sessions.
        if node.is_running and self.reachable(node.node_id, CONTROLLER):
            self._cancel_broker_session(node)
        elif node.node_id not in self._broker_session_timers:
            if session_s is None:
                session_s = self.config.broker_session_timeout_ms / 1000
            self._broker_session_timers[node.node_id] = self.schedule.call_later(
                session_s, lambda: self._expire_broker_session(node)
            )

    def _cancel_broker_session(self, node: BrokerNode) -> None:
        timer = self._broker_session_timers.pop(node.node_id, None)
        if timer is not None:
            timer.cancel()

    def _expire_broker_session(self, node: BrokerNode) -> None:
        del self._broker_session_timers[node.node_id]
        self.controller.fence(node.node_id)

    def _reconnect_broker(self, node: BrokerNode) -> None:
        """Continue a reachable broker's session with the controller. A restarted broker loads its metadata, and a
        fenced one is registered again.
        """
        self._update_broker_session(node)
        if not self.reachable(node.node_id, CONTROLLER):
            return
        if not node.has_metadata:
            # The broker was restarted. If its old session has not expired yet, the broker still counts as leader, so it
            # is fenced first: fencing elects new leaders.
            self.controller.fence(node.node_id)
            self._delete_stray_logs(node.node_id)
            node.load_metadata()
        if node.is_running and node.node_id not in self.controller.image.brokers:
            self.controller.register(node.broker_image)
        self.replication.catch_up([node.node_id])

    def _delete_stray_logs(self, node_id: int) -> None:
        """Drop a broker's logs of partitions that were deleted or moved to other brokers while this broker was down."""
        for where, (topic_id, _) in list(self._logs.items()):
            row = self.controller.image.partition(*where[1])
            if where[0] == node_id and (row is None or row.topic_id != topic_id or node_id not in row.replicas):
                del self._logs[where]

    def _run_retention(self) -> None:
        """Apply retention to the logs of leaders, and expire idle producer ids in all logs, as brokers do periodically.
        Then remove partitions that are marked for deletion and empty now.

        Coordinators' logs are also compacted once they have grown, because groups that commit all the time would fill
        the memory. Users compact other topics with :meth:`compact`.
        """
        self.schedule.call_later(RETENTION_CHECK_S, self._run_retention)
        now_ms = self.schedule.wall_ms()
        for node in self.nodes.values():
            for partition in list(node.partitions.values()):
                start = partition.log.start_offset
                partition.log.producers.expire(now_ms, self.config.producer_id_expiration_ms)
                if node.is_running and partition.tp.topic in COORDINATOR_TOPICS and partition.log.needs_compaction:
                    self._compact(node, partition, now_ms)
                if node.is_running and partition.is_leader:
                    partition.log.apply_retention(now_ms, partition.high_watermark)
                    if partition.log.start_offset != start:
                        partition.notify_listeners()
                        self.replication.on_append(partition)
        if self.controller.is_active:
            self.controller.counts.remove_emptied()
