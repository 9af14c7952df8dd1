"""The network of a simulation: TCP with delays and faults, as clients and brokers see it.

It has all connections between clients and nodes, and the bytes in flight. Each direction of a connection is a
:class:`Lane`: bytes arrive in order or not at all, and independently of other connections. A cut delays bytes until its
end, since TCP retransmits them; a reset loses them; of a half-open connection only one side notices the end.
:class:`NetworkFaults` has the rates of random faults; methods inject single faults. Clients are identified by name,
nodes by number. Nothing here depends on Kafka.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thinconsumer.driver import Dial
from thinconsumer.errors import IllegalArgumentError

from ..network import MemoryConnection, Network, Place
from ..peer import Conversation, Peer
from .world import World

if TYPE_CHECKING:
    from thinconsumer.driver import Address

    from ..driver import MemoryDriver
    from .driver import SimDriver

#: A host of the simulation: a client by its name, or a broker by its id.
Who = str | int

#: The resolver's error when no DNS server answered.
NO_ANSWER = "temporary failure in name resolution"
REFUSED = "connection refused (nothing listens there), while connecting"
RESET = "connection reset by the peer, while connected"


@dataclass(slots=True)
class NetworkFaults:
    """Latencies of the network, and probabilities of faults per message, connection attempt or name lookup."""

    latency_min_s: float = 0.0005
    latency_max_s: float = 0.0005  #: The latency from one host to another is drawn once, between the two bounds.
    jitter_s: float = 0.0  #: The most seconds that a message takes beyond the latency; drawn per message.
    split_rate: float = 0.0  #: Probability that a message arrives in two parts.
    #: Probability that a message is lost and its connection breaks; half of the time only one side notices.
    reset_rate: float = 0.0
    refuse_rate: float = 0.0  #: Probability that a connection attempt is refused.
    #: Probability that a new connection loses all bytes in both directions, and neither side notices.
    swallow_rate: float = 0.0
    dns_failure_rate: float = 0.0
    chunk: int | None = None  #: The most bytes that a client receives at a time; None: as many as fit its buffer.

    def calm(self) -> None:
        """Set all rates to 0; latencies stay."""
        self.split_rate = self.reset_rate = self.refuse_rate = self.swallow_rate = self.dns_failure_rate = 0.0


class SimNetwork(Network):
    """A network with random faults; ``cuts`` has pairs of hosts (source, target) between which bytes are held back."""

    def __init__(self, world: World, network_faults: NetworkFaults | None = None) -> None:
        self.faults: NetworkFaults = network_faults or NetworkFaults()
        super().__init__(world.clock, chunk=self.faults.chunk)
        self.world = world
        self.mishaps: Counter[str] = Counter()  #: Numbers of network faults so far, by kind.
        self.cuts: set[tuple[Who, Who]] = set()
        #: Brokers on hosts that have lost power: they answer nothing, neither "connection refused" nor a reset.
        self.powerless: set[int] = set()
        self.slow: dict[Who, float] = {}  #: Seconds added to the latency to and from a host.
        self._nodes: dict[Place, int] = {}  #: Brokers' ids by address.
        self._latencies: dict[tuple[Who, Who], float] = {}
        self._held_lanes: list[Lane] = []
        self._numbers_of_clients: dict[str, int] = {}
        self._random = world.streams("network/mishaps")
        self._jitter = world.streams("network/jitter")

    def listen(self, host: str, port: int, peer: Peer) -> None:
        """Let a broker listen; its host has power again. Each new address gets the next broker id, from 1 on."""
        super().listen(host, port, peer)
        for place in self._places(host, port):
            self.powerless.discard(self._nodes.setdefault(place, len(self._nodes) + 1))

    def node_at(self, place: Place) -> int:
        """Return the id of the broker at an address, -1 if there is none."""
        return self._nodes.get(place, -1)

    def call_at(self, moment: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` at a time of the virtual clock, as an event of :class:`.World`."""
        self.world.call_at(moment, callback)

    def resolve(self, host: str, port: int) -> tuple[list[Address], str]:
        """Look up a host, which may fail at random: return its addresses and "", or no address and the error."""
        if self.occurs(self.faults.dns_failure_rate):
            self.mishaps["dns"] += 1
            return [], NO_ANSWER
        return super().resolve(host, port)

    def dial(self, dial: Dial, driver: MemoryDriver) -> SimConnection:
        """Begin the connection attempt that ``dial`` requests; return the connection, which is not established yet."""
        client: SimDriver = driver  # type: ignore[assignment]
        number = self._numbers_of_clients[client.name] = self._numbers_of_clients.get(client.name, 0) + 1
        connection = SimConnection(self, client, dial, f"{client.name}#{number}")
        self.connections.append(connection)
        connection.begin()
        return connection

    def cut(self, sources: Iterable[Who], targets: Iterable[Who]) -> None:
        """Deliver no bytes from any of ``sources`` to any of ``targets`` until :meth:`heal`."""
        targets = list(targets)
        self.cuts.update((source, target) for source in sources for target in targets)

    def heal(self, but: Iterable[tuple[Who, Who]] = ()) -> None:
        """End all cuts except the pairs (source, target) in ``but``; bytes that ended cuts held back arrive."""
        self.cuts.intersection_update(but)
        held, self._held_lanes = self._held_lanes, []
        for lane in held:
            lane.release()

    def break_off(self, connection: SimConnection, *, told: str = "both") -> None:
        """Break one connection. ``told`` says which sides notice: "both", "client", "server" or "nobody"."""
        if told not in ("both", "client", "server", "nobody"):
            raise IllegalArgumentError(f"told must be both, client, server or nobody, not {told!r}")
        self.mishaps["drops"] += 1
        self.mishaps["half_open"] += told in ("client", "server")
        self.world.trace.add(connection.label, "", "reset", "told: %s", told)
        connection.break_off(told)

    def reset_swallowed(self) -> None:
        """Reset the connections that lose all bytes without either side noticing."""
        for connection in list(self.connections):
            if isinstance(connection, SimConnection) and connection.is_swallowed and connection.is_open:
                self.break_off(connection)

    def is_cut(self, source: Who, target: Who) -> bool:
        """Return whether bytes from ``source`` to ``target`` are held back."""
        return (source, target) in self.cuts

    def hold(self, lane: Lane) -> None:
        """Remember a lane in which a cut holds bytes back, so that :meth:`heal` releases it."""
        self.mishaps["held"] += 1
        self._held_lanes.append(lane)

    def delay_between(self, source: Who, target: Who) -> float:
        """Return the latency of the next message, in seconds."""
        faults = self.faults
        path = (source, target)
        base = self._latencies.get(path)
        if base is None:
            stream = self.world.streams(f"network/path/{source}/{target}")
            base = self._latencies[path] = stream.uniform(faults.latency_min_s, faults.latency_max_s)
        if faults.jitter_s:
            base += faults.jitter_s * self._jitter.random()
        if self.slow:
            base += self.slow.get(source, 0.0) + self.slow.get(target, 0.0)
        return base

    def mishap(self, connection: SimConnection) -> bool:
        """Draw whether a message is lost with its connection; if so, break the connection and return True."""
        if not self.occurs(self.faults.reset_rate):
            return False
        told = ("both", "both", "client", "server")[self._random.randrange(4)]
        self.break_off(connection, told=told)
        return True

    def parts(self, data: bytes) -> tuple[bytes, ...]:
        """Return the one or two parts in which a message arrives."""
        if len(data) > 1 and self.occurs(self.faults.split_rate):
            at = 1 + self._random.randrange(len(data) - 1)
            return data[:at], data[at:]
        return (data,)

    def occurs(self, rate: float) -> bool:
        """Draw whether a fault of probability ``rate`` occurs."""
        return bool(rate) and self._random.random() < rate


