"""Cipher suites by the names of IANA, Java and OpenSSL.

Python before 3.15 has no way to choose among the suites of TLS 1.3. All of them are offered if at least one is allowed.
"""

import re
import ssl

from ..errors import KafkaConfigurationError

_TLS_1_3 = re.compile(r"TLS_(AES|CHACHA20|SHA|SM4|AEGIS)_?[A-Z0-9_]*")
#: A TLS 1.2 suite by IANA's name: key exchange, cipher, and hash.
_IANA = re.compile(
    r"TLS_(?P<exchange>[A-Z_]+?)_WITH_(?P<cipher>AES|CAMELLIA|CHACHA20_POLY1305)_?(?P<bits>128|256)?"
    r"_?(?P<mode>CBC|GCM|CCM_8|CCM)?(_(?P<hash>SHA[0-9]*))?"
)


def is_tls_1_3(name: str) -> bool:
    """Return whether this is the name of a TLS 1.3 suite; OpenSSL and Java both use IANA's names for them."""
    return "_WITH_" not in name and _TLS_1_3.fullmatch(name) is not None


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 suite; names and keywords of OpenSSL are returned unchanged.

    Raises:
        KafkaConfigurationError: the suite has no counterpart here.
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
    parts.append(f"{cipher}{bits}")
    if mode in ("GCM", "CCM", "CCM_8"):
        parts.append(mode.replace("_", ""))
    if digest is not None:
        parts.append(digest)
    return "-".join(parts)


def _probe() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def set_suites(context: ssl.SSLContext, ciphers: str | None, suites: tuple[str, ...] | None) -> None:
    """Allow only these suites.

    ``ciphers`` is an OpenSSL cipher list for TLS 1.2; ``suites`` has names of both versions. If all names in ``suites``
    are of one version, the other version is switched off, as in Java.

    Raises:
        KafkaConfigurationError: a suite is unknown or not available, or no suite remains.
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
        _set(_probe(), openssl_name(name), f"ssl_cipher_suites: {name}")
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
