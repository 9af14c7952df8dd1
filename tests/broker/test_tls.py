"""Contexts from PEM files and PEM text, and errors that name the setting."""

import ssl

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer_testing.broker.security import ListenerSecurity
from thinconsumer_testing.broker.tls_channel import server_context

trustme = pytest.importorskip("trustme")


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(ca):
    return ca.issue_cert("127.0.0.1")


@pytest.fixture
def pem(certificate, tmp_path):
    """A PEM file with the key and the certificate."""
    path = tmp_path / "server.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def test_file_and_text(ca, certificate, pem):
    context = server_context(ListenerSecurity("SSL", ssl_keystore_location=str(pem)))
    assert context.verify_mode == ssl.CERT_NONE
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    authority = ca.cert_pem.bytes().decode()
    security = ListenerSecurity(
        "SSL",
        ssl_keystore_key=certificate.private_key_pem.bytes().decode(),
        ssl_keystore_certificate_chain=certificate.cert_chain_pems[0].bytes().decode(),
        ssl_client_auth="required",
        ssl_truststore_certificates=authority,
        ssl_enabled_protocols="TLSv1.3",
    )
    context = server_context(security)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert len(context.get_ca_certs()) == 1


def test_encrypted_key(pem):
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    data = pem.read_bytes()
    key = serialization.load_pem_private_key(data, None)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(*form, serialization.BestAvailableEncryption(b"canary"))
    pem.write_bytes(encrypted + data[data.index(b"-----BEGIN CERT") :])
    server_context(ListenerSecurity("SSL", ssl_keystore_location=str(pem), ssl_key_password="canary"))
    for wrong in ("", "canary2"):
        with pytest.raises(IllegalArgumentError, match="ssl_keystore_location") as caught:
            server_context(ListenerSecurity("SSL", ssl_keystore_location=str(pem), ssl_key_password=wrong))
        assert "canary2" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"ssl_keystore_location": "/nonexistent.pem"},
            "ssl_keystore_location=/nonexistent.pem cannot be read: No such",
        ),
        ({"ssl_keystore_location": __file__}, "no usable key"),
        (
            {"ssl_keystore_key": "-----BEGIN X", "ssl_keystore_certificate_chain": "-----BEGIN X"},
            "ssl_keystore_key or its certificate chain has no usable key",
        ),
    ],
)
def test_invalid_files(settings, words):
    with pytest.raises(IllegalArgumentError, match=words):
        server_context(ListenerSecurity("SSL", **settings))


def test_invalid_authorities(pem):
    own = {"ssl_keystore_location": str(pem), "ssl_client_auth": "required"}
    with pytest.raises(IllegalArgumentError, match="ssl_truststore_location=/nonexistent.pem cannot be read"):
        server_context(ListenerSecurity("SSL", ssl_truststore_location="/nonexistent.pem", **own))
    with pytest.raises(IllegalArgumentError, match="ssl_truststore_certificates has no usable"):
        server_context(ListenerSecurity("SSL", ssl_truststore_certificates="-----BEGIN CERTIFICATE-----", **own))