class Lane:
    """One direction of a connection. It delivers items (callbacks) in order, each after the path's latency."""

    __slots__ = ("_arrive", "_held", "_last_at", "_network", "_queue", "source", "target")

    def __init__(self, network: SimNetwork, source: Who, target: Who) -> None:
        self.source: Who = source
        self.target: Who = target
        self._network = network
        self._queue: deque[Callable[[], None]] = deque()
        self._last_at = 0.0
        self._held = 0

    def send(self, item: Callable[[], None]) -> None:
        """Deliver ``item`` after the latency and after all items before it."""
        self._queue.append(item)
        self._schedule()

    def clear(self) -> None:
        """Lose items in flight. No-ops replace them: otherwise their events would deliver later items early."""
        self._queue = deque([_nothing] * len(self._queue))

    def release(self) -> None:
        """Schedule the delivery of the items that a cut has held back."""
        held, self._held = self._held, 0
        for _ in range(held):
            self._schedule()

    def _schedule(self) -> None:
        network = self._network
        at = max(self._last_at, network.world.now() + network.delay_between(self.source, self.target))
        self._last_at = at
        network.world.call_at(at, self._come)

    def _come(self) -> None:
        if not self._queue:
            return
        if self._network.cuts and self._network.is_cut(self.source, self.target):
            if not self._held:
                self._network.hold(self)
            self._held += 1
            return
        self._queue.popleft()()


def _nothing() -> None:
    """Do nothing, in place of a lost item."""


