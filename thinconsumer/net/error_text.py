"""Turn ``OSError`` of sockets and TLS into ``KafkaConnectionError`` with a text that says what to check.

This module does not import ``ssl``, so that a program without TLS does not load OpenSSL. If there is a TLS error,
``ssl`` is already loaded.
"""

import errno
import sys

from ..driver import Address
from ..errors import KafkaConnectionError

#: By error number: the text. The table is declared with the numbers' names, since not every system has all of them.
_SYSTEM_TEXTS = {
    getattr(errno, name): text
    for name, text in {
        "ECONNREFUSED": "connection refused (nothing listens there)",
        "ECONNRESET": "connection reset by the peer",
        "ECONNABORTED": "connection aborted",
        "EPIPE": "the peer has closed the connection",
        "ENOTCONN": "the peer has closed the connection",
        "ETIMEDOUT": "connection timed out",
        "EHOSTUNREACH": "host unreachable",
        "EHOSTDOWN": "host down",
        "ENETUNREACH": "network unreachable",
        "ENETDOWN": "network down",
        "EADDRNOTAVAIL": "no local address or port left to connect from",
        "EAFNOSUPPORT": "this machine does not support this kind of address",
        "EACCES": "not permitted on this machine (a firewall?)",
        "EPERM": "not permitted on this machine (a firewall?)",
        "EMFILE": "this process has too many files open (see ulimit -n)",
        "ENFILE": "this machine has too many files open",
        "ENOBUFS": "the system has no memory left for sockets",
        "ENOMEM": "the system has no memory left for sockets",
    }.items()
    if hasattr(errno, name)
}

_NOT_TLS = "the port does not use TLS (set security_protocol='PLAINTEXT', or use the port of an SSL listener)"
_NO_VERSION = "client and broker share no TLS version"
_WANTS_CERTIFICATE = "the peer requires a client certificate"

#: The error's text for each of OpenSSL's reasons. The reasons are without the prefixes SSLV3_, TLSV1_, TLSV13_ and
#: TLS_, which differ between versions of OpenSSL.
_TLS_TEXTS = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "UNKNOWN_PROTOCOL": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "ALERT_CERTIFICATE_REQUIRED": _WANTS_CERTIFICATE,
    "ALERT_BAD_CERTIFICATE": "the peer rejects the client certificate, or requires one",
    "ALERT_UNKNOWN_CA": "the peer does not trust the issuer of the client certificate",
    "ALERT_CERTIFICATE_UNKNOWN": "the peer rejects the client certificate",
    "ALERT_CERTIFICATE_EXPIRED": "the peer reports that the client certificate has expired",
    "ALERT_CERTIFICATE_REVOKED": "the peer reports that the client certificate is revoked",
    "ALERT_HANDSHAKE_FAILURE": "the peer rejects the TLS handshake (no common cipher, or a missing client certificate)",
    "UNEXPECTED_EOF_WHILE_READING": "the peer has closed the connection",
}
_SSL_ERROR_EOF = 8  # the value of ssl.SSL_ERROR_EOF

#: The stage of a connection in which an error happened; appended to the error's text.
CONNECTING = "while connecting"
HANDSHAKING = "during the TLS handshake"
CONNECTED = "while connected"

#: The texts for a connection that the peer has closed. During a TLS handshake the likely cause is a PLAINTEXT listener,
#: which reads the ClientHello as a request of 369 MB and closes the connection.
_CLOSED_TEXTS = {
    _SYSTEM_TEXTS[errno.ECONNRESET],
    _SYSTEM_TEXTS[errno.EPIPE],
    _TLS_TEXTS["UNEXPECTED_EOF_WHILE_READING"],
}


def describe(error: BaseException) -> str:
    """Return a text for an error, without its error number."""
    ssl = sys.modules.get("ssl")
    if isinstance(error, OSError) and ssl is not None and isinstance(error, ssl.SSLError):
        return _describe_tls(error)
    number = error.errno if isinstance(error, OSError) else None
    if number in _SYSTEM_TEXTS:
        return _SYSTEM_TEXTS[number]
    # An error raised by this package or by a user's transport has a text but no number.
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _describe_tls(error: OSError) -> str:
    reason = str(getattr(error, "reason", None) or "")
    if reason == "CERTIFICATE_VERIFY_FAILED":
        detail = getattr(error, "verify_message", "")
        return "certificate verify failed" + (f": {detail}" if detail else "")
    for prefix in ("SSLV3_", "TLSV13_", "TLSV1_", "TLS_"):
        reason = reason.removeprefix(prefix)
    if error.errno == _SSL_ERROR_EOF:
        reason = "UNEXPECTED_EOF_WHILE_READING"
    if reason:
        return _TLS_TEXTS.get(reason, "TLS error: " + reason.lower().replace("_", " "))
    return f"TLS error: {error.strerror or error}"


def connection_error(host: str, address: Address, stage: str, error: BaseException) -> KafkaConnectionError:
    """Return a KafkaConnectionError with the host, the address, the error's text and the stage of the connection."""
    text = describe(error)
    if stage == HANDSHAKING and text in _CLOSED_TEXTS:
        text += f": {_NOT_TLS}"
    port = address.sockaddr[1]
    numeric = str(address)
    where = numeric if host in ("", address.sockaddr[0]) else f"{host}:{port} ({numeric})"
    result = KafkaConnectionError(f"{where}: {text}, {stage}", host=host, port=port)
    result.__cause__ = error
    return result
