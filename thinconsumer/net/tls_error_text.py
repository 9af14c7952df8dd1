"""The meaning of OpenSSL's errors for a Kafka client: which option to look at, and whether a retry can help.

"The peer" is a broker or the token endpoint of an OAUTHBEARER login. This module does not import ``ssl``, see
:mod:`.error_text`.
"""

_SSL_ERROR_EOF = 8  # the value of ssl.SSL_ERROR_EOF

_OWN = "see ssl_certfile or ssl_keystore_location"
_NOT_TLS = "the port does not use TLS (set security_protocol='PLAINTEXT', or use the port of an SSL listener)"
PERHAPS_NOT_TLS = (
    "perhaps the port does not use TLS (set security_protocol='PLAINTEXT', or use the port of an SSL listener)"
)
PERHAPS_CERTIFICATE_REJECTED = f"perhaps it requires a client certificate, or rejects the one it received ({_OWN})"
CLOSED = "the peer has closed the connection"
_NO_VERSION = "client and broker share no TLS version (see ssl_enabled_protocols and ssl_protocol)"
_NO_CIPHER = "client and broker share no cipher suite (see ssl_ciphers and ssl_cipher_suites)"
_WEAK = "OpenSSL's security level here forbids the peer's key or signature: the peer needs a stronger certificate"

#: Errors of a handshake with a port that does not use TLS. Later, they mean that bytes were damaged.
_NOT_TLS_REASONS = {
    "WRONG_VERSION_NUMBER",
    "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
}

#: The error's text for each of OpenSSL's reasons that a repeated handshake cannot change. The reasons are without the
#: prefixes SSLV3_, TLSV1_, TLSV13_ and TLS_, which differ between versions of OpenSSL.
_REJECTED = {
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
    reason = str(getattr(error, "reason", None) or "")
    for prefix in ("SSLV3_", "TLSV13_", "TLSV1_", "TLS_"):
        reason = reason.removeprefix(prefix)
    return reason


def describe(error: BaseException) -> str:
    """Return the text for an ``ssl.SSLError``."""
    reason = _reason(error)
    if reason == "CERTIFICATE_VERIFY_FAILED":
        detail = str(getattr(error, "verify_message", "")).rstrip(".")
        advice = _CERTIFICATE_ADVICE.get(getattr(error, "verify_code", 0), "")
        return "certificate verify failed" + (f": {detail}" if detail else "") + (f" ({advice})" if advice else "")
    number = getattr(error, "errno", None)
    if number == _SSL_ERROR_EOF or reason == "UNEXPECTED_EOF_WHILE_READING":
        return CLOSED
    if reason in _NOT_TLS_REASONS:
        return _NOT_TLS
    if reason:
        return _REJECTED.get(reason, "TLS error: " + reason.lower().replace("_", " "))
    return f"TLS error: {getattr(error, 'strerror', None) or error}"


def is_certificate_rejected(error: BaseException, *, shaken: bool) -> bool:
    """Return whether a repeated handshake fails in the same way; ``shaken``: the handshake was complete.

    A connection that is closed during the handshake does not count: a broker that restarts closes it, too.
    """
    reason = _reason(error)
    if reason in _NOT_TLS_REASONS:
        return not shaken
    return reason == "CERTIFICATE_VERIFY_FAILED" or reason in _REJECTED
