"""TLS as a transport: an ``ssl`` socket whose every "not now" becomes an interest.

Follows the rules of non-blocking OpenSSL: any call may have to read or to write first, whatever it is for; a write that
could not finish must be repeated with the very same bytes; bytes of a record that is already decrypted wait inside the
TLS object, where no selector sees them. Which certificates to believe is the context's business; when to give a slow
handshake up is the engine's.
"""

from __future__ import annotations

import socket
import ssl
from selectors import EVENT_READ, EVENT_WRITE
from typing import Protocol

from .transport import Chunks, Transport, TransportFactory, expect, join

#: What fits into one TLS record. Small requests are joined into one instead of paying a record each.
RECORD_BYTES = 16 * 1024


class TlsSocket(Protocol):
    """What is used of ``ssl.SSLSocket``."""

    def do_handshake(self) -> None:
        """Shake hands, as far as possible now."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Decrypt into ``buffer``."""
        ...

    def send(self, data: bytes | memoryview, /) -> int:
        """Encrypt and send."""
        ...

    def pending(self) -> int:
        """Return how many decrypted bytes wait."""
        ...

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """Set an option of the socket below."""

    def unwrap(self) -> object:
        """Send close_notify."""
        ...

    def close(self) -> None:
        """Close the socket."""


class TlsTransport:
    """A TLS client's end of a connection."""

    write_needs = EVENT_WRITE
    read_needs = EVENT_READ
    short_read_ends = False

    def __init__(self, tls: TlsSocket) -> None:
        self._tls = tls
        self._repeat: bytes | memoryview | None = None

    def handshake(self) -> bool:
        """Go on with the handshake; ``ssl.SSLError`` says why it cannot be."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self.read_needs = EVENT_READ
            return False
        except ssl.SSLWantWriteError:
            self.read_needs = EVENT_WRITE
            return False
        self.read_needs = EVENT_READ
        return True

    def recv_into(self, buffer: memoryview) -> int | None:
        """Receive decrypted bytes.

        A peer that disappears without close_notify looks like one that closed in order, as it does on plain TCP: Kafka
        frames carry their length, so nothing cut short is taken for whole. (Python's ssl does not tell a reset from
        an end either.)
        """
        try:
            size = self._tls.recv_into(buffer)
        except ssl.SSLWantReadError:
            self.read_needs = EVENT_READ
            return None
        except ssl.SSLWantWriteError:
            # Waiting for bytes to read here would be waiting for a peer who waits for ours.
            self.read_needs = EVENT_WRITE
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        self.read_needs = EVENT_READ
        return size

    def send(self, chunks: Chunks) -> int | None:
        """Send at most one record."""
        data = join(chunks, RECORD_BYTES) if self._repeat is None else self._repeat
        try:
            size = self._tls.send(data)
        except ssl.SSLWantWriteError:
            self.write_needs = EVENT_WRITE
        except ssl.SSLWantReadError:
            # Write interest would spin: the socket is writable all the time.
            self.write_needs = EVENT_READ
        else:
            self.write_needs = EVENT_WRITE
            self._repeat = None
            return size
        self._repeat = data
        return None

    def pending(self) -> bool:
        """Return whether decrypted bytes wait inside the TLS object."""
        return self._tls.pending() > 0

    def expect(self, size: int) -> None:
        """Tell the socket below, in which answers are a little larger."""
        expect(self._tls, size)

    def close(self) -> None:
        """Send close_notify if that is possible at once, and close the socket."""
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass  # It waits for the peer's close_notify, which nobody needs, or there was no TLS yet to end.
        self.abandon()

    def abandon(self) -> None:
        """Close the socket without a word."""
        try:
            self._tls.close()
        except OSError:
            pass  # The descriptor is gone all the same.


def tls_transport(context: ssl.SSLContext) -> TransportFactory:
    """Return what wraps connected sockets into TLS under ``context``, checking the name that was dialled."""

    def wrap(sock: socket.socket, host: str) -> Transport:
        # A certificate names neither the root's dot of a host name nor the zone of a link-local address.
        name = host.rstrip(".").partition("%")[0]
        return TlsTransport(
            context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=name or None),
        )

    return wrap
