"""TLS as a transport: a non-blocking ``ssl`` socket that states which event it waits for.

Follows OpenSSL's rules for non-blocking use: any call may have to read or to write first, whatever its purpose; an
unfinished write must be repeated with the same bytes; decrypted bytes wait inside the TLS object, where no selector
sees them. The engine owns the timeout of the handshake.
"""

from __future__ import annotations

import socket
import ssl
from selectors import EVENT_READ, EVENT_WRITE

from .transport import Chunks, Transport, TransportFactory, join, set_low_water

#: Largest TLS record. Small requests are joined into one record, as each record costs a header and an encryption.
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
        """Continue the handshake; return whether it is complete. Raises ``ssl.SSLError`` if it fails."""
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
        """Receive decrypted bytes, as :meth:`.Transport.recv_into`.

        A close without close_notify counts as orderly, as on plain TCP: Kafka's frames contain their size, so a
        truncated frame is always noticed. (Python's ``ssl`` does not distinguish it from a reset.)
        """
        try:
            size = self._tls.recv_into(buffer)
        except ssl.SSLWantReadError:
            self.read_needs = EVENT_READ
            return None
        except ssl.SSLWantWriteError:
            # Waiting for readability would be a deadlock: OpenSSL must first send bytes that the peer waits for.
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
            # OpenSSL must read first. Waiting for writability would be a busy loop, as the socket is writable.
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
        """Set SO_RCVLOWAT of the TCP socket; encryption makes responses only a little larger."""
        set_low_water(self._tls, size)

    def close(self) -> None:
        """Send close_notify if that is possible at once, and close the socket."""
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass  # the peer's close_notify has not arrived, or the handshake is not complete: neither is needed
        self.abandon()

    def abandon(self) -> None:
        """Close the socket without close_notify."""
        try:
            self._tls.close()
        except OSError:
            pass  # an earlier error of the connection; the descriptor is closed nevertheless


def tls_transport(context: ssl.SSLContext) -> TransportFactory:
    """Return a factory that wraps connected sockets in TLS under ``context`` and checks the dialled name."""

    def wrap(sock: socket.socket, host: str) -> Transport:
        # Certificates contain neither the final dot of a host name nor the zone of a link-local address.
        name = host.rstrip(".").partition("%")[0]
        return TlsTransport(context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=name or None))

    return wrap
