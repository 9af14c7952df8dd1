"""Certificates for tests with TLS, made in memory by the package ``trustme``, which has to be installed.

::

    authority = CertificateAuthority()
    security = ListenerSecurity(security_protocol="SSL", **authority.broker_settings())
    with BrokerProcess(security=security) as broker:
        Consumer(bootstrap_servers=broker.bootstrap_servers, security_protocol="SSL", **authority.client_options())

Every authority has a key of its own, and its clients trust no other authority, so they reject the others' brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trustme


class CertificateAuthority:
    """Issues certificates to brokers and clients.

    Raises:
        ImportError: ``trustme`` is not installed.
    """

    def __init__(self) -> None:
        try:
            import trustme
        except ImportError as error:
            raise ImportError("certificates for tests need the package trustme: pip install trustme") from error
        self._ca = trustme.CA()
        self.certificate: str = self._ca.cert_pem.bytes().decode()  #: The authority's own certificate, as PEM text.

    def broker_settings(self, *hosts: str, client_auth: str = "none") -> dict[str, str]:
        """Return settings of ``ListenerSecurity``: a certificate for the hosts (default: localhost) and its key, the
        trusted authority, and ``client_auth``.

        ``client_auth`` is Kafka's ``ssl.client.auth``: none, requested or required.
        """
        issued = self._ca.issue_cert(*(hosts or ("localhost", "127.0.0.1", "::1")))
        return {
            "ssl_keystore_certificate_chain": _chain(issued),
            "ssl_keystore_key": issued.private_key_pem.bytes().decode(),
            "ssl_truststore_certificates": self.certificate,
            "ssl_client_auth": client_auth,
        }

    def client_options(self, name: str | None = None) -> dict[str, str]:
        """Return client options: trust in this authority and, with ``name``, a certificate with that common name."""
        options = {"ssl_truststore_certificates": self.certificate}
        if name is not None:
            issued = self._ca.issue_cert(f"{name}.example", common_name=name)
            options["ssl_keystore_certificate_chain"] = _chain(issued)
            options["ssl_keystore_key"] = issued.private_key_pem.bytes().decode()
        return options


def _chain(issued: trustme.LeafCert) -> str:
    return "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)
