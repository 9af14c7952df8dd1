"""TLS as a transport: a non-blocking ``ssl`` socket that states which event it waits for.

Follows OpenSSL's rules for non-blocking use. Any call may have to read or to write first, whatever its purpose. An
unfinished write must be repeated with the same bytes. Decrypted bytes wait inside the TLS object, where no selector
sees them.
"""

import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE

from .error_text import PERHAPS_CERTIFICATE_REJECTED, describe
from .transport import Chunks, Transport, TransportFactory, join, set_low_water

#: Maximum size of a TLS record. Waiting requests are joined up to this size, since each record costs a header and an
#: encryption.
RECORD_BYTES = 16 * 1024
#: Maximum number of records per receive; OpenSSL returns at most one per call. Without a maximum, a fast peer would
#: keep other connections waiting.
RECORDS_PER_RECEIVE = 16
#: Sessions are kept for this many servers at most; a session takes a few kilobytes.
SESSIONS_MAX = 1000
#: Maximum number of times that sessions are read from OpenSSL. Before Python 3.13.1, a read may leak the memory of a
#: session, about 6 KB: https://github.com/python/cpython/issues/116810.
SESSION_READS_MAX = 2000 if sys.version_info < (3, 13, 1) else sys.maxsize

_Server = tuple[str, int]


class Sessions:
    """The last TLS session of each server, by host and port: resuming it saves certificates and a signature."""

    def __init__(self) -> None:
        self._sessions: dict[_Server, tuple[ssl.SSLContext, ssl.SSLSession]] = {}
        self._reads = 0

    def find(self, server: _Server, context: ssl.SSLContext) -> ssl.SSLSession | None:
        """Return the session to offer to ``server``, or None if there is none that was made with ``context``.

        A resumed session skips the check of the certificate, and another context may check less.
        """
        made_with, session = self._sessions.get(server, (None, None))
        return session if made_with is context else None

    def keep(self, server: _Server, tls: ssl.SSLSocket) -> None:
        """Keep the session of a connection if it can be resumed; drop the oldest session if there are too many.

        The session is not read after :data:`SESSION_READS_MAX` reads, or if the connection has resumed an earlier
        session, which can be resumed again.
        """
        if tls.session_reused or self._reads >= SESSION_READS_MAX:
            return
        self._reads += 1
        session = tls.session
        if session is None or not (session.has_ticket or session.id):
            return
        self._sessions.pop(server, None)
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[server] = tls.context, session

    def drop(self, server: _Server, context: ssl.SSLContext) -> bool:
        """Forget the session that :meth:`find` would return; return whether there was one."""
        return self.find(server, context) is not None and bool(self._sessions.pop(server))


