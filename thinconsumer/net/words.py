"""What went wrong on a socket, in words: the one place where ``OSError`` turns into ``KafkaConnectionError``.

Owns the two tables (the system's error numbers, OpenSSL's reasons). It does not import ``ssl``, so that a plain
connection never pays for loading OpenSSL: where there is a TLS error, somebody else has.
"""

from __future__ import annotations

import errno
import sys

from ..driver import Address
from ..errors import KafkaConnectionError

#: Not every system has every number, hence names.
_SYSTEM = {
    getattr(errno, name): words
    for name, words in {
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
        "EAFNOSUPPORT": "this machine does not speak this kind of address",
        "EACCES": "not permitted here (a firewall?)",
        "EPERM": "not permitted here (a firewall?)",
        "EMFILE": "this process has too many files open (see ulimit -n)",
        "ENFILE": "this machine has too many files open",
        "ENOBUFS": "the system has no memory left for sockets",
        "ENOMEM": "the system has no memory left for sockets",
    }.items()
    if hasattr(errno, name)
}

_NOT_TLS = "the peer does not speak TLS (is it a PLAINTEXT listener?)"
_NO_VERSION = "no TLS version is spoken by both sides"
_WANTS_CERTIFICATE = "the peer requires a client certificate"

#: OpenSSL's reasons, whose names differ between its versions: the prefixes SSLV3_, TLSV1_, TLSV13_ and TLS_ are cut.
_TLS = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "UNKNOWN_PROTOCOL": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "ALERT_CERTIFICATE_REQUIRED": _WANTS_CERTIFICATE,
    "ALERT_BAD_CERTIFICATE": "the peer refused our certificate, or requires one",
    "ALERT_UNKNOWN_CA": "the peer does not trust the issuer of our certificate",
    "ALERT_CERTIFICATE_UNKNOWN": "the peer refused our certificate",
    "ALERT_CERTIFICATE_EXPIRED": "our certificate has expired, says the peer",
    "ALERT_CERTIFICATE_REVOKED": "our certificate is revoked, says the peer",
    "ALERT_HANDSHAKE_FAILURE": "the peer refused the TLS handshake (no common cipher, or it requires a certificate)",
    "UNEXPECTED_EOF_WHILE_READING": "the peer has closed the connection",
}
_SSL_ERROR_EOF = 8  # ssl.SSL_ERROR_EOF

#: What a connection was doing.
CONNECTING = "while connecting"
HANDSHAKING = "during the handshake"
CONNECTED = "while connected"

#: A broker's PLAINTEXT listener takes a TLS greeting for a request of 369 MB, and hangs up without a word.
_CUT_SHORT = {_SYSTEM[errno.ECONNRESET], _SYSTEM[errno.EPIPE], _TLS["UNEXPECTED_EOF_WHILE_READING"]}


def describe(error: BaseException) -> str:
    """Return what went wrong in words for a human."""
    ssl = sys.modules.get("ssl")
    if isinstance(error, OSError) and ssl is not None and isinstance(error, ssl.SSLError):
        return _describe_tls(error)
    number = error.errno if isinstance(error, OSError) else None
    if number in _SYSTEM:
        return _SYSTEM[number]
    # Without a number it is an exception of ours or of a plugged-in transport, whose text is already words.
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
        return _TLS.get(reason, "TLS error: " + reason.lower().replace("_", " "))
    return f"TLS error: {error.strerror or error}"


def connection_error(host: str, address: Address, doing: str, error: BaseException) -> KafkaConnectionError:
    """Return the error of one connection: where (name and address), what, and while ``doing`` what."""
    words = describe(error)
    if doing == HANDSHAKING and words in _CUT_SHORT:
        words += " (is it a PLAINTEXT listener?)"
    port = address.sockaddr[1]
    numeric = str(address)
    where = numeric if host in ("", address.sockaddr[0]) else f"{host}:{port} ({numeric})"
    result = KafkaConnectionError(f"{where}: {words}, {doing}", host=host, port=port)
    result.__cause__ = error
    return result
