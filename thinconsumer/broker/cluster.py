"""A whole cluster without I/O: nodes, their logs, the controller, time, and what users do to it.

Shells call :meth:`Cluster.advance` before every input and whenever :meth:`Cluster.wake_at` has come, and connect
clients by :meth:`Cluster.connect`. Everything that happens, happens inside those calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..records.builder import NewRecord, build_batch
from ..timers import Random
from ..types import TopicPartition
from ..wire import Message
from .apis import APIS
from .call import Api
from .config import BrokerConfig, TopicConfig
from .connection import ClientTransport, ServerConnection
from .controller import CONTROLLER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Controller
from .faults import Rule, Rules, api_key_of
from .group.hashing import partition_for
from .image import PartitionImage, TopicImage
from .log.log import Log, LogStore
from .node import BrokerNode
from .partition import PartitionReplica
from .replication import Replication
from .schedule import Schedule, Timer

RETENTION_CHECK_S = 300.0


COORDINATOR_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)

#: Producer ids are taken from what is kept in blocks, so that a cluster started again gives none of them twice.
PRODUCER_ID_BLOCK = 1000


class StoredMetadata(Protocol):
    """What a cluster that was started before had."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def next_producer_id(self) -> int: ...
    @property
    def topics(self) -> Mapping[str, TopicImage]: ...


class ClusterStorage(Protocol):
    """Where a cluster is kept beyond this process; ``directory.ClusterDirectory`` is one."""

    def load(self) -> StoredMetadata:
        """Return what was there before."""
        ...

    def save(self, topics: Iterable[TopicImage], *, cluster_id: str, next_producer_id: int) -> None:
        """Keep this instead of what was saved before."""

    def log_store(self, node_id: int, tp: TopicPartition) -> LogStore:
        """Return what keeps one replica's log."""
        ...


