"""Certificates of one test authority, in the files that brokers and clients read.

Owns keys and certificates, made by trustme, and their formats: PEM with PKCS #8 keys, which Java reads, and PKCS #12.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trustme

STORE_PASSWORD = "store-secret"
KEY_PASSWORD = "key-secret"


@dataclass(frozen=True)
class Certificate:
    """Files of one key with its certificate chain.

    ``key_file`` is not encrypted. ``encrypted_key_file`` has ``KEY_PASSWORD``, ``pkcs12_file`` has ``STORE_PASSWORD``.
    ``keystore_file`` is the key and the chain in one PEM file.
    """

    cert_file: Path
    key_file: Path
    encrypted_key_file: Path
    keystore_file: Path
    pkcs12_file: Path


class Authority:
    """A certificate authority with the files of what it issued in ``folder``."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        import trustme

        self._folder = folder
        self._ca = trustme.CA(organization_name=name)
        self.ca_file = folder / f"{name}.pem"
        folder.mkdir(parents=True, exist_ok=True)
        self._ca.cert_pem.write_to_path(self.ca_file)

    def issue(self, name: str, *identities: str, expired: bool = False) -> Certificate:
        """Return a certificate with the common name ``name`` for these host names and addresses.

        An expired certificate was valid until yesterday.
        """
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        validity = {"not_before": now - 9 * day, "not_after": now - day} if expired else {}
        issued = self._ca.issue_cert(*identities, common_name=name, **validity)
        return _write(self._folder, name, issued)


def _write(folder: Path, name: str, issued: trustme.LeafCert) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    files = Certificate(
        folder / f"{name}-cert.pem",
        folder / f"{name}-key.pem",
        folder / f"{name}-encrypted-key.pem",
        folder / f"{name}-keystore.pem",
        folder / f"{name}.p12",
    )
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    chain = [pem.bytes() for pem in issued.cert_chain_pems]
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    plain = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    encrypted = key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(KEY_PASSWORD.encode()))
    first, *others = [x509.load_pem_x509_certificate(certificate) for certificate in chain]
    store = pkcs12.serialize_key_and_certificates(
        name.encode(),
        key,  # type: ignore[arg-type]
        first,
        others or None,
        serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
    )
    files.cert_file.write_bytes(b"".join(chain))
    files.key_file.write_bytes(plain)
    files.encrypted_key_file.write_bytes(encrypted)
    files.keystore_file.write_bytes(plain + b"".join(chain))
    files.pkcs12_file.write_bytes(store)
    return files
