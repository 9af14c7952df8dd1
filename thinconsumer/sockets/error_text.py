"""Turn ``OSError`` of sockets and TLS into ``KafkaConnectionError`` with a text that says what to check.

In texts about TLS, "the peer" is a broker or the token endpoint of an OAUTHBEARER login. This module does not import
``ssl``, so that a program without TLS does not load OpenSSL, which takes 10 ms.
"""

import errno
import re
import sys

from ..driver import Address
from ..errors import KafkaConnectionError

_SSL_ERROR_EOF = 8  # the value of ssl.SSL_ERROR_EOF

_OWN = "see ssl_certfile or ssl_keystore_location"
_NOT_TLS = "the port does not use TLS (set security_protocol='PLAINTEXT', or use the port of an SSL listener)"
PERHAPS_CERTIFICATE_REJECTED = f"perhaps it requires a client certificate, or rejects the one it received ({_OWN})"
CLOSED = "the peer has closed the connection"
_NO_VERSION = "client and broker share no TLS version (see ssl_enabled_protocols and ssl_protocol)"
_NO_CIPHER = "client and broker share no cipher suite (see ssl_ciphers and ssl_cipher_suites)"
_WEAK = "OpenSSL's security level here forbids the peer's key or signature: the peer needs a stronger certificate"

#: By OpenSSL's reason for a failure that another handshake would repeat: the error's text. The reasons are without the
#: prefixes SSLV3_, TLSV1_, TLSV13_ and TLS_, which differ between versions of OpenSSL.
_REJECTED = {
    # If one of these first five comes after the handshake, bytes were damaged, and another handshake may succeed.
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "UNKNOWN_PROTOCOL": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "NO_PROTOCOLS_AVAILABLE": _NO_VERSION,
    "ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "NO_CIPHERS_AVAILABLE": _NO_CIPHER,
    "NO_SHARED_CIPHER": _NO_CIPHER,
    "ALERT_INSUFFICIENT_SECURITY": _NO_CIPHER,
    "DH_KEY_TOO_SMALL": _WEAK,
    "EE_KEY_TOO_SMALL": _WEAK,
    "CA_MD_TOO_WEAK": _WEAK,
    "WRONG_SIGNATURE_TYPE": _WEAK,
    "ALERT_CERTIFICATE_REQUIRED": f"the peer requires a client certificate ({_OWN})",
    # Java's TLS sends this alert when the client has no certificate.
    "ALERT_BAD_CERTIFICATE": f"the peer requires a client certificate, or rejects the one it received ({_OWN})",
    "ALERT_UNKNOWN_CA": f"the peer does not trust the issuer of the client certificate ({_OWN})",
    "ALERT_CERTIFICATE_UNKNOWN": f"the peer rejects the client certificate ({_OWN})",
    "ALERT_UNSUPPORTED_CERTIFICATE": f"the peer does not support the client certificate ({_OWN})",
    "ALERT_CERTIFICATE_EXPIRED": f"the peer reports that the client certificate has expired ({_OWN})",
    "ALERT_CERTIFICATE_REVOKED": f"the peer reports that the client certificate is revoked ({_OWN})",
    "ALERT_ACCESS_DENIED": f"the peer denies access to the client certificate ({_OWN})",
    "ALERT_HANDSHAKE_FAILURE": "the peer rejects the TLS handshake: no common cipher suite (see ssl_ciphers and "
    f"ssl_cipher_suites), or a missing client certificate ({_OWN})",
    "ALERT_UNRECOGNIZED_NAME": "the peer has no certificate for this host name (see bootstrap_servers)",
}  # fmt: skip

_AUTHORITY = (
    "set ssl_cafile or ssl_truststore_location to the certificate of the authority that signed the peer's; "
    "without these options, only the system's authorities are trusted"
)
_OTHER_NAME = (
    "connect to a name that the certificate has, or issue one for this name; check bootstrap_servers and the broker's "
    "advertised.listeners"
)

