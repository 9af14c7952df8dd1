"""The transport between a connection and its socket: plain TCP here, TLS in :mod:`.tls`.

A transport moves bytes and states which socket events it waits for. It never blocks, never calls a stream and never
ends a connection: errors are raised as ``OSError``. TLS may write in order to read and read in order to write, hence
``read_needs`` and ``write_needs`` instead of "readable" and "writable".
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import Protocol

#: Buffers per gathered write. Linux and macOS refuse more than IOV_MAX, which is 1024.
MAX_BUFFERS = 64
#: Without ``sendmsg`` (Windows), small buffers are joined up to this many bytes instead.
MAX_JOINED_BYTES = 64 * 1024

Chunks = Sequence[bytes | memoryview]


class Transport(Protocol):
    """One connected socket, possibly inside TLS.

    The driver watches for ``read_needs``, and for ``write_needs`` while bytes wait to be sent; both are ``selectors``
    event masks and may change with every call. During :meth:`handshake`, ``read_needs`` is what the handshake needs.
    """

    read_needs: int
    write_needs: int
    #: Whether a receive that does not fill its buffer has emptied the socket. With TLS it only ends a record.
    short_read_ends: bool

    def handshake(self) -> bool:
        """Go on with the handshake; return whether it is done."""
        ...

    def recv_into(self, buffer: memoryview) -> int | None:
        """Receive; return the number of bytes, 0 at the end of the stream, None if no bytes are there yet."""
        ...

    def send(self, chunks: Chunks) -> int | None:
        """Send from the front of ``chunks``; return the number of bytes taken, None if the socket takes none yet.

        The next call begins with the first byte that was not taken.
        """
        ...

    def pending(self) -> bool:
        """Return whether received bytes wait inside the transport, where no selector sees them."""
        ...

    def set_low_water(self, size: int) -> None:
        """Have the system receive ``size`` bytes before it reports the socket readable."""

    def close(self) -> None:
        """Send a closing message if the protocol has one, without waiting; free the descriptor. Never raises."""

    def abandon(self) -> None:
        """Free the descriptor and send nothing: the connection is broken, or another process's. Never raises."""


#: Wraps a socket that has just been connected (non-blocking). ``host`` is the name that the certificate must have.
TransportFactory = Callable[[socket.socket, str], Transport]


def set_low_water(sock: socket.socket, size: int) -> None:
    """Set SO_RCVLOWAT, on Linux only: other systems ignore it or give it another meaning."""
    if sys.platform == "linux":
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(size, 2**31 - 1))


def join(chunks: Chunks, limit: int) -> bytes | memoryview:
    """Return the front of ``chunks`` as one buffer of at most ``limit`` bytes, copying only small chunks."""
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

    read_needs = EVENT_READ
    write_needs = EVENT_WRITE
    short_read_ends = True

    def __init__(self, sock: socket.socket, host: str = "") -> None:
        self._sock = sock
        self._sendmsg: Callable[[Chunks], int] | None = getattr(sock, "sendmsg", None)

    def handshake(self) -> bool:
        return True

    def recv_into(self, buffer: memoryview) -> int | None:
        try:
            return self._sock.recv_into(buffer)
        except BlockingIOError:
            return None

    def send(self, chunks: Chunks) -> int | None:
        try:
            if self._sendmsg is not None:
                return self._sendmsg(chunks[:MAX_BUFFERS])
            return self._sock.send(join(chunks, MAX_JOINED_BYTES))
        except BlockingIOError:
            return None

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
            pass  # close() may report an earlier error of the connection; the descriptor is freed all the same
