"""A network in memory: names, addresses, who listens where, and what goes wrong.

Owns every connection between the driver's streams and the peers, the bytes under way between them, and the faults that
a test orders. Time is the shared virtual clock; whatever happens is an event on one heap, so that a run is the same
each time. Knows nothing of Kafka.
"""

from __future__ import annotations

import heapq
import ipaddress
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable

from ..driver import Address, Dial, Stream
from ..errors import KafkaConnectionError
from .clock import VirtualClock
from .peer import Conversation, Peer

INET, INET6 = 2, 10

Place = tuple[str, int]  #: A numeric address and a port.


class Network:
    """Who is where, and what is under way. Tests order faults here; :class:`~.driver.MemoryDriver` does the rest.

    Args:
        clock: The time all of it happens in.
        latency: Seconds from one side to the other.
        chunk: Bytes handed to a stream at a time; None: as many as its buffer takes; 1: byte by byte.
        send_limit: Bytes taken from a stream per step; None: all it has.
    """

    def __init__(
        self,
        clock: VirtualClock | None = None,
        *,
        latency: float = 0.0005,
        chunk: int | None = None,
        send_limit: int | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.latency = latency
        self.chunk = chunk
        self.send_limit = send_limit
        #: Numeric addresses by name, in the resolver's order; a string says why there are none.
        self.names: dict[str, list[str] | str] = {}
        self.dials: list[tuple[float, str, Address]] = []  #: Every connection attempt: when, host, where.
        self.lookups: list[tuple[float, str]] = []  #: Every question to the resolver.
        self.connections: list[MemoryConnection] = []  #: Those that are open or being made.
        self._listeners: dict[Place, Peer] = {}
        self._black_holes: set[Place] = set()
        self._paused: set[Place] = set()
        self._held: dict[Place, list[Callable[[], None]]] = defaultdict(list)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._moment: float | None = None  #: Of the event that is happening, while one is.
        self._numbers = itertools.count()
        self._hosts = itertools.count(1)

    # -- who is where

    def listen(self, host: str, port: int, peer: Peer) -> None:
        """Let ``peer`` answer there. A name that nobody has yet gets an address."""
        if not is_numeric(host) and not self._addresses_of(host):
            self.names[host] = [f"10.0.0.{next(self._hosts)}"]
        for place in self._places(host, port):
            self._listeners[place] = peer

    def resolve(self, host: str, port: int) -> tuple[list[Address], str]:
        """Return the addresses of a name, or none and why."""
        self.lookups.append((self.clock.now(), host))
        found = self.names.get(host, "the name does not resolve")
        if is_numeric(host):
            found = [host]
        if isinstance(found, str):
            return [], found
        return [address(ip, port) for ip in found], ""

    # -- faults

    def refuse(self, host: str, port: int) -> None:
        """From now on nobody listens there; connections that exist stay."""
        for place in self._places(host, port):
            self._listeners.pop(place, None)

    def reset(self, host: str, port: int) -> None:
        """Break every connection to there."""
        for connection in self._to(self._places(host, port)):
            connection.reset()

    def kill(self, host: str, port: int) -> None:
        """As ``kill -9``: connections break, and nobody listens."""
        self.refuse(host, port)
        self.reset(host, port)

    def pause(self, host: str, port: int) -> None:
        """As SIGSTOP: the system still accepts connections, but nothing is read or said until :meth:`resume`."""
        self._paused.update(self._places(host, port))

    def black_hole(self, host: str, port: int) -> None:
        """As a dead network: nothing gets through, connections are neither made nor refused, until :meth:`resume`."""
        self._black_holes.update(self._places(host, port))

    def resume(self, host: str, port: int) -> None:
        """End :meth:`pause` and :meth:`black_hole`; what was under way arrives."""
        for place in self._places(host, port):
            self._paused.discard(place)
            self._black_holes.discard(place)
            for callback in self._held.pop(place, []):
                self.call_at(self.now(), callback)

    # -- for the driver

    def dial(self, dial: Dial, driver: Told) -> MemoryConnection:
        """Begin to connect a stream."""
        self.dials.append((self.clock.now(), dial.host, dial.address))
        connection = MemoryConnection(self, driver, dial)
        self.connections.append(connection)
        self.deliver(connection.place, connection.arrive, dialling=True)
        return connection

    def listener(self, place: Place) -> Peer | None:
        """Return who answers there."""
        return self._listeners.get(place)

    def deliver(self, place: Place, callback: Callable[[], None], *, dialling: bool = False) -> None:
        """Let something cross the network to or from ``place``; it is held back while a fault is on."""

        def arrive() -> None:
            if place in self._black_holes or (place in self._paused and not dialling):
                self._held[place].append(callback)
            else:
                callback()

        self.call_at(self.now() + self.latency, arrive)

    def call_at(self, moment: float, callback: Callable[[], None]) -> None:
        """Call back at a moment; those of the same moment in the order they were asked for."""
        heapq.heappush(self._events, (moment, next(self._numbers), callback))

    def next_event_at(self) -> float | None:
        """Return when the next thing happens."""
        return self._events[0][0] if self._events else None

    def now(self) -> float:
        """Return the time as peers see it: while the clock jumps ahead, they go on at their own pace."""
        return self.clock.now() if self._moment is None else self._moment

    def run_due(self) -> bool:
        """Let everything happen whose time has come, and what follows from it; return whether there was anything."""
        happened = False
        try:
            while self._events and self._events[0][0] <= self.clock.now():
                self._moment, _, callback = heapq.heappop(self._events)
                happened = True
                callback()
        finally:
            self._moment = None
        return happened

    # -- inside

    def _addresses_of(self, host: str) -> list[str]:
        found = self.names.get(host, [])
        return [host] if is_numeric(host) else found if isinstance(found, list) else []

    def _places(self, host: str, port: int) -> list[Place]:
        return [(ip, port) for ip in self._addresses_of(host)]

    def _to(self, places: Iterable[Place]) -> list[MemoryConnection]:
        wanted = set(places)
        return [connection for connection in self.connections if connection.place in wanted]


class Told:
    """What a connection needs of its driver: to be told that a stream is being called, was called, or is no more."""

    #: The connection whose stream is being called. Left behind by an exception, it is given up in the next step.
    in_work: MemoryConnection | None = None

    def called(self) -> None:
        """A stream was called: see what its endpoint wants now."""

    def gone(self, stream: Stream) -> None:
        """The stream's connection is over."""


class MemoryConnection:
    """One connection: the driver's side and, for the peer, a :class:`~.peer.PeerConnection`."""

    def __init__(self, network: Network, driver: Told, dial: Dial) -> None:
        self.stream = dial.stream
        self.host = dial.host
        self.address = dial.address
        self.place: Place = (dial.address.sockaddr[0], dial.address.sockaddr[1])
        self.is_open = True
        self._network = network
        self._driver = driver
        self._conversation: Conversation | None = None
        self._to_client: list[bytes] = []

    def __repr__(self) -> str:
        return f"<MemoryConnection {self.host} {self.address} {'open' if self.is_open else 'closed'}>"

    # -- for the driver

    def arrive(self) -> None:
        """The dial has reached its address."""
        if not self.is_open:
            return
        peer = self._network.listener(self.place)
        if peer is None:
            self._lose("connection refused (nothing listens there), while connecting")
            return
        self._conversation = peer.connection_made(self)
        self._driver.in_work = self
        self.stream.connection_made(self._network.clock.now())
        self._driver.called()
        self._driver.in_work = None

    def flush(self) -> None:
        """Take what the stream has to say."""
        if self._conversation is None or not self.is_open:
            return
        self._driver.in_work = self
        data = b"".join(self.stream.data_to_send())[: self._network.send_limit]
        if data:
            self._network.deliver(self.place, lambda: self._to_peer(data))
            self.stream.data_sent(len(data), self._network.clock.now())
        self._driver.in_work = None

    def hang_up(self) -> None:
        """The endpoint closes; the peer learns of it."""
        if self.is_open:
            self._over()
            self._network.deliver(self.place, self._tell_peer)

    # -- for the peer

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._network.now()

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self.is_open:
            self._network.deliver(self.place, lambda: self._to_stream(data))

    def close(self) -> None:
        """Close in order."""
        self._network.deliver(self.place, lambda: self._lose(None))

    def reset(self) -> None:
        """Break off; both sides learn of it in the next step."""
        self._network.call_at(self.now(), lambda: self._lose("connection reset by the peer, while connected"))
        self._network.call_at(self.now(), self._tell_peer)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back while open."""
        self._network.call_at(self.now() + seconds, lambda: callback() if self.is_open else None)

    # -- inside

    def _to_peer(self, data: bytes) -> None:
        if self.is_open and self._conversation is not None:
            self._conversation.data_received(data)

    def _to_stream(self, data: bytes) -> None:
        left = memoryview(data)
        while left and self.is_open:
            self._driver.in_work = self
            buffer = self.stream.get_buffer()
            assert len(buffer), "get_buffer() returned an empty buffer"
            size = min(len(buffer), len(left), self._network.chunk or len(left))
            buffer[:size] = left[:size]
            left = left[size:]
            self.stream.buffer_updated(size, self._network.clock.now())
            self._driver.called()
        self._driver.in_work = None

    def interrupted(self) -> None:
        """Give the connection up: an exception left its stream in the middle of something."""
        self._lose("the last call was interrupted in the middle of it, while connected")
        self._tell_peer()

    def _lose(self, words: str | None) -> None:
        if not self.is_open:
            return
        self._over()
        where = str(self.address) if self.host == self.place[0] else f"{self.host}:{self.place[1]} ({self.address})"
        error = None if words is None else KafkaConnectionError(f"{where}: {words}", host=self.host, port=self.place[1])
        self.stream.connection_lost(error, self._network.clock.now())
        self._driver.called()

    def _over(self) -> None:
        self.is_open = False
        self._network.connections.remove(self)
        self._driver.gone(self.stream)

    def _tell_peer(self) -> None:
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.connection_lost()


def is_numeric(host: str) -> bool:
    """Return whether a host is an address spelt out."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def address(ip: str, port: int) -> Address:
    """Return the Address of a numeric host."""
    return Address(INET6, (ip, port, 0, 0)) if ":" in ip else Address(INET, (ip, port))