class Cluster:
    """See the module.

    Args:
        nodes: How many brokers; their ids are 1, 2, ...
        topics: Names and numbers of partitions.
        config: What all of them share.
        random: Where ids and lags come from.
        hosts: What the nodes tell clients of their address, one ``(host, port)`` each.
        racks: One for each node.
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
        cluster_id: str = "",
        storage: ClusterStorage | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self.random = random
        self.config = config or BrokerConfig()
        self.schedule = schedule or Schedule(now, wall_time)
        self._storage = storage
        stored = storage.load() if storage is not None else None
        self.cluster_id = cluster_id or (stored.cluster_id if stored else "") or self.new_id().hex()[:22]
        self.controller = Controller(self, self.cluster_id)
        self.replication = Replication(self)
        self.rules = Rules()
        self.apis: Mapping[int, Api] = APIS
        self.invalid_requests: deque[str] = deque(maxlen=100)  #: Why connections were closed, the latest reasons.
        self.bugs: list[str] = []  #: What handlers raised, which they never should; tests look here.
        self.nodes: dict[int, BrokerNode] = {}
        self._logs: dict[tuple[int, TopicPartition], tuple[bytes, Log]] = {}
        self._broker_session_timers: dict[int, Timer] = {}  #: When the controller counts out those it does not hear.
        self._cuts: set[frozenset[int]] = set()
        self._producer_ids = self._producer_ids_end = stored.next_producer_id if stored else 0
        self._connection_ids = 0
        for index in range(nodes):
            host, port = hosts[index] if hosts else (f"kafka{index + 1}", 9092)
            self.nodes[index + 1] = BrokerNode(self, index + 1, host, port, racks[index] if racks else None)
        for topic in stored.topics.values() if stored else ():
            self.controller.image.put_topic(topic)
        for node in self.nodes.values():
            node.start()
            node.load_metadata()
            self.controller.register(node.broker_image)
        for name, partitions in (topics or {}).items():
            if name not in self.controller.image.topics:
                self.controller.create_topic(name, partitions)
        for node in self.nodes.values():
            node.apply_all_deltas()  # a cluster that is there knows itself
        self.schedule.call_later(RETENTION_CHECK_S, self._run_retention_periodically)

    def __repr__(self) -> str:
        return f"<Cluster of {list(self.nodes.values())}>"

    # -- for shells

    def advance(self, now: float, wall_time: float | None = None) -> None:
        """Let time pass, and what was due happen."""
        self.schedule.advance(now, wall_time)

    def wake_at(self) -> float:
        """Return when :meth:`advance` is to be called even if nothing comes in."""
        return self.schedule.wake_at()

    def connect(self, node_id: int, transport: ClientTransport) -> ServerConnection:
        """A client has connected to a node, which has to be alive (it may be paused)."""
        self._connection_ids += 1
        return ServerConnection(self.nodes[node_id], transport, self._connection_ids)

    # -- what users do to it

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> TopicImage:
        """Create a topic. Raises: ControllerError."""
        return self.controller.create_topic(name, partitions, replication_factor, configs)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises: ControllerError."""
        self.controller.delete_topic(name)

    def expand(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions from now on. Raises: ControllerError."""
        self.controller.create_partitions(topic, partitions)

    def produce(
        self,
        topic: str,
        records: Iterable[bytes | NewRecord | None],
        partition: int = 0,
        *,
        node: int | None = None,
        **batch: Any,
    ) -> int:
        """Append one batch as if a producer had sent it with acks=1; return its first offset.

        ``node``: to that one, as a producer does that has not heard of another leader; the node must not have either.

        ``batch`` goes to :func:`~thinconsumer.records.builder.build_batch`: a codec, a producer id, ...

        Raises:
            LookupError: Nobody leads the partition.
            ValueError: The leader refused the batch.
        """
        now_ms = self.schedule.wall_ms()
        news = [r if isinstance(r, NewRecord) else NewRecord(r) for r in records]
        dated = [r._replace(timestamp=now_ms) if r.timestamp < 0 else r for r in news]
        leader = self.leader(TopicPartition(topic, partition), node)
        found: list[tuple[int, int]] = []
        leader.append(
            build_batch(dated, **batch), 1, lambda code, a: found.append((code, -1 if a is None else a.base_offset))
        )
        code, offset = found[0]
        if code:
            raise ValueError(f"the leader of {topic}-{partition} refused the batch with error {code}")
        return offset

    def leader(self, tp: TopicPartition, node_id: int | None = None) -> PartitionReplica:
        """Return the replica that leads, by the controller's word; ``node_id``: that node's, if it thinks it leads.

        Raises:
            LookupError: There is none.
        """
        row = self.controller.image.partition(*tp)
        leads = row.leader if row is not None and node_id is None else node_id
        node = self.nodes.get(leads) if leads is not None else None
        partition = node.partitions.get(tp) if node is not None and node.is_alive else None
        if partition is None or not partition.is_leader:
            raise LookupError(f"nobody leads {tp.topic}-{tp.partition}")
        return partition

    def kill(self, node_id: int, *, noticed_after_s: float | None = None) -> None:
        """As ``kill -9``. The controller notices after the session timeout, or as given; 0: at once."""
        node = self.nodes[node_id]
        if not node.is_alive:
            return
        node.kill()
        if noticed_after_s is not None:
            self._cancel_broker_session(node)
        if noticed_after_s is not None and noticed_after_s <= 0:
            self.controller.fence(node_id)
        elif not node.is_alive:  # who was told of its end may have started it again
            self._update_broker_session(node, noticed_after_s)

    def start(self, node_id: int) -> None:
        """Start a killed node again, with the logs it had; it is of use as soon as the controller can be reached."""
        node = self.nodes[node_id]
        if node.is_alive:
            return
        node.start()
        self._reconnect_broker(node)

    def pause(self, node_id: int) -> None:
        """As SIGSTOP; after the session timeout the controller counts the node out, until it is resumed."""
        node = self.nodes[node_id]
        if node.is_running:
            node.pause()
            self._update_broker_session(node)

    def resume(self, node_id: int) -> None:
        """As SIGCONT."""
        node = self.nodes[node_id]
        if node.is_paused:
            node.resume()
            self._reconnect_broker(node)

    def cut(self, one: int, other: int = CONTROLLER) -> None:
        """Cut the network between two nodes, or between one and the controller, which then fences it."""
        self._cuts.add(frozenset((one, other)))
        for node_id in (one, other):
            if CONTROLLER in (one, other) and node_id != CONTROLLER and self.nodes[node_id].is_alive:
                self._update_broker_session(self.nodes[node_id])

    def heal(self, but: Iterable[tuple[int, int]] = ()) -> None:
        """End all cuts, ``but`` those between these pairs of nodes."""
        self._cuts.intersection_update(map(frozenset, but))
        for node in self.nodes.values():
            if node.is_running:
                node.apply_due_deltas()
                self._reconnect_broker(node)
        self.replication.catch_up()

    def reachable(self, one: int, other: int) -> bool:
        """Return whether two nodes, or a node and the controller, can talk."""
        return not self._cuts or frozenset((one, other)) not in self._cuts

    def move_leader(self, tp: TopicPartition, to: int | None = None) -> int:
        """Let another replica lead. Raises: ControllerError."""
        return self.controller.move_leader(tp, to)

    def move_coordinator(self, group: str, to: int | None = None) -> int:
        """Let another node coordinate a group (and those that share its partition). Raises: ControllerError."""
        topic = self.controller.ensure_internal_topic(OFFSETS_TOPIC)
        return self.controller.move_leader(
            TopicPartition(OFFSETS_TOPIC, partition_for(group, len(topic.partitions))), to
        )

    def compact(self, tp: TopicPartition) -> None:
        """Clean a partition now, on every replica."""
        now_ms = self.schedule.wall_ms()
        for partition in self._replicas(tp):
            partition.log.compact(now_ms, partition.high_watermark)
            partition.notify_listeners()

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Delete what lies before an offset. Raises: LookupError when nobody leads the partition."""
        self.leader(tp).delete_before(before)

    def on(self, api: Any, action: Any, **limits: Any) -> Rule:
        """Add a fault rule: see :meth:`.faults.Rules.on`."""
        return self.rules.on(api, action, **limits)

    def set_versions(
        self, api: type[Message] | str, versions: tuple[int, int] | None, *, node: int | None = None
    ) -> None:
        """Let every node, or one, offer other versions of an API, lowest and highest; None: it offers none.

        Raises:
            IllegalArgumentError: There is no such API.
        """
        key = api_key_of(api)
        for one in self.nodes.values():
            if node in (None, one.node_id):
                apis = {k: known for k, known in one.apis.items() if k != key}
                if versions is not None:
                    apis[key] = self.apis[key]._replace(lowest=versions[0], highest=versions[1])
                one.apis = apis

    # -- for the nodes

    def new_id(self) -> bytes:
        """Return sixteen bytes that nothing else is called by."""
        return bytes(self.random.randrange(256) for _ in range(15)) + b"\1"

    def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        if self._producer_ids >= self._producer_ids_end:
            self._producer_ids_end = self._producer_ids + PRODUCER_ID_BLOCK
            self.save_metadata()
        self._producer_ids += 1
        return self._producer_ids - 1

    def save_metadata(self) -> None:
        """Let the storage, if there is one, know what has changed outside of the logs."""
        if self._storage is not None:
            topics = self.controller.image.topics.values()
            self._storage.save(topics, cluster_id=self.cluster_id, next_producer_id=self._producer_ids_end)

    def log_of(self, node_id: int, row: PartitionImage, config: TopicConfig) -> Log:
        """Return the log that a node has of a partition; an empty one if it had none of this topic id."""
        topic_id, log = self._logs.get((node_id, row.tp), (b"", None))
        if log is None or topic_id != row.topic_id:
            store = self._storage.log_store(node_id, row.tp) if self._storage is not None else None
            log = Log(row.tp, config, store)
            self._logs[node_id, row.tp] = (row.topic_id, log)
        return log

    def forget_log(self, node_id: int, tp: TopicPartition, topic_id: bytes) -> None:
        """A replica is no more."""
        kept = self._logs.get((node_id, tp))
        if kept is not None and kept[0] == topic_id:
            del self._logs[node_id, tp]

    # -- inside

    def _replicas(self, tp: TopicPartition) -> list[PartitionReplica]:
        return [node.partitions[tp] for node in self.nodes.values() if tp in node.partitions]

    def _update_broker_session(self, node: BrokerNode, session_s: float | None = None) -> None:
        """Let the controller notice that it hears, or does not hear, a node: after a session it counts it out."""
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
        """A node may be heard again: count it in if it was counted out, and let it know what it has to know first."""
        self._update_broker_session(node)
        if not self.reachable(node.node_id, CONTROLLER):
            return
        if not node.has_metadata:
            self.controller.fence(node.node_id)  # a restart within the session timeout is one all the same
            self._delete_stray_logs(node.node_id)
            node.load_metadata()
        if node.is_running and node.node_id not in self.controller.image.brokers:
            self.controller.register(node.broker_image)
        self.replication.catch_up([node.node_id])

    def _delete_stray_logs(self, node_id: int) -> None:
        """Delete logs of replicas that went while the node was away."""
        for where, (topic_id, _) in list(self._logs.items()):
            row = self.controller.image.partition(*where[1])
            if where[0] == node_id and (row is None or row.topic_id != topic_id or node_id not in row.replicas):
                del self._logs[where]

    def _run_retention_periodically(self) -> None:
        self.schedule.call_later(RETENTION_CHECK_S, self._run_retention_periodically)
        self.run_retention()

    def run_retention(self) -> None:
        """Delete what is older or more than topics keep, and forget silent producers, as brokers do now and then.

        Coordinators' own logs are compacted when they have grown much: groups that commit all the time would fill the
        memory. Topics of users are not, so that their tests decide when.
        """
        now_ms = self.schedule.wall_ms()
        for node in self.nodes.values():
            for partition in list(node.partitions.values()):
                start = partition.log.start_offset
                partition.log.expire_producers(now_ms, self.config.producer_id_expiration_ms)
                if node.is_running and partition.tp.topic in COORDINATOR_TOPICS and partition.log.needs_compaction:
                    partition.log.compact(now_ms, partition.high_watermark)
                    partition.notify_listeners()
                if node.is_running and partition.is_leader:
                    partition.log.apply_retention(now_ms, partition.high_watermark)
                    if partition.log.start_offset != start:
                        partition.notify_listeners()
                        self.replication.on_append(partition)
