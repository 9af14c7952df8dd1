"""The cluster of a simulation: it traces faults, reports requests to checkers, and records what logs have committed."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message

from ..broker.call import Api, ApiCall
from ..broker.config import TopicConfig
from ..broker.image import PartitionImage
from ..broker.log.log import Log
from ..cluster import MemoryCluster
from .checkers.base import Jury
from .network import SimNetwork
from .truth import ObservedLog, Truth
from .world import World


class _Reported(deque[str]):
    """The latest 100 reasons for which brokers have closed connections; each is reported when it is added."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(maxlen=100)
        self._report = report

    def append(self, why: str) -> None:
        """Report and add a reason."""
        self._report(why)
        super().append(why)


class SimCluster(MemoryCluster):
    """A cluster of a simulation. ``settings`` are those of :class:`MemoryCluster`."""

    def __init__(
        self, world: World, network: SimNetwork, jury: Jury, nodes: int, topics: Mapping[str, int], **settings: Any
    ) -> None:
        #: The committed contents by partition and topic id; those of deleted topics are kept.
        self.truths: dict[tuple[TopicPartition, bytes], Truth] = {}
        #: Called with the client's name and each response before it is sent. It may corrupt the response, and then
        #: returns a true value.
        self.spoil: Callable[[str, Message], object] = lambda client, message: None
        self._world = world
        self._jury = jury
        self._sim_network = network
        super().__init__(nodes, topics, network=network, seed=f"{world.streams.seed}/cluster", **settings)
        self.invalid_requests: deque[str] = _Reported(lambda why: jury.tell("closed_by_broker", why))
        self.apis: Mapping[int, Api] = {key: self._observed(api) for key, api in self.apis.items()}
        for node in self.nodes.values():
            node.apis = self.apis

    def truth(self, tp: TopicPartition) -> Truth | None:
        """Return the committed contents of a partition, None if there is no such partition."""
        row = self.controller.image.partition(*tp)
        return None if row is None else self.truths.get((tp, row.topic_id))

    def new_log(self, node_id: int, row: PartitionImage, config: TopicConfig) -> Log:
        """Return a log that reports to the truth of its partition and topic id."""
        truth = self.truths.setdefault((row.tp, row.topic_id), Truth(row.tp, self._lost))
        return ObservedLog(row.tp, config, truth)

    def kill(self, node_id: int, *, silently: bool = False, noticed_after_s: float | None = None) -> None:
        """Stop a node as ``kill -9`` does; ``silently``: as if its host lost power, so that no connection is reset.

        The controller fences the node after ``noticed_after_s`` (inf: never; None: the session timeout).
        """
        if self.nodes[node_id].is_alive:
            self._trace(node_id, "killed", "without a word" if silently else "")
        if silently:
            self._sim_network.powerless.add(node_id)
        super().kill(node_id, noticed_after_s=noticed_after_s)

    def start(self, node_id: int) -> None:
        """Start a killed node again."""
        super().start(node_id)
        self._trace(node_id, "started")

    def pause(self, node_id: int) -> None:
        """Stop a node's process as SIGSTOP does: connections stay and new ones are accepted, but get no answer."""
        super().pause(node_id)
        self._trace(node_id, "paused")

    def resume(self, node_id: int) -> None:
        """Continue a paused node, as SIGCONT does."""
        super().resume(node_id)
        self._trace(node_id, "resumed")

    def _trace(self, node_id: int, event: str, why: str = "") -> None:
        node = self.nodes[node_id]
        state = "paused" if node.is_paused else "up" if node.is_alive else "down"
        self._world.trace.add(f"node {node_id}", state, event, why)

    def _lost(self, truth: Truth, offset: int, epoch: int) -> None:
        why = "%s-%d from offset %d on, by epoch %d"
        self._world.trace.add("controller", "", "lost", why, *truth.tp, offset, epoch)
        self._jury.tell("lost", truth, offset, epoch)

    def _observed(self, api: Api) -> Api:
        name = api.request.__name__.removesuffix("Request")
        world, jury = self._world, self._jury

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
