"""A network in memory: names, addresses, listeners, connections and faults.

It has all connections between drivers' streams and peers (servers), the bytes in flight, and the faults that a test
sets. Its time is the virtual clock, and all its events are in one heap, so that each run is the same. Nothing here
depends on Kafka.
"""

from __future__ import annotations

import heapq
import ipaddress
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from thinconsumer.driver import Address, Dial, Stream
from thinconsumer.errors import KafkaConnectionError

from .clock import VirtualClock
from .peer import Conversation, Peer

if TYPE_CHECKING:
    from .driver import MemoryDriver

INET, INET6 = 2, 10

Place = tuple[str, int]  #: An IP address and a port.


class Network:
    """Names, listeners and connections, and methods that set faults.

    Args:
        clock: The virtual clock; a new one by default.
        latency: Seconds that bytes take in one direction.
        chunk: The most bytes that a stream receives in one call; None: as many as fit its buffer.
        send_limit: The most bytes that a stream sends at a time; None: all.
    """

    def __init__(
        self,
        clock: VirtualClock | None = None,
        *,
        latency: float = 0.0005,
        chunk: int | None = None,
        send_limit: int | None = None,
    ) -> None:
        self.clock: VirtualClock = clock or VirtualClock()
        self.latency = latency
        self.chunk = chunk
        self.send_limit = send_limit
        #: The results of lookups by host name: a list of IP addresses in the resolver's order, or a str with the error.
        self.names: dict[str, list[str] | str] = {}
        self.dials: list[tuple[float, str, Address]] = []  #: All connection attempts so far: time, host, address.
        self.lookups: list[tuple[float, str]] = []  #: All name lookups so far: time, host.
        self.connections: list[MemoryConnection] = []  #: Connections that are open or being established.
        self._listeners: dict[Place, Peer] = {}
        self._black_holes: set[Place] = set()
        self._paused: set[Place] = set()
        self._held: dict[Place, list[Callable[[], None]]] = defaultdict(list)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._moment: float | None = None  #: The time at which the running event was due; None between events.
        self._numbers = itertools.count()
        self._hosts = itertools.count(1)
        self._drivers = itertools.count()

    def new_driver_number(self) -> int:
        """Return 0 to the first driver on this network that has no seed of its own, 1 to the second, and so on."""
        return next(self._drivers)

    def listen(self, host: str, port: int, peer: Peer) -> None:
        """Let a peer listen at a host and port. A host name without an IP address gets one."""
        if not is_numeric(host) and not self._addresses_of(host):
            self.names[host] = [f"10.0.0.{next(self._hosts)}"]
        for place in self._places(host, port):
            self._listeners[place] = peer

    def resolve(self, host: str, port: int) -> tuple[list[Address], str]:
        """Look up a host: return its addresses and an empty string, or no address and the error message."""
        self.lookups.append((self.clock.now(), host))
        found = self.names.get(host, "the name does not resolve")
        if is_numeric(host):
            found = [host]
        if isinstance(found, str):
            return [], found
        return [address(ip, port) for ip in found], ""

    def refuse(self, host: str, port: int) -> None:
        """Refuse new connections; existing ones stay."""
        for place in self._places(host, port):
            self._listeners.pop(place, None)

    def reset(self, host: str, port: int) -> None:
        """Reset all connections to a host and port."""
        places = self._places(host, port)
        for connection in [one for one in self.connections if one.place in places]:
            connection.reset()

    def kill(self, host: str, port: int) -> None:
        """Reset connections and refuse new ones, as after ``kill -9`` of the server."""
        self.refuse(host, port)
        self.reset(host, port)

    def pause(self, host: str, port: int) -> None:
        """Accept connections but deliver no bytes until :meth:`resume`, as after SIGSTOP of the server."""
        self._paused.update(self._places(host, port))

    def black_hole(self, host: str, port: int) -> None:
        """Deliver nothing to or from a host until :meth:`resume`: connections are neither established nor refused."""
        self._black_holes.update(self._places(host, port))

    def resume(self, host: str, port: int) -> None:
        """End :meth:`pause` and :meth:`black_hole`, and deliver the bytes and connection attempts they held back."""
        for place in self._places(host, port):
            self._paused.discard(place)
            self._black_holes.discard(place)
            for callback in self._held.pop(place, []):
                self.call_at(self.now(), callback)

    def dial(self, dial: Dial, driver: MemoryDriver) -> MemoryConnection:
        """Begin the connection attempt that ``dial`` requests; return the connection, which is not established yet."""
        self.dials.append((self.clock.now(), dial.host, dial.address))
        connection = MemoryConnection(self, driver, dial)
        self.connections.append(connection)
        self.deliver(connection.place, connection.arrive, dialling=True)
        return connection

    def listener(self, place: Place) -> Peer | None:
        """Return the peer that listens at an address, None if there is none."""
        return self._listeners.get(place)

    def deliver(self, place: Place, callback: Callable[[], None], *, dialling: bool = False) -> None:
        """Call ``callback`` after the latency, or after :meth:`resume` if the address ``place`` is held back by then.

        :meth:`black_hole` holds back everything, :meth:`pause` all but connection attempts (``dialling``).
        """

        def arrive() -> None:
            if place in self._black_holes or (place in self._paused and not dialling):
                self._held[place].append(callback)
            else:
                callback()

        self.call_at(self.now() + self.latency, arrive)

    def call_at(self, moment: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` at a time of the virtual clock. Several for the same time are called in the order added."""
        heapq.heappush(self._events, (moment, next(self._numbers), callback))

    def next_event_at(self) -> float | None:
        """Return the time at which the next event is due, None if there is none."""
        return self._events[0][0] if self._events else None

    def now(self) -> float:
        """Return when the running event was due, maybe before the clock's time; between events the clock's time."""
        return self.clock.now() if self._moment is None else self._moment

    def run_due(self) -> bool:
        """Run all due events, including due ones that these events add; return whether any event ran."""
        happened = False
        try:
            while self._events and self._events[0][0] <= self.clock.now():
                self._moment, _, callback = heapq.heappop(self._events)
                happened = True
                callback()
        finally:
            self._moment = None
        return happened

    def _addresses_of(self, host: str) -> list[str]:
        found = self.names.get(host, [])
        return [host] if is_numeric(host) else found if isinstance(found, list) else []

    def _places(self, host: str, port: int) -> list[Place]:
        return [(ip, port) for ip in self._addresses_of(host)]


class MemoryConnection:
    """One connection: the driver sends and closes through it, and so does the peer (:class:`~.peer.PeerConnection`)."""

    def __init__(self, network: Network, driver: MemoryDriver, dial: Dial) -> None:
        self.stream: Stream = dial.stream
        self.host: str = dial.host
        self.address: Address = dial.address
        self.place: Place = (dial.address.sockaddr[0], dial.address.sockaddr[1])
        self.is_open: bool = True
        self._is_broken = False  #: Whether the peer has reset or closed the connection: bytes in flight to it are lost.
        self._network = network
        self._driver = driver
        self._conversation: Conversation | None = None
        self._to_client: list[bytes] = []

    def __repr__(self) -> str:
        return f"<MemoryConnection {self.host} {self.address} {'open' if self.is_open else 'closed'}>"

    def arrive(self) -> None:
        """Handle that the connection attempt arrives at the host: establish the connection, or refuse it."""
        if not self.is_open:
            return
        peer = self._network.listener(self.place)
        if peer is None:
            self._lose("connection refused (nothing listens there), while connecting")
            return
        self._conversation = peer.connection_made(self)
        self.stream.connection_made(self._network.clock.now())
        self._driver.called()

    def flush(self) -> None:
        """Send the bytes that the stream wants to send."""
        if self._conversation is None or not self.is_open:
            return
        data = b"".join(self.stream.data_to_send())[: self._network.send_limit]
        if data:
            self._network.deliver(self.place, lambda: self._to_peer(data))
            self.stream.data_sent(len(data), self._network.clock.now())

    def hang_up(self) -> None:
        """Close the connection from the client's side. As over TCP, the peer first receives the bytes in flight."""
        if self.is_open:
            self._over()
            self._network.deliver(self.place, self._tell_peer)

    def now(self) -> float:
        return self._network.now()

    def send(self, data: bytes) -> None:
        if self.is_open:
            self._network.deliver(self.place, lambda: self._to_stream(data))

    def close(self) -> None:
        self._network.deliver(self.place, lambda: self._lose(None))

    def reset(self) -> None:
        """Reset the connection: both ends see its loss when the network next runs its events."""
        self._network.call_at(self.now(), lambda: self._lose("connection reset by the peer, while connected"))
        self._network.call_at(self.now(), self._tell_peer)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._network.call_at(self.now() + seconds, lambda: callback() if self.is_open else None)

    def _to_peer(self, data: bytes) -> None:
        if not self._is_broken and self._conversation is not None:
            self._conversation.data_received(data)

    def _to_stream(self, data: bytes) -> None:
        left = memoryview(data)
        while left and self.is_open:
            buffer = self.stream.get_buffer()
            assert len(buffer), "get_buffer() returned an empty buffer"
            size = min(len(buffer), len(left), self._network.chunk or len(left))
            buffer[:size] = left[:size]
            left = left[size:]
            self.stream.buffer_updated(size, self._network.clock.now())
            self._driver.called()

    def _lose(self, words: str | None) -> None:
        if not self.is_open:
            return
        self._over()
        self._is_broken = True
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
    """Return whether a host is an IP address, and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def address(ip: str, port: int) -> Address:
    """Return the Address of an IP address and a port."""
    return Address(INET6, (ip, port, 0, 0)) if ":" in ip else Address(INET, (ip, port))
