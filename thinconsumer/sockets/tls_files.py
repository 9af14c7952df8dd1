"""Read certificates and private keys for TLS: PEM files, PEM text and PKCS12 stores.

Python's ``ssl`` takes private keys only from files. Keys of PEM text and of PKCS12 stores therefore go through a file
in memory where the system has one (Linux), else through a private temporary file that is removed once the key is
loaded. No error text contains a password or a part of a key.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from ..config.security import SecurityOptions
from ..config.security_kinds import JAVA_MAGIC, KEYTOOL
from ..errors import KafkaConfigurationError
from ..support.files import read_file
from ..support.imports import import_uninterrupted
from ..support.lazy_dataclass import dataclass

#: Maximum size of a file; a bundle of all public certificate authorities takes a quarter of a megabyte.
FILE_BYTES_MAX = 16 * 1024 * 1024
_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"
_DER_SEQUENCE = b"\x30"


@dataclass(frozen=True, slots=True)
class PemBlock:
    label: bytes
    text: bytes  #: Including the BEGIN and the END line.

    @property
    def is_certificate(self) -> bool:
        return self.label in (b"CERTIFICATE", b"X509 CERTIFICATE")

    @property
    def is_private_key(self) -> bool:
        return self.label.endswith(b"PRIVATE KEY")


@dataclass(frozen=True, slots=True, repr=False)
class OwnCertificate:
    """The client's certificate with those of intermediate authorities, and the private key.

    Either ``certfile`` (and ``keyfile``, unless the key is in the same file) is set, or ``pem``.
    """

    option: str  #: The options that the certificate and the key come from, for error texts.
    password: str | None = None
    certfile: str = ""
    keyfile: str | None = None
    pem: bytes = b""


def _read(options: SecurityOptions, option: str) -> tuple[bytes, str]:
    """Return the content of the file that an option names, and the words for the file in errors.

    Raises:
        KafkaConfigurationError: the file cannot be read, is too large, or is a key store of Java.
    """
    path = getattr(options, option)
    where = f"{option}: {path}"
    data = read_file(path, where, FILE_BYTES_MAX)
    if data[:4] in JAVA_MAGIC:
        raise KafkaConfigurationError(f"{where}: this format is Java's own (JKS); {KEYTOOL}")
    return data, where


def pem_blocks(data: bytes, where: str) -> list[PemBlock]:
    """Return the PEM blocks in ``data``; text between them is ignored. ``where`` are the words for ``data`` in errors.

    Raises:
        KafkaConfigurationError: a block has no end, because the file is being written, for example.
    """
    blocks = []
    end = 0
    while (start := data.find(_BEGIN, end)) >= 0:
        label_end = data.find(_DASHES, start + len(_BEGIN))
        label = data[start + len(_BEGIN) : max(label_end, 0)]
        last_line = _END + label + _DASHES
        last = data.find(last_line, label_end) if label_end >= 0 else -1
        if last < 0:
            raise KafkaConfigurationError(f"{where}: a PEM block has no end: is the text complete?")
        end = last + len(last_line)
        blocks.append(PemBlock(label, data[start:end] + b"\n"))
    return blocks


def _read_store(options: SecurityOptions, store: str) -> tuple[bytes, str, bool]:
    """Return the content of a store, the words for it in errors, and whether it is PKCS12 instead of PEM.

    Raises:
        KafkaConfigurationError: as :func:`_read`, or the store is neither PKCS12 nor PEM, or not of the type that the
            options say. OpenSSL would report a wrong type as a missing first line or as a wrong password.
    """
    data, where = _read(options, f"{store}_location")
    found = "PEM" if _BEGIN in data else "PKCS12" if data[:1] == _DER_SEQUENCE else ""
    if not found:
        raise KafkaConfigurationError(f"{where}: neither PEM nor PKCS12")
    declared = getattr(options, f"{store}_type")
    if declared not in (None, "", found):
        raise KafkaConfigurationError(f"{where}: the content is {found}, but {store}_type is {declared}")
    return data, where, found == "PKCS12"


def trusted_certificates(options: SecurityOptions) -> str:
    """Return the certificates that ``options`` name as trusted, as PEM text; empty if they name none.

    Raises:
        KafkaConfigurationError: a file or text cannot be used: it cannot be read, has no certificate, or its password
            is wrong, for example.
    """
    found = b""
    if options.ssl_cafile:
        found += _certificates(*_read(options, "ssl_cafile"))
    if options.ssl_truststore_location:
        data, where, is_pkcs12 = _read_store(options, "ssl_truststore")
        if is_pkcs12:
            found += _pkcs12_certificates(data, options.ssl_truststore_password, where)
        else:
            found += _certificates(data, where)
    if options.ssl_truststore_certificates:
        found += _certificates(options.ssl_truststore_certificates.encode(), "ssl_truststore_certificates")
    return found.decode("ascii", "replace")


def _certificates(data: bytes, where: str) -> bytes:
    """Return the certificates in PEM text; raise KafkaConfigurationError if there are none."""
    texts = [block.text for block in pem_blocks(data, where) if block.is_certificate]
    if not texts:
        raise KafkaConfigurationError(f"{where}: no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
    return b"".join(texts)


def revocation_lists(options: SecurityOptions) -> bytes:
    """Return the certificate revocation lists of ``ssl_crlfile`` as PEM text.

    Certificates in the same file are left out, since OpenSSL would trust them.
    """
    data, where = _read(options, "ssl_crlfile")
    lists = b"".join(block.text for block in pem_blocks(data, where) if block.label == b"X509 CRL")
    if not lists:
        raise KafkaConfigurationError(f"{where}: no revocation list in PEM form (-----BEGIN X509 CRL-----)")
    return lists


def own_certificate(options: SecurityOptions) -> OwnCertificate | None:
    """Return the client's certificate and key that ``options`` name, or None if they name none.

    Raises:
        KafkaConfigurationError: an option is missing, or a file or text cannot be used: it cannot be read, has no key,
            or the password of a PKCS12 store is wrong, for example.
    """
    password = options.ssl_key_password or options.ssl_password
    key, chain = options.ssl_keystore_key, options.ssl_keystore_certificate_chain
    if key or chain:
        if not key or not chain:
            raise KafkaConfigurationError("ssl_keystore_key and ssl_keystore_certificate_chain are needed together")
        pem = _certificates(chain.encode(), "ssl_keystore_certificate_chain")
        pem += _private_key(key.encode(), "ssl_keystore_key")
        return OwnCertificate("ssl_keystore_key and ssl_keystore_certificate_chain", password, pem=pem)
    if options.ssl_keystore_location:
        data, where, is_pkcs12 = _read_store(options, "ssl_keystore")
        if is_pkcs12:
            pem = _pkcs12_key(data, options.ssl_keystore_password or password, where)
            return OwnCertificate("ssl_keystore_location", pem=pem)
        _certificates(data, where)
        _private_key(data, where)
        password = password or options.ssl_keystore_password
        return OwnCertificate("ssl_keystore_location", password, certfile=options.ssl_keystore_location)
    if options.ssl_certfile:
        _certificates(*_read(options, "ssl_certfile"))
        _private_key(*_read(options, "ssl_keyfile" if options.ssl_keyfile else "ssl_certfile"))
        option = "ssl_certfile and ssl_keyfile" if options.ssl_keyfile else "ssl_certfile"
        return OwnCertificate(option, password, certfile=options.ssl_certfile, keyfile=options.ssl_keyfile)
    if options.ssl_keyfile:
        raise KafkaConfigurationError("ssl_keyfile is set, but not ssl_certfile: both are needed")
    return None


def _private_key(data: bytes, where: str) -> bytes:
    """Return the first private key in PEM text; raise KafkaConfigurationError if there is none."""
    for block in pem_blocks(data, where):
        if block.is_private_key:
            return block.text
    raise KafkaConfigurationError(f"{where}: no private key in PEM form (-----BEGIN PRIVATE KEY-----)")


def _open_pkcs12(data: bytes, password: str | None, where: str, password_option: str) -> Any:
    """Return the ``PKCS12KeyAndCertificates`` in ``data``; ``where`` and ``password_option`` are for error texts."""
    try:
        import_uninterrupted("cryptography.hazmat.primitives.serialization.pkcs12")
    except ImportError:
        raise KafkaConfigurationError(
            f"{where}: PKCS12 needs the package cryptography (pip install thinconsumer[pkcs12]); or convert the store "
            "to PEM: openssl pkcs12 -in STORE.p12 -out STORE.pem"
        ) from None
    pkcs12 = import_module("cryptography.hazmat.primitives.serialization.pkcs12")
    unsupported = import_module("cryptography.exceptions").UnsupportedAlgorithm
    # Without a password option, a store may have no password or an empty one, which PKCS12 tells apart.
    passwords: Sequence[bytes | None] = (None, b"") if password is None else (password.encode(),)
    for attempt in passwords:
        # cryptography warns of stores that are BER, not DER, and of old encryptions: nothing that a client can change.
        with suppress(ValueError, TypeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return pkcs12.load_pkcs12(data, attempt)
            except unsupported as error:
                raise KafkaConfigurationError(f"{where}: an encryption that is not supported: {error}") from None
    advice = f"set {password_option}" if password is None else f"{password_option} is wrong"
    raise KafkaConfigurationError(f"{where}: the PKCS12 store cannot be opened: {advice}, or the file is damaged")


def _pkcs12_certificates(data: bytes, password: str | None, where: str) -> bytes:
    store = _open_pkcs12(data, password, where, "ssl_truststore_password")
    entries = ([store.cert] if store.cert is not None else []) + store.additional_certs
    if not entries:
        raise KafkaConfigurationError(f"{where}: no certificate in this store")
    return b"".join(_as_pem(entry.certificate) for entry in entries)


def _pkcs12_key(data: bytes, password: str | None, where: str) -> bytes:
    store = _open_pkcs12(data, password, where, "ssl_keystore_password")
    if store.key is None or store.cert is None:
        raise KafkaConfigurationError(f"{where}: no private key with a certificate in this store")
    serialization = import_module("cryptography.hazmat.primitives.serialization")
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    chain = [store.cert.certificate]
    others = [entry.certificate for entry in store.additional_certs]
    # TLS 1.2 requires each certificate to be followed by its issuer's. Stores have certificates in any order, and some
    # that are not in this chain.
    while issuers := [other for other in others if other.subject == chain[-1].issuer and other not in chain]:
        chain.append(issuers[0])
    key: bytes = store.key.private_bytes(encoding, form, serialization.NoEncryption())
    return b"".join(map(_as_pem, chain)) + key


def _as_pem(certificate: Any) -> bytes:
    result: bytes = certificate.public_bytes(import_module("cryptography.hazmat.primitives.serialization").Encoding.PEM)
    return result


@contextmanager
def pem_file(pem: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, which only this user can read, and which is removed afterwards.

    Raises:
        KafkaConfigurationError: the file cannot be made or removed.
    """
    fd = _memory_file()
    if fd is None:
        with _temporary_file(pem) as path:
            yield path
        return
    with open(fd, "wb") as file:
        file.write(pem)
        file.flush()
        yield f"/proc/self/fd/{fd}"


def _memory_file() -> int | None:
    """Return the descriptor of a file in memory that can be opened by its path; None if the system has none."""
    try:
        fd = os.memfd_create("pem")
    except (AttributeError, OSError):
        return None  # another system than Linux, or a sandbox forbids the call
    if os.access(f"/proc/self/fd/{fd}", os.R_OK):
        return fd
    os.close(fd)  # /proc is not mounted
    return None


@contextmanager
def _temporary_file(pem: bytes) -> Iterator[str]:
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="thinconsumer-")  # mode 0700
        path = os.path.join(folder, "pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
    except OSError as error:
        if folder:
            _remove(folder)
        raise KafkaConfigurationError(f"no temporary file for a private key: {error.strerror}") from None
    try:
        yield path
    finally:
        _remove(folder)


def _remove(folder: str) -> None:
    try:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "pem"))
        os.rmdir(folder)
    except OSError as error:
        raise KafkaConfigurationError(
            f"remove {folder}: it may have a private key, and removing it failed: {error.strerror}"
        ) from None