class TlsTransport:
    """The client's end of a TLS connection. ``sessions`` keeps its session for later connections to ``server``."""

    write_needs = EVENT_WRITE
    read_needs = EVENT_READ
    short_read_ends = False

    def __init__(self, tls: ssl.SSLSocket, sessions: Sessions | None = None, server: _Server = ("", 0)) -> None:
        self._tls = tls
        self._repeat: bytes | memoryview | None = None
        self._sessions = sessions
        self._server = server
        #: How receiving has ended: a tuple of the error, or of None for an orderly close; None while it has not ended.
        #: If bytes were received before the end, the next receive reports the end.
        self._ending: tuple[OSError | None] | None = None

    def handshake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self.read_needs = EVENT_READ
            return False
        except ssl.SSLWantWriteError:
            self.read_needs = EVENT_WRITE
            return False
        except OSError as error:
            failure = self._handshake_failure(error)
            if failure is error:
                raise
            raise failure from error
        self.read_needs = EVENT_READ
        return True

    def _handshake_failure(self, error: OSError) -> OSError:
        """Forget the server's session, which may be the cause; return the error to raise instead of ``error``."""
        had_session = self._sessions is not None and self._sessions.drop(self._server, self._tls.context)
        if isinstance(error, (ConnectionError, ssl.SSLEOFError)):
            # After a failed send, OpenSSL reads nothing more: an alert with the reason may wait in the socket's buffer.
            alert = _unread_alert(self._tls) if isinstance(error, ConnectionError) else None
            if alert is None:
                return error if had_session else self._name_cause(error)
            error = alert
        if had_session and isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            # The error must not count as a rejected certificate: without the session, the handshake may succeed.
            text = "the peer rejects the TLS session of an earlier connection, so the next one begins anew"
            return ConnectionAbortedError(f"{text} ({describe(error)})")
        return error

    def _name_cause(self, error: OSError) -> OSError:
        """Return an error that names the client certificate as a likely cause; ``error`` itself if that cannot be.

        Up to TLS 1.2, the server checks the client's certificate within the handshake. If the server then closes the
        socket with received bytes unread, TCP's reset may overtake the TLS alert. Without this text, the error would
        suggest that the port does not use TLS, although the server has chosen a cipher suite.
        """
        suite = self._tls.cipher()
        if suite is None or suite[1] == "TLSv1.3":
            return error
        return ConnectionResetError(f"{describe(error)}: {PERHAPS_CERTIFICATE_REJECTED}")

    def recv_into(self, buffer: memoryview) -> int:
        """Receive decrypted bytes, as :meth:`.Transport.recv_into`.

        A close without close_notify counts as orderly, as on plain TCP: Kafka's frames contain their size, so that a
        truncated one is always noticed.
        """
        if self._ending is not None:
            return self._end()
        size, room = 0, len(buffer)
        self.short_read_ends = False
        for _ in range(RECORDS_PER_RECEIVE):
            try:
                got = self._tls.recv_into(buffer[size:])
            except ssl.SSLWantReadError:
                self.read_needs = EVENT_READ
                return self._would_block(size)
            except ssl.SSLWantWriteError:
                # OpenSSL must send bytes before it can receive, and the peer waits for these bytes. If the driver
                # waited for readability, neither side would continue.
                self.read_needs = EVENT_WRITE
                return self._would_block(size)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                got = 0
            except OSError as error:
                self._ending = (error,)
                break
            if got == 0:
                self._ending = (None,)
                break
            size += got
            # If the next record did not fit, a part would stay inside OpenSSL, and SocketConnection receives such parts
            # without a limit.
            if room - size < RECORD_BYTES:
                break
        self.read_needs = EVENT_READ
        if self._sessions is not None and size:
            # In TLS 1.3, the server sends tickets after the handshake, so they have arrived with the first bytes.
            with suppress(ValueError):  # the socket is closed
                self._sessions.keep(self._server, self._tls)
            self._sessions = None
        return size or self._end()

    def _would_block(self, size: int) -> int:
        """Return ``size``, the number of bytes received before OpenSSL would block; if 0, raise BlockingIOError."""
        self.short_read_ends = True
        if not size:
            raise BlockingIOError
        return size

    def _end(self) -> int:
        """Report how receiving has ended: raise the error, or return 0 for an orderly close."""
        assert self._ending is not None
        (error,) = self._ending
        if error is not None:
            raise error
        return 0

    def send(self, chunks: Chunks) -> int:
        """Send at most one TLS record; return the number of bytes sent."""
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
        raise BlockingIOError

    def pending(self) -> bool:
        return self._ending is not None or self._tls.pending() > 0

    def set_low_water(self, size: int) -> None:
        set_low_water(self._tls, size)  # counts encrypted bytes, of which there are hardly more than decrypted ones

    def close(self) -> None:
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass  # no close_notify from the peer yet, or the handshake is not complete: close anyway
        self.abandon()

    def abandon(self) -> None:
        try:
            self._tls.close()
        except OSError:
            pass  # close() repeats an earlier error, but does close the descriptor


def _unread_alert(tls: ssl.SSLSocket) -> ssl.SSLError | None:
    """Return the error for an unencrypted alert in the receive buffer of the socket; None if there is none."""
    try:
        data = socket.socket.recv(tls, RECORD_BYTES)
    except OSError:
        return None
    if data[:1] != b"\x15":  # no record with an alert
        return None
    received = ssl.MemoryBIO()
    received.write(data)
    reader = tls.context.wrap_bio(received, ssl.MemoryBIO(), server_hostname=tls.server_hostname)
    try:
        reader.do_handshake()
    except ssl.SSLError as error:
        return error if "ALERT" in (error.reason or "") else None
    return None


def tls_transport(current: Callable[[], ssl.SSLContext]) -> TransportFactory:
    """Return a factory that wraps connected sockets in TLS; ``current`` returns the context for a new connection."""
    sessions = Sessions()

    def wrap(sock: socket.socket, host: str) -> Transport:
        # Remove the final dot of a host name and the zone of a link-local address: certificates contain neither.
        name = host.rstrip(".").partition("%")[0]
        # The port is that of a proxy if there is one. A broker of the same host that gets another's session ignores it.
        server, context = (host, sock.getpeername()[1]), current()
        session = sessions.find(server, context)
        tls = context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=name or None, session=session)
        return TlsTransport(tls, sessions, server)

    return wrap
