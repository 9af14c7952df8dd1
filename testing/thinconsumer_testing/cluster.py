"""A cluster of the embedded broker on a network in memory and its virtual clock.

This module connects cluster and network: the cluster's timers are events of the network, each node listens at its
address, and a killed node's connections break.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.records.batch import LOG_OVERHEAD
from thinconsumer.support.timers import NEVER
from thinconsumer.types import ConsumerRecord, TopicPartition
from thinconsumer.wire import Message

from .broker.cluster import Cluster
from .broker.config import BrokerConfig
from .broker.connection import ServerConnection
from .broker.faults import ReceivedRequest
from .broker.log.log import StoredBatch
from .broker.schedule import Schedule, Timer
from .broker.security import ListenerSecurity
from .clock import VirtualClock
from .driver import MemoryDriver
from .network import Network
from .peer import Conversation, PeerConnection

PORT = 9092


class MemoryCluster(Cluster):
    """Brokers ``kafka1:9092``, ``kafka2:9092``, ... with the ids 1, 2, ..., in memory.

    It has everything that ``thinconsumer_testing.broker.cluster.Cluster`` has: topics, :meth:`produce`,
    :meth:`kill`, :meth:`move_leader`, fault rules (:meth:`on`), other API versions (:meth:`set_versions`).

    Args:
        nodes: Number of brokers.
        topics: Number of partitions by topic name.
        network: The network on which the brokers listen; a new one by default.
        hosts: A host and a port for each broker, instead of ``kafka1:9092``, ...
        racks: The rack of each broker.
        seed: Seed of the cluster's random choices, such as topic ids and the broker that Metadata names as the
            controller. By default, the seeds of the cluster's drivers are derived from this seed.
        security: Logins of the listeners, with ``SASL_PLAINTEXT``; None: no login.
        config: Broker settings under Kafka's names with ``_`` for ``.``.

    Raises:
        IllegalArgumentError: ``config`` has an unknown setting or an invalid value, or ``security`` needs TLS, which
            needs sockets.
    """

    def __init__(
        self,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        *,
        network: Network | None = None,
        hosts: Sequence[tuple[str, int]] | None = None,
        racks: Sequence[str | None] | None = None,
        seed: int | str = 1,
        security: ListenerSecurity | None = None,
        **config: Any,
    ) -> None:
        if security is not None and security.uses_tls:
            raise IllegalArgumentError(
                f"security_protocol={security.security_protocol} needs sockets: use EmbeddedBroker or BrokerProcess"
            )
        self.network: Network = network or Network()
        self._seed = seed
        super().__init__(
            nodes,
            topics,
            random=random.Random(seed),
            config=BrokerConfig.of(config),
            hosts=hosts or [(f"kafka{number + 1}", PORT) for number in range(nodes)],
            racks=racks,
            schedule=_NetworkSchedule(self.network),
            security=security,
        )
        self.requests: list[ReceivedRequest] = []  #: The valid requests that brokers have received, in order.
        self.rules.requests = self.requests
        for node_id in self.nodes:
            self.listen(node_id)

    @property
    def clock(self) -> VirtualClock:
        """The virtual clock of the network and the cluster."""
        return self.network.clock

    @property
    def bootstrap_servers(self) -> list[str]:
        """The addresses of all brokers, for a client's options."""
        return [f"{node.host}:{node.port}" for node in self.nodes.values()]

    def driver(self, seed: int | str | None = None) -> MemoryDriver:
        """Return a driver for one client on this cluster's network.

        ``seed`` is the seed of the client's random choices, such as its member id in the consumer group protocol; two
        clients with equal seeds choose equal ids. None: a seed made of the cluster's seed and the driver's number,
        so that each client has its own, and equal runs choose equally.
        """
        if seed is None:
            seed = f"{self._seed}/driver/{self.network.new_driver_number()}"
        return MemoryDriver(self.network, seed)

    def received(self, api: type[Message], node: int | None = None) -> list[ReceivedRequest]:
        """Return the requests of one API that all brokers, or one, have received, in order."""
        return [one for one in self.requests if one.api is api and node in (None, one.node_id)]

    def records(self, topic: str, partition: int = 0) -> list[ConsumerRecord[Any, Any]]:
        """Return the records in the leader's log. Raises: LookupError, when the partition has no leader."""
        log = self.leader(TopicPartition(topic, partition)).log
        batches = log.read_batches(log.start_offset, log.end_offset)
        return [record for batch in batches for record in batch.decode(topic, partition)]

    def append_batch(self, tp: TopicPartition, batch: bytes) -> int:
        """Append one batch of format 2 without checks (it may have offset gaps or be corrupt); return its first offset.

        As a broker does, this method writes the base offset and the leader epoch into the batch.

        Raises:
            LookupError: The partition has no leader.
        """
        leader = self.leader(tp)
        base = leader.log.end_offset
        epoch = leader.leader_epoch.to_bytes(4, "big")
        stamped = base.to_bytes(8, "big") + batch[8:LOG_OVERHEAD] + epoch + batch[LOG_OVERHEAD + 4 :]
        leader.log.append_stored(StoredBatch.of(stamped))
        leader.advance_high_watermark()
        leader.notify_listeners()
        self.replication.on_append(leader)
        return base

    def remove_leader(self, tp: tuple[str, int]) -> None:
        """Leave a partition without a leader, although its replicas are alive; :meth:`move_leader` sets one again."""
        topic = self.controller.image.topics[tp[0]]
        rows = [
            row._replace(leader=-1, leader_epoch=row.leader_epoch + 1) if row.partition == tp[1] else row
            for row in topic.partitions
        ]
        self.controller.put_topic(topic._replace(partitions=tuple(rows)))

    def kill(self, node_id: int, *, noticed_after_s: float | None = None) -> None:
        """Kill a node; the controller fences it after ``noticed_after_s`` (inf: never; None: the session timeout)."""
        node = self.nodes[node_id]
        self.network.refuse(node.host, node.port)
        super().kill(node_id, noticed_after_s=noticed_after_s)

    def start(self, node_id: int) -> None:
        """Start a killed node again; it keeps its logs."""
        super().start(node_id)
        self.listen(node_id)

    def listen(self, node_id: int, host: str | None = None) -> None:
        """Let a node listen again after :meth:`.Network.refuse`, or at another ``host`` than its own."""
        node = self.nodes[node_id]
        self.network.listen(host or node.host, node.port, _NodeListener(self, node_id))


