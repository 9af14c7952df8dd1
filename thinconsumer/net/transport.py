"""What stands between a connection and its socket: plain TCP here, TLS in :mod:`.tls`, anything that fits the Protocol.

A transport moves bytes and says what it waits for; it never blocks, never calls a stream and never decides that a
connection is over: errors come out as ``OSError``. It may write while it reads and read while it writes (TLS does),
hence ``read_needs`` and ``write_needs`` instead of the plain "readable" and "writable".
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import Protocol

#: Buffers per gathered write. IOV_MAX is 1024 on Linux and macOS; longer lists are refused by the system.
MAX_BUFFERS = 64
#: Where there is no ``sendmsg`` (Windows), small buffers are joined up to this many bytes instead.
MAX_JOINED_BYTES = 64 * 1024

Chunks = Sequence[bytes | memoryview]


class Transport(Protocol):
    """One connected socket and what it is wrapped in.

    The driver watches for ``read_needs``, and for ``write_needs`` while there is something to send; both are
    ``selectors`` event masks and may change with every call. While :meth:`handshake` is under way, ``read_needs`` says
    what it waits for.
    """

    read_needs: int
    write_needs: int
    #: Whether a receive that does not fill its buffer has emptied the socket. Under TLS it only ends a record.
    short_read_ends: bool

    def handshake(self) -> bool:
        """Go on with the handshake; return whether it is done."""
        ...

    def recv_into(self, buffer: memoryview) -> int | None:
        """Receive; return how many bytes, 0 at the end of the stream, None when there is nothing for now."""
        ...

    def send(self, chunks: Chunks) -> int | None:
        """Send from the front of ``chunks``; return how many bytes were taken, None when none are for now.

        What was not taken is offered again: the first bytes of the next call are the same.
        """
        ...

    def pending(self) -> bool:
        """Return whether bytes wait inside the transport, where no selector sees them."""
        ...

    def expect(self, size: int) -> None:
        """Have the system take in up to ``size`` bytes before it calls the socket readable; 1: any byte will do."""

    def close(self) -> None:
        """Say goodbye, if the protocol has a word for it, without waiting; then free the descriptor. Never raises."""

    def abandon(self) -> None:
        """Free the descriptor without a word: the connection is broken, or another process's. Never raises."""


class LowWater(Protocol):
    """What :func:`expect` uses of a socket."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """Set a socket option."""


#: Wraps a socket that has just been connected (non-blocking). ``host`` is the name that the certificate must have.
TransportFactory = Callable[[socket.socket, str], Transport]


def expect(sock: LowWater, size: int) -> None:
    """Set how many bytes a socket holds before it is readable. A hint: where it means nothing else, nothing is done."""
    if sys.platform == "linux":
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(size, 2**31 - 1))


def join(chunks: Chunks, limit: int) -> bytes | memoryview:
    """Return the front of ``chunks`` as one buffer of at most ``limit`` bytes, copying only what is small."""
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
    """TCP as it is."""

    read_needs = EVENT_READ
    write_needs = EVENT_WRITE
    short_read_ends = True

    def __init__(self, sock: socket.socket, host: str = "") -> None:
        self._sock = sock
        self._sendmsg: Callable[[Chunks], int] | None = getattr(sock, "sendmsg", None)

    def handshake(self) -> bool:
        """Return True: there is none."""
        return True

    def recv_into(self, buffer: memoryview) -> int | None:
        """Receive; None when it would block."""
        try:
            return self._sock.recv_into(buffer)
        except BlockingIOError:
            return None

    def send(self, chunks: Chunks) -> int | None:
        """Send in one gathered write; None when it would block."""
        try:
            if self._sendmsg is not None:
                return self._sendmsg(chunks[:MAX_BUFFERS])
            return self._sock.send(join(chunks, MAX_JOINED_BYTES))
        except BlockingIOError:
            return None

    def pending(self) -> bool:
        """Return False: the socket holds everything."""
        return False

    def expect(self, size: int) -> None:
        """Tell the socket."""
        expect(self._sock, size)

    def close(self) -> None:
        """Close the socket; TCP says goodbye by itself."""
        self.abandon()

    def abandon(self) -> None:
        """Close the socket."""
        try:
            self._sock.close()
        except OSError:
            pass  # close() may report an earlier error of the connection; the descriptor is gone all the same.