#: The remedy for a rejected certificate, by OpenSSL's X509_V_ERR_ numbers.
_CERTIFICATE_ADVICE = {
    2: _AUTHORITY,  # UNABLE_TO_GET_ISSUER_CERT
    3: "ssl_crlfile has no revocation list of the authority that signed it",  # UNABLE_TO_GET_CRL
    9: "check the clocks of this machine and the peer",  # CERT_NOT_YET_VALID
    10: "the peer needs a new certificate; check this machine's clock, too",  # CERT_HAS_EXPIRED
    12: "put a current revocation list into ssl_crlfile",  # CRL_HAS_EXPIRED
    18: "set ssl_cafile or ssl_truststore_location to this certificate",  # DEPTH_ZERO_SELF_SIGNED_CERT
    19: _AUTHORITY,  # SELF_SIGNED_CERT_IN_CHAIN
    20: _AUTHORITY,  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: _AUTHORITY,  # UNABLE_TO_VERIFY_LEAF_SIGNATURE
    23: "it is in the revocation list of ssl_crlfile",  # CERT_REVOKED
    26: "it was not issued for servers (extended key usage)",  # INVALID_PURPOSE
    62: _OTHER_NAME,  # HOSTNAME_MISMATCH
    64: _OTHER_NAME,  # IP_ADDRESS_MISMATCH
    66: _WEAK,  # EE_KEY_TOO_SMALL
    67: _WEAK,  # CA_KEY_TOO_SMALL
    68: _WEAK,  # CA_MD_TOO_WEAK
}


def _reason(error: BaseException) -> str:
    """Return OpenSSL's reason without the prefix of a protocol version; empty if there is none."""
    return re.sub(r"^(SSLV3_|TLSV13?_|TLS_)+", "", str(getattr(error, "reason", None) or ""))


def _describe_tls(error: BaseException) -> str:
    reason = _reason(error)
    if reason == "CERTIFICATE_VERIFY_FAILED":
        detail = str(getattr(error, "verify_message", "")).rstrip(".")
        advice = _CERTIFICATE_ADVICE.get(getattr(error, "verify_code", 0), "")
        return "certificate verify failed" + (f": {detail}" if detail else "") + (f" ({advice})" if advice else "")
    number = getattr(error, "errno", None)
    if number == _SSL_ERROR_EOF or reason == "UNEXPECTED_EOF_WHILE_READING":
        return CLOSED
    if reason:
        return _REJECTED.get(reason, "TLS error: " + reason.lower().replace("_", " "))
    return f"TLS error: {getattr(error, 'strerror', None) or error}"


def is_certificate_rejected(error: BaseException, *, shaken: bool) -> bool:
    """Return whether another handshake would fail in the same way, also for other reasons than a certificate.

    ``shaken``: the handshake was complete before the error. A connection that was closed during the handshake does not
    count: a broker that restarts closes its connections, too.
    """
    reason = _reason(error)
    if _REJECTED.get(reason) == _NOT_TLS:
        return not shaken
    return reason == "CERTIFICATE_VERIFY_FAILED" or reason in _REJECTED


#: By error number: the text. The table is declared with the numbers' names, since not every system has all of them.
_SYSTEM_TEXTS = {
    getattr(errno, name): text
    for name, text in {
        "ECONNREFUSED": "connection refused (nothing listens there)",
        "ECONNRESET": "connection reset by the peer",
        "ECONNABORTED": "connection aborted",
        "EPIPE": CLOSED,
        "ENOTCONN": CLOSED,
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

#: The stages of a connection. An error's text ends with the stage in which the error happened.
CONNECTING = "while connecting"
TUNNELLING = "during the handshake with the proxy"
HANDSHAKING = "during the TLS handshake"
CONNECTED = "while connected"


def is_tls_error(error: BaseException) -> bool:
    """Return whether OpenSSL raised this error."""
    ssl = sys.modules.get("ssl")
    return isinstance(error, OSError) and ssl is not None and isinstance(error, ssl.SSLError)


def describe(error: BaseException) -> str:
    """Return a text for an error, without the number of ``errno``."""
    if is_tls_error(error):
        return _describe_tls(error)
    number = error.errno if isinstance(error, OSError) else None
    if number in _SYSTEM_TEXTS:
        return _SYSTEM_TEXTS[number]
    # An error raised by this package or by a user's transport has a text but no number.
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def connection_error(host: str, address: Address, stage: str, error: BaseException) -> KafkaConnectionError:
    """Return a KafkaConnectionError with the host, the address, the error's text and the stage of the connection."""
    text = describe(error)
    is_cut = stage == HANDSHAKING and text in (_SYSTEM_TEXTS[errno.ECONNRESET], CLOSED)
    if is_cut:
        # The likely cause is a PLAINTEXT listener, which reads the ClientHello as a request of 369 MB and closes.
        text += f": perhaps {_NOT_TLS}"
    port = address.sockaddr[1]
    rejected = is_tls_error(error) and is_certificate_rejected(error, shaken=stage == CONNECTED)
    if stage == CONNECTING and address.via is not None:
        stage += " to the proxy"
    message = f"{address.where(host)}: {text}, {stage}"
    result = KafkaConnectionError(
        message, host=host, port=port, is_certificate_rejected=rejected, is_handshake_cut=is_cut
    )
    result.__cause__ = error
    return result
