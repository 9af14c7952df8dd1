"""The transport between a connection and its socket: plain TCP here, TLS in :mod:`.tls`."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, EVENT_WRITE
from typing import Protocol

#: Maximum number of buffers per ``sendmsg``. Linux and macOS reject more than IOV_MAX, which is 1024.
MAX_BUFFERS = 64
#: On Windows, which has no ``sendmsg``, small buffers are joined to one of at most this many bytes.
MAX_JOINED_BYTES = 64 * 1024

Chunks = Sequence[bytes | memoryview]


class Transport(Protocol):
    """One connected socket, with or without TLS. Never blocks, never calls a stream, and raises only ``OSError``."""

    #: The ``selectors`` events that must occur before the transport can continue the handshake, or receive. In TLS,
    #: receiving may require sending first, so this value and :attr:`write_needs` may change with every call.
    read_needs: int
    write_needs: int  #: The events that must occur before the transport can send.
    #: Whether a receive that did not fill its buffer has taken all bytes that have arrived. A receive over TLS may have
    #: left some, since it takes a limited number of records.
    short_read_ends: bool

    def handshake(self) -> bool:
        """Continue the handshake; return whether it is complete."""

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """Receive into a buffer; return the number of bytes, 0 if the peer has closed.

        Raises:
            BlockingIOError: no byte can be received before the events in :attr:`read_needs`.
        """

    def send(self, chunks: Chunks) -> int:
        """Send bytes from the front of ``chunks``; return their number. The caller passes the rest to the next call.

        Raises:
            BlockingIOError: no byte can be sent before the events in :attr:`write_needs`.
        """

    def pending(self) -> bool:
        """Return whether received bytes, or their end, wait inside the transport, where no selector reports them."""

    def set_low_water(self, size: int) -> None:
        """Let the system report the socket as readable only once ``size`` bytes have arrived (SO_RCVLOWAT)."""

    def close(self) -> None:
        """Close the descriptor; TLS first sends close_notify if that is possible without waiting. Never raises."""

    def abandon(self) -> None:
        """Close the descriptor and send nothing: the connection is broken, or another process uses it. Never raises."""


#: Takes a connected non-blocking socket and the peer's host name, which TLS may check; returns the transport.
TransportFactory = Callable[[socket.socket, str], Transport]


def set_low_water(sock: socket.socket, size: int) -> None:
    """Set SO_RCVLOWAT (see :meth:`Transport.set_low_water`), on Linux only: other systems ignore or redefine it."""
    if sys.platform == "linux":
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(size, 2**31 - 1))
        except OSError:
            pass  # the socket stays readable with every byte


def join(chunks: Chunks, limit: int) -> bytes | memoryview:
    """Return the first ``limit`` bytes of ``chunks``, or all of them if they have fewer, as one buffer.

    Nothing is copied if the first chunk is the only one, or has at least ``limit`` bytes.
    """
    first = chunks[0]
    if len(chunks) == 1 or len(first) >= limit:
        return first if len(first) <= limit else memoryview(first)[:limit]
    joined = bytearray()
    for chunk in chunks:
        joined += chunk[: limit - len(joined)]
        if len(joined) >= limit:
            break
    return bytes(joined)


class PlainTransport:
    """A :class:`Transport` over plain TCP."""

    __slots__ = ("_sendmsg", "_sock", "recv_into")

    read_needs = EVENT_READ
    write_needs = EVENT_WRITE
    short_read_ends = True

    def __init__(self, sock: socket.socket, host: str = "") -> None:
        self._sock = sock
        self.recv_into: Callable[[memoryview], int] = sock.recv_into
        self._sendmsg: Callable[[Chunks], int] | None = getattr(sock, "sendmsg", None)

    def handshake(self) -> bool:
        return True

    def send(self, chunks: Chunks) -> int:
        if len(chunks) == 1:
            return self._sock.send(chunks[0])
        if self._sendmsg is not None:
            return self._sendmsg(chunks[:MAX_BUFFERS])
        return self._sock.send(join(chunks, MAX_JOINED_BYTES))

    def pending(self) -> bool:
        return False

    def set_low_water(self, size: int) -> None:
        set_low_water(self._sock, size)

    def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        try:
            self._sock.close()
        except OSError:
            pass  # close() repeats an earlier error, but does close the descriptor
