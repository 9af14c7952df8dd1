"""One client's socket with TLS, as the transport of its connection to a broker.

Owns the server's context, the handshake, and the principal from the client's certificate. After a failed handshake the
channel reads on, and discards what it reads, until the client closes: a socket that is closed with unread bytes is
reset, and the client would lose the TLS alert that gives the reason.
"""

from __future__ import annotations

import logging
import socket
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from thinconsumer.errors import IllegalArgumentError

from .channel import LINGER_S, WRITE, Channel, ChannelRegistry
from .security import ListenerSecurity

log = logging.getLogger(__name__)

#: The largest TLS record. A read with this much room leaves no decrypted bytes in OpenSSL, where no selector sees them.
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
        """Continue the handshake, receive and send, or after a failed handshake discard what has arrived."""
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
        """Log a failed handshake, and drain the socket until the client closes it, for at most LINGER_S. OpenSSL has
        sent the alert, except to clients that do not speak TLS: these get Kafka's alert.
        """
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


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(security: ListenerSecurity) -> ssl.SSLContext:
    """Return the context of the server's side of TLS connections.

    Raises:
        IllegalArgumentError: A file cannot be read, or its contents are invalid; the message names the setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = sorted(_VERSIONS[name] for name in security.ssl_enabled_protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    # A client that renegotiates could make the broker compute many handshakes on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_key(context, security)
    if security.ssl_client_auth != "none":
        _load_authorities(context, security)
    context.verify_mode = _VERIFY_MODES[security.ssl_client_auth]
    return context


def _load_key(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    def password() -> str:
        # With a function, OpenSSL does not ask for a missing password on the terminal.
        return security.ssl_key_password

    if security.ssl_keystore_location:
        name, where = "ssl_keystore_location", security.ssl_keystore_location
        with _named_errors(name, where):
            context.load_cert_chain(where, password=password)
    else:
        # Python's ``ssl`` loads keys from files only. Only the current user can read this temporary file.
        text = f"{security.ssl_keystore_key}\n{security.ssl_keystore_certificate_chain}\n"
        with tempfile.TemporaryDirectory() as folder, _named_errors("ssl_keystore_key or its certificate chain", ""):
            path = Path(folder) / "server.pem"
            path.touch(0o600)
            path.write_text(text, encoding="utf-8")
            context.load_cert_chain(path, password=password)


def _load_authorities(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    if security.ssl_truststore_location:
        where = security.ssl_truststore_location
        with _named_errors("ssl_truststore_location", where):
            context.load_verify_locations(cafile=where)
    else:
        with _named_errors("ssl_truststore_certificates", ""):
            context.load_verify_locations(cadata=security.ssl_truststore_certificates)


@contextmanager
def _named_errors(name: str, where: str) -> Iterator[None]:
    subject = f"{name}={where}" if where else name
    try:
        yield
    except ssl.SSLError as error:
        reason = error.reason or "it is no PEM file, or the password of its key is wrong"
        raise IllegalArgumentError(f"{subject} has no usable key and certificates in PEM form: {reason}") from None
    except OSError as error:
        raise IllegalArgumentError(f"{subject} cannot be read: {error.strerror or error}") from None


#: The keywords of RFC 2253 by the names that Python's ``ssl`` uses. Other attributes keep their names; in Java they
#: would be object identifiers with encoded values.
_KEYWORDS = {
    "commonName": "CN", "countryName": "C", "organizationName": "O", "organizationalUnitName": "OU",
    "localityName": "L", "stateOrProvinceName": "ST", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip
_SPECIAL = frozenset(',+"\\<>;')
_EMAIL_ADDRESS = "1.2.840.113549.1.9.1"
_IA5_STRING = 0x16
_SHORT_LENGTH_MAX = 127


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Return the name that a principal contains, such as ``CN=alice,O=Example``, for a certificate's ``subject``, which
    has the form of ``SSLSocket.getpeercert()["subject"]``.

    Follows Java's ``X500Principal.getName`` (RFC 2253): the last part of the subject comes first.
    """
    parts = ["+".join(_attribute(name, value) for name, value in part) for part in subject]
    return ",".join(reversed(parts))


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress" and value.isascii() and len(value) <= _SHORT_LENGTH_MAX:
        return f"{_EMAIL_ADDRESS}=#{bytes((_IA5_STRING, len(value))).hex()}{value.encode().hex()}"
    return f"{_KEYWORDS.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _SPECIAL else char for char in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    if len(value) > 1 and value.endswith(" "):
        text = f"{text[:-1]}\\ "
    return text
