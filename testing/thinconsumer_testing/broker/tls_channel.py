"""One client's socket with TLS, as the transport of its connection to a broker.

Owns the handshake and the principal from the client's certificate. After a failed handshake the channel reads on, and
discards what it reads, until the client closes: a socket that is closed with unread bytes is reset, and the client
would lose the TLS alert that gives the reason.
"""

from __future__ import annotations

import logging
import socket
import ssl

from .channel import LINGER_S, WRITE, Channel, ChannelRegistry
from .distinguished_name import distinguished_name

log = logging.getLogger(__name__)

#: The largest TLS record. A read with this much room leaves no decrypted bytes behind, which no selector would report.
RECORD_MAX = 16 * 1024
#: The fatal alert internal_error of TLS 1.2, with which Kafka answers bytes that are not TLS. OpenSSL answers nothing.
_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"
_NOT_TLS = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})


class TlsChannel(Channel):
    """A channel that encrypts. Raises OSError if the client has disconnected already."""

    __slots__ = ("_is_draining", "_is_established", "_needs_write", "_tls")

    def __init__(
        self, registry: ChannelRegistry, sock: socket.socket, client_host: str, context: ssl.SSLContext
    ) -> None:
        self._tls = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(registry, self._tls, client_host)
        self._is_established = False
        self._is_draining = False
        self._needs_write = False  #: Whether OpenSSL has to send something before it can continue to read.

    def on_ready(self, mask: int) -> None:
        """Continue the handshake, or receive and send."""
        needed_write, self._needs_write = self._needs_write, False
        if self._is_draining:
            self._drain()
        elif not self._is_established:
            self._shake_hands()
        else:
            super().on_ready(mask)
            if needed_write and mask & WRITE:
                self._receive()
        self.update_interest()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._needs_write = True
            return
        except ssl.SSLError as error:
            self._fail(error)
            return
        except OSError as error:
            self._lost(error)
            return
        self._is_established = True
        certificate = self._tls.getpeercert()
        if certificate and not self.connection.node.security.uses_sasl:
            subject = certificate.get("subject", ())
            self.connection.principal = f"User:{distinguished_name(subject)}"  # type: ignore[arg-type]
        # The client's first request may have arrived together with the end of its handshake.
        self._receive()

    def _fail(self, error: ssl.SSLError) -> None:
        """Report a failed handshake, and wait until the client has read the alert, which OpenSSL has sent."""
        reason = getattr(error, "verify_message", None) or error.reason or str(error)
        log.info("the TLS handshake with client %s failed: %s", self.client_host, reason)
        connection = self.connection
        connection.node.cluster.invalid_requests.append(f"the TLS handshake failed: {reason}")
        connection.connection_lost()
        self._is_closing = self._is_draining = True
        connection.node.schedule.call_later(LINGER_S, self.reset)
        try:
            if error.reason in _NOT_TLS:
                socket.socket.send(self._tls, _ALERT)
            socket.socket.shutdown(self._tls, socket.SHUT_WR)
        except OSError:
            self._release()  # The client has closed the connection.

    def _drain(self) -> None:
        try:
            if socket.socket.recv_into(self._tls, self._registry.receive_buffer):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass  # The client has reset the connection.
        self._release()

    def _receive(self) -> None:
        if self._tls.fileno() < 0 or self._is_closing:
            return
        buffer = self._registry.receive_buffer
        filled, end = 0, False
        problem: OSError | None = None
        try:
            while len(buffer) - filled >= RECORD_MAX:
                size = self._tls.recv_into(buffer[filled:])
                if not size:
                    end = True
                    break
                filled += size
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self._needs_write = True
        except OSError as error:
            end, problem = True, error
        if filled:
            self._deliver(buffer[:filled])
        if end:
            self._lost(problem)

    def _send(self, data: bytes | memoryview) -> int:
        view, sent = memoryview(data), 0
        try:
            while sent < len(view):
                sent += self._tls.send(view[sent:])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        return sent

    def _finish(self) -> None:
        try:
            # Sends the alert close_notify, which tells the client that the stream was not truncated. The client's own
            # alert is not awaited.
            self._tls.unwrap()
        except (OSError, ValueError):
            pass
        super()._finish()

    def _wants_read(self) -> bool:
        return self._is_draining or super()._wants_read()

    def _wants_write(self) -> bool:
        return self._needs_write or super()._wants_write()
