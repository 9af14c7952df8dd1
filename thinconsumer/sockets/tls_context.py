"""The ``ssl.SSLContext`` of a client's connections, made anew when one of its files has changed.

Options name cipher suites as IANA, Java or OpenSSL do. If an option allows one suite of TLS 1.3, all suites of TLS 1.3
are offered: Python before 3.15 cannot choose among them.
"""

import logging
import os
import re
import ssl
import time
from contextlib import nullcontext
from math import inf

from ..config.security import SecurityOptions
from ..errors import KafkaConfigurationError
from .tls_files import OwnCertificate, own_certificate, pem_file, revocation_lists, trusted_certificates

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
#: Seconds before changed files that could not be used are read again, unless they change once more. Without this pause,
#: each connection would read all files.
RETRY_S = 1.0

#: For each file: device, inode, size and time of change, which identify its content; None if ``stat`` fails.
_Stamp = tuple[tuple[int, ...] | None, ...]


class TlsContexts:
    """Provides the context for each new connection: to a broker, or, with ``for_https``, to a token endpoint.

    The constructor reads the files and raises ``KafkaConfigurationError`` for options that cannot be used. Afterwards,
    changed files are read again. If they cannot be used (a certificate was replaced, but its key not yet), the
    previous context stays in use, a warning is logged, and a later connection tries again.
    """

    def __init__(self, options: SecurityOptions, *, for_https: bool = False) -> None:
        self._make = _https_context if for_https else _broker_context
        self._options = options
        self._files = _files(options)
        self._stamp = self._stamps()
        try:
            self._context = self._make(options)
        except KafkaConfigurationError as error:
            # The frames of the traceback have keys and passwords as local variables, which some error reporters show.
            raise error.with_traceback(None) from None
        self._failed_stamp: _Stamp | None = None
        self._failed_at = -inf

    def _stamps(self) -> _Stamp:
        return tuple(map(_stamp, self._files))

    def current(self) -> ssl.SSLContext:
        """Return the context to use for a new connection."""
        stamp = self._stamps()  # before reading: a file that changes meanwhile is read again for the next connection
        if stamp == self._stamp or (stamp == self._failed_stamp and time.monotonic() < self._failed_at + RETRY_S):
            return self._context
        try:
            context = self._make(self._options)
        except KafkaConfigurationError as error:
            if stamp != self._failed_stamp:
                log.warning("changed certificate files cannot be used, the previous ones stay in use: %s", error)
            self._failed_stamp, self._failed_at = stamp, time.monotonic()
            return self._context
        log.info("certificate files have changed: new connections use them")
        self._context, self._stamp, self._failed_stamp = context, stamp, None
        return context


