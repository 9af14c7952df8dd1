"""The TLS settings of the embedded broker as an ``ssl.SSLContext``.

Owns the reading of certificates and keys. PEM text is written to a temporary file, which only the current user can
read, because Python's ``ssl`` loads keys from files only.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thinconsumer.errors import IllegalArgumentError

from .security import ListenerSecurity

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
