"""The cluster in its world: the one module here that knows how a cluster is stepped, connected and watched.

Owns the wires between the broker's sans-IO code and the simulated network and clock: nodes listen there, the cluster's
timers are events here, logs tell their truths, and requests and answers are shown to the jury.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...broker.call import Api, ApiCall
from ...broker.cluster import Cluster
from ...broker.config import BrokerConfig, TopicConfig
from ...broker.connection import ServerConnection
from ...broker.image import PartitionImage
from ...broker.log.log import Log
from ...timers import NEVER, Random
from ...types import TopicPartition
from ...wire import Message
from .checkers import Jury
from .network import SimConnection, SimNetwork
from .truth import ObservedLog, Truth
from .world import World

PORT = 9092


def host_of(node: int) -> str:
    """Return the name that clients know a node by."""
    return f"kafka{node}"


class ObservedCluster(Cluster):
    """A cluster that records the committed contents of its logs."""

    def __init__(self, *args: Any, truth_for: Callable[[TopicPartition, bytes], Truth], **kwargs: Any) -> None:
        self._truth_for = truth_for
        super().__init__(*args, **kwargs)

    def log_of(self, node_id: int, row: PartitionImage, config: TopicConfig) -> Log:
        """Return the log that a node has of a partition; an empty one if it had none of this topic id."""
        kept = self._logs.get((node_id, row.tp))
        if kept is None or kept[0] != row.topic_id:
            truth = self._truth_for(row.tp, row.topic_id)
            self._logs[node_id, row.tp] = row.topic_id, ObservedLog(row.tp, config, truth)
        return super().log_of(node_id, row, config)


class Brokers:
    """See the module. ``cluster`` is the cluster; call :meth:`sync` before touching it and :meth:`touched` after."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        jury: Jury,
        nodes: int,
        topics: Mapping[str, int],
        *,
        config: BrokerConfig | None = None,
        racks: Sequence[str | None] | None = None,
        random: Random | None = None,
    ) -> None:
        self.world = world
        self.network = network
        self.jury = jury
        self.truths: dict[tuple[TopicPartition, bytes], Truth] = {}
        #: Told of every answer before it leaves, with the client's name; may change it.
        self.spoil: Callable[[str, Message], object] = lambda client, message: None
        self._armed = NEVER
        self.cluster = ObservedCluster(
            nodes,
            topics,
            truth_for=self._truth_for,
            random=random or world.streams("cluster"),
            config=config,
            hosts=[(host_of(index + 1), PORT) for index in range(nodes)],
            racks=racks,
            now=world.now(),
            wall_time=world.clock.wall_time(),
        )
        observed = {key: self._observed(api) for key, api in self.cluster.apis.items()}
        for node_id, node in self.cluster.nodes.items():
            node.apis = observed
            network.settle(node_id, node.host, node.port, _Listener(self, node_id))
            network.open(node_id)
        self.touched()

    @property
    def bootstrap_servers(self) -> list[str]:
        """Return the ``bootstrap_servers`` of clients."""
        return [f"{node.host}:{node.port}" for node in self.cluster.nodes.values()]

    def truth(self, tp: TopicPartition) -> Truth | None:
        """Return what is true of a partition, None if there is none."""
        row = self.cluster.controller.image.partition(*tp)
        return None if row is None else self.truths.get((tp, row.topic_id))

    # -- time

    def sync(self) -> None:
        """Let the cluster know what time it is."""
        self.cluster.advance(self.world.now())

    def touched(self) -> None:
        """See when the cluster wants to be stepped next."""
        at = self.cluster.wake_at()
        if at < self._armed:
            self._armed = at
            self.world.call_at(at, lambda: self._tick(at))

    def _tick(self, moment: float) -> None:
        if moment == self._armed:
            self._armed = NEVER
            self.sync()
            self.touched()

    # -- nodes

    def kill(self, node: int, *, silently: bool = False, noticed_after_s: float | None = None) -> None:
        """As ``kill -9``; ``silently``: as if the host lost power."""
        if self.cluster.nodes[node].is_alive:
            self._trace(node, "killed", "without a word" if silently else "")
        self.sync()
        self.network.shut(node, silently=silently)
        self.cluster.kill(node, noticed_after_s=noticed_after_s)
        self.touched()

    def start(self, node: int) -> None:
        """Start a killed node."""
        self.sync()
        self.cluster.start(node)
        self.network.open(node)
        self._trace(node, "started")
        self.touched()

    def pause(self, node: int) -> None:
        """As SIGSTOP: connections stay and new ones are accepted, but get no answer."""
        self.sync()
        self.cluster.pause(node)
        self._trace(node, "paused")
        self.touched()

    def resume(self, node: int) -> None:
        """As SIGCONT."""
        self.sync()
        self.cluster.resume(node)
        self._trace(node, "resumed")
        self.touched()

    def state(self, node: int) -> str:
        """Return a node's state for the trace."""
        found = self.cluster.nodes[node]
        return "paused" if found.is_paused else "up" if found.is_alive else "down"

    # -- inside

    def _trace(self, node: int, event: str, why: str = "") -> None:
        self.world.trace.add(f"node {node}", self.state(node), event, why)

    def _truth_for(self, tp: TopicPartition, topic_id: bytes) -> Truth:
        truth = self.truths.get((tp, topic_id))
        if truth is None:
            truth = self.truths[tp, topic_id] = Truth(tp, self._lost)
        return truth

    def _lost(self, truth: Truth, offset: int, epoch: int) -> None:
        self.world.trace.add("controller", "", "lost", "%s-%d from offset %d on, by epoch %d", *truth.tp, offset, epoch)
        self.jury.tell("lost", truth, offset, epoch)

    def _observed(self, api: Api) -> Api:
        name = api.request.__name__.removesuffix("Request")
        world, jury = self.world, self.jury

        def handle(call: ApiCall) -> Message | None:
            node = call.node.node_id
            actor = f"node {node}"
            world.trace.add(actor, "up", name, "from %s, version %d", call.client_id, call.version)
            jury.tell("requested", call.client_id, node, call.request, world.now())
            done = call.done

            def answered(message: Message | None) -> None:
                if message is not None:
                    jury.tell("answered", call.client_id, node, call.request, message, world.now())
                    if self.spoil(call.client_id, message):
                        world.trace.add(actor, "up", "corrupted", "what goes to %s", call.client_id)
                done(message)

            call.done = answered
            return api.handle(call)

        return api._replace(handle=handle)


class _Listener:
    """A node's port: the network's peer."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self._brokers = brokers
        self._node = node

    def connection_made(self, connection: Any) -> _Wire:
        """Accept."""
        self._brokers.sync()
        return _Wire(self._brokers, self._node, connection)


class _Wire:
    """One connection: what the network tells the server, and what the server tells the network."""

    def __init__(self, brokers: Brokers, node: int, connection: SimConnection) -> None:
        self._brokers = brokers
        self._connection = connection
        self.client_host = f"/{connection.client}"
        self._server: ServerConnection = brokers.cluster.connect(node, self)

    # -- as the network's conversation

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._brokers.sync()
        self._server.data_received(data)
        self._brokers.touched()

    def connection_lost(self) -> None:
        """The client is gone."""
        self._brokers.sync()
        self._server.connection_lost()
        self._brokers.touched()

    # -- as the server's transport

    def write(self, data: bytes) -> None:
        """Send."""
        self._connection.send(data)

    def close(self) -> None:
        """Close in order."""
        self._connection.close()

    def reset(self) -> None:
        """Break off."""
        self._connection.reset()
