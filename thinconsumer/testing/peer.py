"""What stands at the other end of a connection in memory: a small interface, and the simplest things that have it.

A :class:`Peer` listens; each connection made to it is a :class:`Conversation`, which gets bytes and answers through its
:class:`PeerConnection`. A scripted broker is one; a whole broker will be another. Knows nothing of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class PeerConnection(Protocol):
    """The peer's end of one connection, as the network in memory gives it. Everything arrives in order."""

    @property
    def is_open(self) -> bool:
        """Whether either side can still say anything."""
        ...

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        ...

    def close(self) -> None:
        """Close in order: what was sent before still arrives."""
        ...

    def reset(self) -> None:
        """Break the connection off: what is under way is lost."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back when time has come, if the connection is still open then."""
        ...


class Conversation(Protocol):
    """What a peer does on one connection."""

    def data_received(self, data: bytes) -> None:
        """Bytes came from the client, cut anywhere."""

    def connection_lost(self) -> None:
        """The client is gone."""


class Peer(Protocol):
    """Something that listens at a host and port."""

    def connection_made(self, connection: PeerConnection) -> Conversation:
        """Accept a connection; what is returned is told what happens on it."""
        ...


class ScriptedPeer:
    """Says fixed bytes when connected, and more each time it hears something; for servers that are not Kafka.

    ``on_connect`` is sent at once, ``answers`` one by one, each after something was received; then it closes if
    ``then_close``, and else is silent. ``received`` holds everything that was heard, on all connections.
    """

    def __init__(self, *answers: bytes, on_connect: bytes = b"", then_close: bool = False) -> None:
        self.received = bytearray()
        self.connections: list[PeerConnection] = []
        self._on_connect = on_connect
        self._answers = answers
        self._then_close = then_close

    def connection_made(self, connection: PeerConnection) -> Conversation:
        """Accept."""
        self.connections.append(connection)
        if self._on_connect:
            connection.send(self._on_connect)
        return _Recital(self, connection, list(self._answers), self._then_close)


class _Recital:
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