def _files(options: SecurityOptions) -> list[str]:
    if options.ssl_context is not None:
        return []
    trusted = [options.ssl_cafile, options.ssl_truststore_location]
    own = [options.ssl_crlfile, options.ssl_certfile, options.ssl_keyfile, options.ssl_keystore_location]
    system = ssl.get_default_verify_paths().cafile
    return list(filter(None, [*trusted, *own, system]))


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _new_context(options: SecurityOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # A trust store may have the certificate of a broker or of an intermediate authority, as in Java. By default,
    # OpenSSL trusts only chains that end with a self-signed certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.options |= ssl.OP_NO_RENEGOTIATION
    # ssl_enabled_protocols has no version below 1.2, so older ones are refused even if OpenSSL's configuration permits
    # them.
    newest = _VERSIONS.get(options.ssl_protocol, ssl.TLSVersion.TLSv1_3)
    versions = [_VERSIONS[name] for name in options.ssl_enabled_protocols if _VERSIONS[name] <= newest]
    if not versions:
        raise KafkaConfigurationError(
            f"ssl_protocol={options.ssl_protocol!r} excludes all of ssl_enabled_protocols: "
            f"{', '.join(options.ssl_enabled_protocols)}"
        )
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    return context


def _broker_context(options: SecurityOptions) -> ssl.SSLContext:
    if options.ssl_context is not None:
        given: ssl.SSLContext = options.ssl_context
        return given
    context = _new_context(options)
    context.check_hostname = options.ssl_check_hostname and options.ssl_endpoint_identification_algorithm == "https"
    set_suites(context, options.ssl_ciphers, options.ssl_cipher_suites)
    if not _trust(context, options):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if (own := own_certificate(options)) is not None:
        _load_own(context, own)
    return context


def _https_context(options: SecurityOptions) -> ssl.SSLContext:
    """Return the context for a token endpoint. The client's own certificate is not sent to the endpoint.

    The system's certificates are trusted, too, since the endpoint is often a public service. The endpoint's host name
    is always checked, because the endpoint gets the client secret.
    """
    context = _new_context(options)
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if options.ssl_context is None:
        _trust(context, options)
    else:
        for certificate in options.ssl_context.get_ca_certs(binary_form=True):
            context.load_verify_locations(cadata=certificate)
    return context


def _trust(context: ssl.SSLContext, options: SecurityOptions) -> bool:
    """Load the trusted certificates and the revocation lists of ``options``; return whether certificates are given."""
    certificates = trusted_certificates(options)
    if certificates:
        try:
            context.load_verify_locations(cadata=certificates)
        except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: characters outside ASCII
            raise KafkaConfigurationError(
                "ssl_cafile, ssl_truststore_location or ssl_truststore_certificates has a malformed certificate: "
                f"{_reason(error)}"
            ) from None
    if options.ssl_crlfile:
        try:
            with pem_file(revocation_lists(options)) as path:
                context.load_verify_locations(cafile=path)
        except ssl.SSLError as error:
            raise KafkaConfigurationError(f"ssl_crlfile: {options.ssl_crlfile}: {_reason(error)}") from None
        # Only the server's certificate is looked up, as in kafka-python: with VERIFY_CRL_CHECK_CHAIN, the file would
        # need a list of each authority of the chain.
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return bool(certificates)


def _load_own(context: ssl.SSLContext, own: OwnCertificate) -> None:
    was_asked = False

    def password() -> str:
        # Without this callback, OpenSSL asks for a missing password on the terminal, and the client hangs.
        nonlocal was_asked
        was_asked = True
        return own.password or ""

    with pem_file(own.pem) if own.pem else nullcontext(own.certfile) as certfile:
        try:
            context.load_cert_chain(certfile, own.keyfile, password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; ValueError: a password that is too long
            if was_asked:
                advice = "set ssl_key_password" if own.password is None else "ssl_key_password or ssl_password is wrong"
                text = f"the private key is encrypted: {advice}"
            elif getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                text = "the private key does not belong to the certificate (the first one must be the client's)"
            else:
                text = f"malformed certificate or private key: {_reason(error)}"
            raise KafkaConfigurationError(f"{own.option}: {text}") from None


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else type(error).__name__


_TLS_1_3 = re.compile(r"TLS_(AES|CHACHA20|SHA|SM4|AEGIS)_?[A-Z0-9_]*")
#: A TLS 1.2 suite by IANA's name: key exchange, cipher, and hash.
_IANA = re.compile(
    r"TLS_(?P<exchange>[A-Z_]+?)_WITH_(?P<cipher>AES|CAMELLIA|CHACHA20_POLY1305)_?(?P<bits>128|256)?"
    r"_?(?P<mode>CBC|GCM|CCM_8|CCM)?(_(?P<hash>SHA[0-9]*))?"
)


def is_tls_1_3(name: str) -> bool:
    """Return whether ``name`` is that of a TLS 1.3 suite. OpenSSL and Java both use IANA's names for these suites."""
    return "_WITH_" not in name and _TLS_1_3.fullmatch(name) is not None


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 suite; names and keywords of OpenSSL are returned unchanged.

    Raises:
        KafkaConfigurationError: the suite has no counterpart in OpenSSL.
    """
    if not name.startswith(("TLS_", "SSL_")):
        return name
    match = _IANA.fullmatch(name)
    if match is None:
        raise KafkaConfigurationError(
            f"cipher suite {name} has no counterpart in OpenSSL: remove it, or use a name that `openssl ciphers` prints"
        )
    exchange, cipher, bits, mode, digest = match.group("exchange", "cipher", "bits", "mode", "hash")
    parts = [] if exchange == "RSA" else exchange.split("_")
    if cipher == "CHACHA20_POLY1305":
        return "-".join([*parts, "CHACHA20-POLY1305"])
    mode = "" if mode == "CBC" else (mode or "").replace("_", "")
    return "-".join(filter(None, [*parts, f"{cipher}{bits}", mode, digest]))


def set_suites(context: ssl.SSLContext, ciphers: str | None, suites: tuple[str, ...] | None) -> None:
    """Allow only the suites in ``ciphers`` or ``suites``, of which one is set at most; of TLS 1.3, all suites or none.

    ``ciphers`` is an OpenSSL cipher list for TLS 1.2; if it names only TLS 1.3 suites, TLS 1.2 is switched off.
    ``suites`` may name suites of both versions; if all are of one version, the other is switched off, as in Java.

    Raises:
        KafkaConfigurationError: no suite remains, or one of ``suites`` is unknown or not available, or one of
            ``ciphers`` has an IANA name without a counterpart in OpenSSL.
    """
    if ciphers:
        words = [word for word in re.split(r"[:, ]+", ciphers.strip()) if word and not is_tls_1_3(word)]
        if words:
            _set(context, ":".join(map(openssl_name, words)), "ssl_ciphers")
        else:
            _limit(context, ssl.TLSVersion.TLSv1_3)
    if not suites:
        return
    older = [name for name in suites if not is_tls_1_3(name)]
    for name in older:
        # OpenSSL ignores unknown names in a list with at least one known name, so each name is tried by itself.
        _set(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), openssl_name(name), f"ssl_cipher_suites: {name}")
    if older:
        _set(context, ":".join(map(openssl_name, older)), "ssl_cipher_suites")
    if len(older) == len(suites) and context.maximum_version != ssl.TLSVersion.TLSv1_2:
        _limit(context, ssl.TLSVersion.TLSv1_2)
    if not older:
        _limit(context, ssl.TLSVersion.TLSv1_3)


def _set(context: ssl.SSLContext, names: str, where: str) -> None:
    try:
        context.set_ciphers(names)
    except ssl.SSLError:
        raise KafkaConfigurationError(
            f"{where}: OpenSSL here has no such cipher suite, or its security level forbids it ({ssl.OPENSSL_VERSION})"
        ) from None


def _limit(context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    if not context.minimum_version <= version <= context.maximum_version:
        raise KafkaConfigurationError(
            "ssl_cipher_suites or ssl_ciphers: no suite of the TLS versions in ssl_enabled_protocols and ssl_protocol"
        )
    context.minimum_version = context.maximum_version = version
