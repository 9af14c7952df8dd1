"""Turn ``OSError`` of sockets and TLS into ``KafkaConnectionError`` with a text that says what to check.

This module does not import ``ssl``, so that a program without TLS does not load OpenSSL, which takes 10 ms. If there is
a TLS error, ``ssl`` is already loaded.
"""

import errno
import sys

from ..driver import Address
from ..errors import KafkaConnectionError
from . import tls_error_text

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

#: The stage of a connection in which an error happened; appended to the error's text.
CONNECTING = "while connecting"
HANDSHAKING = "during the TLS handshake"
CONNECTED = "while connected"

#: The texts for a connection that the peer has closed. During a TLS handshake the likely cause is a PLAINTEXT listener,
#: which reads the ClientHello as a request of 369 MB and closes the connection.
_CLOSED_TEXTS = {_SYSTEM_TEXTS[errno.ECONNRESET], _SYSTEM_TEXTS[errno.EPIPE]}


def is_tls_error(error: BaseException) -> bool:
    """Return whether OpenSSL raised this error."""
    ssl = sys.modules.get("ssl")
    return isinstance(error, OSError) and ssl is not None and isinstance(error, ssl.SSLError)


def describe(error: BaseException) -> str:
    """Return a text for an error, without its error number."""
    if is_tls_error(error):
        return tls_error_text.describe(error)
    number = error.errno if isinstance(error, OSError) else None
    if number in _SYSTEM_TEXTS:
        return _SYSTEM_TEXTS[number]
    # An error raised by this package or by a user's transport has a text but no number.
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def connection_error(host: str, address: Address, stage: str, error: BaseException) -> KafkaConnectionError:
    """Return a KafkaConnectionError with the host, the address, the error's text and the stage of the connection."""
    text = describe(error)
    is_cut = stage == HANDSHAKING and (text in _CLOSED_TEXTS or text == tls_error_text.CLOSED)
    if is_cut:
        text += f": {tls_error_text.PERHAPS_NOT_TLS}"
    port = address.sockaddr[1]
    numeric = str(address)
    where = numeric if host in ("", address.sockaddr[0]) else f"{host}:{port} ({numeric})"
    rejected = is_tls_error(error) and tls_error_text.is_certificate_rejected(error, shaken=stage == CONNECTED)
    message = f"{where}: {text}, {stage}"
    result = KafkaConnectionError(
        message, host=host, port=port, is_certificate_rejected=rejected, is_handshake_cut=is_cut
    )
    result.__cause__ = error
    return result