class SimConnection(MemoryConnection):
    """One connection. ``is_open`` is about the client's end, :attr:`is_served` about the node's."""

    def __init__(self, network: SimNetwork, driver: SimDriver, dial: Dial, label: str) -> None:
        super().__init__(network, driver, dial)
        self.label = label
        self.client: str = driver.name
        self.node: int = network.node_at(self.place)
        self.is_served: bool = False  #: Whether the node's end is open.
        self._sim = network
        self._client = driver
        self._is_made = False
        self.is_swallowed: bool = False  #: Whether all bytes are lost, and neither side has noticed it.
        self._is_orphan = False  #: Whether the client's host lost power: it then answers nothing, not even by a reset.
        self._up = Lane(network, self.client, self.node)
        self._down = Lane(network, self.node, self.client)

    def begin(self) -> None:
        """Send the connection attempt to the node, or lose it and all later bytes (probability: ``swallow_rate``)."""
        if self._sim.occurs(self._sim.faults.swallow_rate):
            self._sim.mishaps["swallowed"] += 1
            self.is_swallowed = True
            self._sim.world.trace.add(self.label, "", "swallowed", "to node %d", self.node)
        self._send_up(self._syn)

    def flush(self) -> None:
        """Send the bytes that the stream wants to send."""
        if not self._is_made or not self.is_open:
            return
        waiting = self.stream.data_to_send()
        if not waiting:
            return
        data = b"".join(waiting)
        self.stream.data_sent(len(data), self._sim.clock.now())
        for part in self._sim.parts(data):
            self._send_up(lambda part=part: self._data_at_node(part))  # type: ignore[misc]

    def hang_up(self) -> None:
        """Close the client's end, and report that to the node after the latency."""
        if self.is_open:
            self._over()
            self._send_up(self._end_at_node)

    def orphan(self, *, silently: bool) -> None:
        """Handle that the client's process was killed. The node notices, unless the host lost power (``silently``)."""
        if self.is_open:
            self._over()
            self._is_orphan = silently
            if not silently:
                self._send_up(self._end_at_node)

    def send(self, data: bytes) -> None:
        if not self.is_served or self._sim.mishap(self):
            return
        for part in self._sim.parts(data):
            self._send_down(lambda part=part: self._data_at_client(part))  # type: ignore[misc]

    def close(self) -> None:
        if self._unserve():
            self._send_down(lambda: self._mail(lambda: self._lose(None)))

    def reset(self) -> None:
        """Close the node's end and send the client a reset, as when a process dies. A host without power sends none."""
        if self._unserve() and self.node not in self._sim.powerless:
            self._send_down(self._reset_at_client)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._sim.world.call_later(seconds, lambda: callback() if self.is_served else None)

    def break_off(self, told: str) -> None:
        """Break the connection as a network fault does: lose the bytes in flight; ``told`` says which sides notice."""
        self._up.clear()
        self._down.clear()
        if told in ("both", "client"):
            self._reset_at_client()
        if told in ("both", "server"):
            self._end_at_node()
        if told == "nobody":
            self.is_swallowed = True

    def _send_up(self, item: Callable[[], None]) -> None:
        if not self.is_swallowed:
            self._up.send(item)

    def _syn(self) -> None:
        if self.node in self._sim.powerless:
            return
        peer = self._sim.listener(self.place)
        refused = self._sim.occurs(self._sim.faults.refuse_rate)
        if peer is None or refused:
            self._sim.mishaps["refused"] += 1
            self._send_down(lambda: self._mail(lambda: self._lose(REFUSED)))
            return
        self.is_served = True
        self._conversation = peer.connection_made(self)
        self._send_down(lambda: self._mail(self._made))

    def _data_at_node(self, data: bytes) -> None:
        if self._sim.mishap(self):
            return
        if not self.is_served:
            # The node's end is closed already, so its host answers the bytes with a reset, unless it lost power.
            if self.node not in self._sim.powerless:
                self._send_down(self._reset_at_client)
            return
        conversation = self._conversation
        assert conversation is not None
        conversation.data_received(data)

    def _end_at_node(self) -> None:
        conversation = self._conversation
        if self._unserve() and conversation is not None:
            conversation.connection_lost()

    def _unserve(self) -> bool:
        was, self.is_served = self.is_served, False
        self._conversation: Conversation | None = None
        return was

    def _send_down(self, item: Callable[[], None]) -> None:
        if not self.is_swallowed:
            self._down.send(item)

    def _mail(self, take: Callable[[], None]) -> None:
        if self.is_open:
            self._client.deliver(self, take)

    def _made(self) -> None:
        self._is_made = True
        self.stream.connection_made(self._sim.clock.now())
        self._client.called()

    def _data_at_client(self, data: bytes) -> None:
        if self.is_open:
            self._client.deliver(self, lambda: self._to_stream(data))
        elif self.is_served and not self._is_orphan:
            self._send_up(self._end_at_node)

    def _reset_at_client(self) -> None:
        self._mail(lambda: self._lose(RESET))
