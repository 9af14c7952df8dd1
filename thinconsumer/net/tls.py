"""TLS as a transport: an ``ssl`` socket that reports which event it waits for instead of blocking.

Follows OpenSSL's rules for non-blocking use: any call may have to read or to write first, whatever its purpose; an
unfinished write must be repeated with the same bytes; decrypted bytes wait inside the TLS object, where no selector
sees them. The context decides which certificates to trust, and the engine when a handshake has taken too long.
"""

from __future__ import annotations

import socket
import ssl
from selectors import EVENT_READ, EVENT_WRITE

from .transport import Chunks, Transport, TransportFactory, join, set_low_water

#: Size of one TLS record. Small requests are joined into one, as each record has its own overhead.
RECORD_BYTES = 16 * 1024


class TlsTransport:
    """The client's end of a TLS connection."""

    write_needs = EVENT_WRITE
    read_needs = EVENT_READ
    short_read_ends = False

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls
        self._repeat: bytes | memoryview | None = None

    def handshake(self) -> bool:
        """Continue the handshake; return whether it is done. A failed one raises ``ssl.SSLError``."""
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

        An end without close_notify counts as an orderly close, as on plain TCP: Kafka's frames carry their length, so a
        truncated one is never taken for a whole one. (Python's ssl does not tell a reset from an end either.)
        """
        try:
            size = self._tls.recv_into(buffer)
        except ssl.SSLWantReadError:
            self.read_needs = EVENT_READ
            return None
        except ssl.SSLWantWriteError:
            # Waiting for readability would be a deadlock: the peer waits for the bytes of this side.
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
            # Waiting for writability would be a busy loop: the socket is writable all the time.
            self.write_needs = EVENT_READ
        else:
            self.write_needs = EVENT_WRITE
            self._repeat = None
            return size
        self._repeat = data
        return None

    def pending(self) -> bool:
        return self._tls.pending() > 0

    def set_low_water(self, size: int) -> None:
        """Set it on the TCP socket, where responses are a little larger."""
        set_low_water(self._tls, size)

    def close(self) -> None:
        """Send close_notify if that is possible at once, and close the socket."""
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass  # the peer's close_notify has not come, and is not needed; or the handshake was not complete
        self.abandon()

    def abandon(self) -> None:
        """Close the socket without close_notify."""
        try:
            self._tls.close()
        except OSError:
            pass  # the descriptor is freed all the same


def tls_transport(context: ssl.SSLContext) -> TransportFactory:
    """Return a factory that wraps connected sockets in TLS under ``context`` and checks the dialled name."""

    def wrap(sock: socket.socket, host: str) -> Transport:
        # Certificates contain neither the final dot of a host name nor the zone of a link-local address.
        name = host.rstrip(".").partition("%")[0]
        return TlsTransport(context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=name or None))

    return wrap
