"""TLS connections: requests of any size, client certificates, failed handshakes, and closes."""

import socket
import ssl
import struct
import time
from functools import partial

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from thinconsumer.wire.header import encode_request
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from thinconsumer_testing.broker.security import ListenerSecurity
from thinconsumer_testing.broker.server import EmbeddedBroker
from thinconsumer_testing.broker.tls_channel import distinguished_name, server_context

trustme = pytest.importorskip("trustme")
PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(ca):
    return ca.issue_cert("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def settings(ca, certificate):
    return {
        "security_protocol": "SSL",
        "ssl_keystore_key": certificate.private_key_pem.bytes().decode(),
        "ssl_keystore_certificate_chain": certificate.cert_chain_pems[0].bytes().decode(),
        "ssl_truststore_certificates": ca.cert_pem.bytes().decode(),
    }


@pytest.fixture
def secured(embedded, settings):
    """``secured(**more)``: a broker with these settings in addition."""
    return lambda **more: embedded(topics={"t": 1}, security={**settings, **more})


@pytest.fixture
def broker(secured):
    return secured()


class TlsClient:
    """A client socket with TLS; the broker is stepped while it waits."""

    def __init__(self, broker, context, plain=False):
        self.broker = broker
        host, _, port = broker.bootstrap_servers.partition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setblocking(False)
        if not plain:
            self.socket = context.wrap_socket(
                self.socket, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
            self.wait_for(self.socket.do_handshake)

    def wait_for(self, call):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                return call()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                self.broker.step(0.002)
        raise TimeoutError

    def send(self, data):
        view = memoryview(data)
        while view:
            view = view[self.wait_for(partial(self.socket.send, view)) :]

    def receive(self, size=1 << 16):
        return self.wait_for(lambda: self.socket.recv(size))

    def ask(self, message, version):
        """Send a request, and return the size of the response."""
        data = encode_request(message, version, 7, "tester")
        self.send(len(data).to_bytes(4, "big") + data)
        return len(self.frame())

    def frame(self):
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            data = self.receive()
            assert data
            received += data
        assert received[4:8] == (7).to_bytes(4, "big")
        return received


@pytest.fixture
def connect(ca):
    clients = []

    def make(broker, certificate=None, version=None, plain=False):
        context = ssl.create_default_context()
        ca.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        if version is not None:
            context.maximum_version = context.minimum_version = version
        clients.append(TlsClient(broker, context, plain))
        return clients[-1]

    yield make
    for client in clients:
        client.socket.close()


def until_closed(broker):
    """Step the broker until it has no connection."""
    deadline = time.monotonic() + PATIENCE_S
    while broker._registry.channels:
        assert time.monotonic() < deadline
        broker.step(0.01)


METADATA = MetadataRequest(topics=[])
ALL = FetchPartition(partition=0, partition_max_bytes=50_000_000)
FETCH = FetchRequest(max_bytes=50_000_000, topics=[FetchTopic(topic="t", partitions=[ALL])])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_and_large_responses(broker, connect, version):
    for _ in range(3):
        broker.produce("t", [b"x" * 900_000])
    client = connect(broker, version=version)
    assert client.socket.version() == version.name.replace("_", ".")
    assert client.ask(METADATA, 9) > 20
    assert client.ask(FETCH, 12) > 2_700_000
    (connection,) = broker.cluster.nodes[1].connections
    assert connection.principal == "User:ANONYMOUS"


def test_many_requests_in_one_write(broker, connect):
    """Decrypted bytes that OpenSSL holds would otherwise wait for the client's next bytes."""
    client = connect(broker)
    data = encode_request(METADATA, 9, 7, "tester")
    client.send((len(data).to_bytes(4, "big") + data) * 3000)
    left = 3000 * (4 + int.from_bytes(client.receive(4), "big")) - 4
    while left:
        left -= len(client.receive(left))


def test_client_certificate_is_the_principal(secured, connect, ca):
    broker = secured(ssl_client_auth="required")
    client = connect(broker, ca.issue_cert("alice@example.org", common_name="alice", organization_name="Example"))
    client.ask(METADATA, 9)
    (connection,) = broker.cluster.nodes[1].connections
    assert connection.principal.startswith("User:CN=alice,")


@pytest.mark.parametrize(("client_auth", "is_rejected"), [("requested", False), ("required", True)])
def test_missing_client_certificate(secured, connect, client_auth, is_rejected):
    broker = secured(ssl_client_auth=client_auth)
    client = connect(broker)
    if not is_rejected:
        assert client.ask(METADATA, 9)
        return
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        client.receive()
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in broker.cluster.invalid_requests[-1]


def test_untrusted_client_certificate(secured, connect):
    broker = secured(ssl_client_auth="requested")
    client = connect(broker, trustme.CA().issue_cert("mallory@example.org"))
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        client.receive()
    assert "self-signed" in broker.cluster.invalid_requests[-1] or "issuer" in broker.cluster.invalid_requests[-1]
    client.socket.close()
    until_closed(broker)


def test_client_that_never_closes_after_a_failed_handshake(secured, connect, monkeypatch):
    monkeypatch.setattr("thinconsumer_testing.broker.tls_channel.LINGER_S", 0.01)
    broker = secured()
    client = connect(broker, plain=True)
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    while not broker.cluster.invalid_requests:
        broker.step(0.01)
    until_closed(broker)
    assert "HTTP_REQUEST" in broker.cluster.invalid_requests[0]


def test_plaintext_request(broker, connect):
    client = connect(broker, plain=True)
    data = encode_request(METADATA, 9, 7, "tester")
    client.send(len(data).to_bytes(4, "big") + data)
    assert client.receive()[:1] in (b"\x15", b""), "an alert, or the end"
    assert "handshake failed" in broker.cluster.invalid_requests[-1]


@pytest.mark.parametrize("after", ["a request", "a part of the handshake", "a part of the handshake, with a reset"])
def test_client_that_leaves_is_forgotten(broker, connect, after):
    client = connect(broker, plain=after != "a request")
    if after == "a request":
        client.ask(METADATA, 9)
    else:
        client.send(b"\x16")
        broker.step(0.01)
    if "reset" in after:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    until_closed(broker)
    assert not broker.cluster.nodes[1].connections


def test_close_is_announced(broker, connect):
    """Without the alert close_notify, the client's socket raises SSLEOFError."""
    client = connect(broker)
    client.ask(METADATA, 9)
    (connection,) = broker.cluster.nodes[1].connections
    connection.close()
    assert client.receive() == b""
    assert not broker._registry.channels


def test_certificate_is_not_the_principal_where_clients_log_in(secured, connect, ca):
    broker = secured(
        security_protocol="SASL_SSL", ssl_client_auth="required", sasl_enabled_mechanisms="PLAIN", user_bob="b"
    )
    client = connect(broker, ca.issue_cert("alice@example.org", common_name="alice"))
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    (connection,) = broker.cluster.nodes[1].connections
    assert connection.principal == "User:ANONYMOUS"
    client.ask(SaslAuthenticateRequest(auth_bytes=b"\0bob\0b"), 2)
    assert connection.principal == "User:bob"


def test_invalid_settings_leave_no_port_open():
    with pytest.raises(IllegalArgumentError, match="ssl_keystore_location=/nonexistent.pem"):
        EmbeddedBroker(security={"security.protocol": "SSL", "ssl.keystore.location": "/nonexistent.pem"})


# -- contexts from PEM files and PEM text


@pytest.fixture
def pem(certificate, tmp_path):
    """A PEM file with the key and the certificate."""
    path = tmp_path / "server.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def test_file_and_text(settings, pem):
    context = server_context(ListenerSecurity("SSL", ssl_keystore_location=str(pem)))
    assert context.verify_mode == ssl.CERT_NONE
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    more = {"ssl_client_auth": "required", "ssl_enabled_protocols": "TLSv1.3"}
    context = server_context(ListenerSecurity.of({**settings, **more}))
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


# -- principals


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ((), ""),
        (((("countryName", "DE"),), (("organizationName", "Ex"),), (("commonName", "alice"),)), "CN=alice,O=Ex,C=DE"),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("organizationName", 'A, "B" <C>; D+E\\F'),),), 'O=A\\, \\"B\\" \\<C\\>\\; D\\+E\\\\F'),
        (((("commonName", "#1 "),),), "CN=\\#1\\ "),
        (((("commonName", " "),),), "CN=\\ "),
        (((("emailAddress", "a@b"),), (("commonName", "x"),)), "CN=x,1.2.840.113549.1.9.1=#1603614062"),
        (((("emailAddress", "ä"),), (("title", "Dr"),)), "title=Dr,emailAddress=ä"),
    ],
)  # fmt: skip
def test_names(subject, name):
    assert distinguished_name(subject) == name