class _NetworkSchedule(Schedule):
    """Runs a cluster's timers as events of the network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._latest = 0.0
        self._armed_at = NEVER
        super().__init__(network.now(), network.clock.wall_time())

    @property
    def now(self) -> float:
        """The network's latest time. An overdue event may set the network's time back, but never this time."""
        self._latest = max(self._latest, self._network.now())
        return self._latest

    @now.setter
    def now(self, moment: float) -> None:
        self._latest = max(self._latest, moment)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        timer = super().call_at(moment, callback)
        self._arm()
        return timer

    def _arm(self) -> None:
        moment = self.wake_at()
        if moment < self._armed_at:
            self._armed_at = moment
            self._network.call_at(moment, lambda: self._fire(moment))

    def _fire(self, moment: float) -> None:
        if moment == self._armed_at:
            self._armed_at = NEVER
            self.advance(self._network.now())
            self._arm()


class _NodeListener:
    """The peer that listens at a node's address: each connection gets a :class:`_NodeConversation`."""

    def __init__(self, cluster: MemoryCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def connection_made(self, connection: PeerConnection) -> Conversation:
        return _NodeConversation(self._cluster, self._node_id, connection)


class _NodeConversation:
    """One connection to a node: gives the client's bytes to the broker's connection, and sends its responses."""

    client_host = "/127.0.0.1"

    def __init__(self, cluster: MemoryCluster, node_id: int, connection: PeerConnection) -> None:
        self.write = connection.send
        self.close = connection.close
        self.reset = connection.reset
        self._server: ServerConnection = cluster.connect(node_id, self)
        self.data_received = self._server.data_received
        self.connection_lost = self._server.connection_lost
