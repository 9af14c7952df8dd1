"""The server's end of a connection in memory: the interface of servers, and a server that sends fixed bytes.

A :class:`Peer` listens. For each connection it returns a :class:`Conversation`, which receives the client's bytes and
answers through its :class:`PeerConnection`. The brokers of :class:`~.cluster.MemoryCluster` are peers. Nothing here
depends on Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class PeerConnection(Protocol):
    """The peer's end of one connection, provided by the network. Bytes arrive in order."""

    @property
    def is_open(self) -> bool:
        """Whether the client's end of the connection is open."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""

    def close(self) -> None:
        """Close the connection once the bytes sent so far have arrived at the client."""

    def reset(self) -> None:
        """Reset the connection: the client gets an error, which :meth:`close` does not cause."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` after a delay, if the connection is still open then."""


class Conversation(Protocol):
    """A peer's handler of one connection's events."""

    def data_received(self, data: bytes) -> None:
        """Handle bytes from the client: any part of its byte stream, not whole messages."""

    def connection_lost(self) -> None:
        """Handle that the client has closed the connection, or that it was lost."""


class Peer(Protocol):
    """A server that listens at a host and port."""

    def connection_made(self, connection: PeerConnection) -> Conversation:
        """Accept a connection, and return the conversation that receives its events."""


class ScriptedPeer:
    """Sends fixed bytes, as a server that is not Kafka does: an HTTP server, for example.

    On each connection it sends ``on_connect`` at once and then one of ``answers`` whenever bytes arrive. After the last
    answer it closes the connection if ``then_close`` is set, and otherwise sends nothing more. ``received`` has the
    bytes received on all connections.
    """

    def __init__(self, *answers: bytes, on_connect: bytes = b"", then_close: bool = False) -> None:
        self.received: bytearray = bytearray()
        self.connections: list[PeerConnection] = []
        self._on_connect = on_connect
        self._answers = answers
        self._then_close = then_close

    def connection_made(self, connection: PeerConnection) -> Conversation:
        """Accept a connection."""
        self.connections.append(connection)
        if self._on_connect:
            connection.send(self._on_connect)
        return _ScriptedConversation(self, connection, list(self._answers), self._then_close)


class _ScriptedConversation:
    def __init__(self, peer: ScriptedPeer, connection: PeerConnection, answers: list[bytes], then_close: bool) -> None:
        self._peer = peer
        self._connection = connection
        self._answers = answers
        self._then_close = then_close

    def data_received(self, data: bytes) -> None:
        self._peer.received += data
        if self._answers:
            self._connection.send(self._answers.pop(0))
        if not self._answers and self._then_close:
            self._connection.close()

    def connection_lost(self) -> None:
        pass
