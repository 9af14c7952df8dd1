"""A whole scripted cluster in one line: brokers on a network in memory, sharing topics, answering consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..types import TopicPartition
from .broker import VERSIONS_4X, ScriptedBroker
from .clock import VirtualClock
from .driver import MemoryDriver
from .handlers import ClusterHandlers
from .network import Network
from .topics import PartitionLog, Topics


class ScriptedCluster:
    """Brokers ``kafka<node id>:9092``, their topics, and a network that they listen on.

    Args:
        node_ids: One broker each.
        topics: Names and numbers of partitions; leaders go round.
        network: Where they live; a new one by default.
        versions: What they speak.
    """

    def __init__(
        self,
        node_ids: Sequence[int] = (1,),
        topics: Mapping[str, int] | None = None,
        *,
        network: Network | None = None,
        versions: Mapping[int, tuple[int, int]] = VERSIONS_4X,
    ) -> None:
        self.network = network or Network()
        self.topics = Topics(node_ids)
        self.handlers = ClusterHandlers(self.topics, lambda: self.alive.values())
        self.brokers: dict[int, ScriptedBroker] = {}
        self.alive: dict[int, ScriptedBroker] = {}  #: Those that metadata names.
        for node_id in node_ids:
            broker = ScriptedBroker(node_id, f"kafka{node_id}", 9092, versions=versions)
            broker.handlers.update(self.handlers.for_broker(broker))
            self.topics.on_change.append(broker.poke)
            self.brokers[node_id] = self.alive[node_id] = broker
            self.network.listen(broker.host, broker.port, broker)
        for name, partitions in (topics or {}).items():
            self.topics.add(name, partitions)

    @property
    def clock(self) -> VirtualClock:
        """The time all of it happens in."""
        return self.network.clock

    @property
    def bootstrap_servers(self) -> list[str]:
        """What to give a consumer."""
        return [f"{broker.host}:{broker.port}" for broker in self.brokers.values()]

    @property
    def complaints(self) -> list[str]:
        """What any broker could not take; empty in a good run."""
        return [f"broker {b.node_id}: {words}" for b in self.brokers.values() for words in b.complaints]

    def driver(self, seed: int = 0) -> MemoryDriver:
        """Return a driver on this cluster's network."""
        return MemoryDriver(self.network, seed)

    def partition(self, topic: str, partition: int = 0) -> PartitionLog:
        """Return one partition."""
        return self.topics[TopicPartition(topic, partition)]

    def kill(self, node_id: int, *, noticed: bool = True) -> None:
        """Kill a broker. When ``noticed``, metadata drops it and its partitions go to the next replica alive."""
        broker = self.brokers[node_id]
        self.network.kill(broker.host, broker.port)
        for connection in list(broker.connections):
            connection.connection_lost()
        if noticed:
            self.notice(node_id)

    def notice(self, node_id: int) -> None:
        """Let the controller notice that a broker is gone: it is fenced and leaders are elected."""
        self.alive.pop(node_id, None)
        for topic in self.topics:
            for log in topic.partitions.values():
                if log.leader == node_id:
                    log.elect(next((replica for replica in log.replicas if replica in self.alive), -1))
        self.topics.changed()

    def start(self, node_id: int) -> None:
        """Start a killed broker again; partitions without a leader get one."""
        broker = self.alive[node_id] = self.brokers[node_id]
        broker.handlers.update(self.handlers.for_broker(broker))  # sessions are gone
        self.network.listen(broker.host, broker.port, broker)
        for topic in self.topics:
            for log in topic.partitions.values():
                if log.leader < 0:
                    log.elect(node_id)
