"""TLS as a transport: a non-blocking ``ssl`` socket that states which event it waits for.

Follows OpenSSL's rules for non-blocking use. Any call may have to read or to write first, whatever its purpose. An
unfinished write must be repeated with the same bytes. Decrypted bytes wait inside the TLS object, where no selector
sees them. The timeout of the handshake is the engine's task, not this module's.
"""

import socket
import ssl
from selectors import EVENT_READ, EVENT_WRITE

from .transport import Chunks, Transport, TransportFactory, join, set_low_water

#: Maximum size of a TLS record. Waiting requests are joined up to this size, since each record costs a header and an
#: encryption.
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

        A peer that closes without close_notify counts as an orderly close, as on plain TCP: a truncated frame is always
        noticed, because Kafka's frames contain their size. (Python's ``ssl`` does not distinguish such a close from a
        reset.)
        """
        try:
            size = self._tls.recv_into(buffer)
        except ssl.SSLWantReadError:
            self.read_needs = EVENT_READ
            return None
        except ssl.SSLWantWriteError:
            # OpenSSL must send bytes before it can receive, and the peer waits for these bytes. If the driver waited
            # for readability, neither side would continue.
            self.read_needs = EVENT_WRITE
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        self.read_needs = EVENT_READ
        return size

    def send(self, chunks: Chunks) -> int | None:
        """Send at most one TLS record; return the number of bytes sent, or None if nothing could be sent yet."""
        data = join(chunks, RECORD_BYTES) if self._repeat is None else self._repeat
        try:
            size = self._tls.send(data)
        except ssl.SSLWantWriteError:
            self.write_needs = EVENT_WRITE
        except ssl.SSLWantReadError:
            # OpenSSL must receive bytes before it can send. The socket is writable already, so waiting for writability
            # would be a busy loop.
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
        """Set SO_RCVLOWAT of the TCP socket; ``size`` needs no correction, as encryption adds little to a response."""
        set_low_water(self._tls, size)

    def close(self) -> None:
        """Send close_notify if that is possible without waiting, and close the socket."""
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass  # no close_notify from the peer yet, or the handshake is not complete: close anyway
        self.abandon()

    def abandon(self) -> None:
        """Close the socket without close_notify."""
        try:
            self._tls.close()
        except OSError:
            pass  # close() repeats an earlier error, but does close the descriptor


def tls_transport(context: ssl.SSLContext) -> TransportFactory:
    """Return a factory that wraps connected sockets in TLS; certificates must match the dialled host name."""

    def wrap(sock: socket.socket, host: str) -> Transport:
        # Remove the final dot of a host name and the zone of a link-local address: certificates contain neither.
        name = host.rstrip(".").partition("%")[0]
        return TlsTransport(context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=name or None))

    return wrap
