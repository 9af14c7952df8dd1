"""The driver of a client: which connections use TLS, and how each failed handshake reads."""

import datetime
import socket
import ssl
import sys
from types import SimpleNamespace

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from thinconsumer import Consumer
from thinconsumer.config import ClientOptions
from thinconsumer.errors import IllegalStateError, KafkaConfigurationError, KafkaConnectionError
from thinconsumer.sockets import SelectorDriver, secured, tls
from thinconsumer.sockets.secured import broker_transport, https_transport, open_driver
from thinconsumer.sockets.tls import SESSIONS_MAX, Sessions, TlsTransport, tls_transport
from thinconsumer.sockets.transport import PlainTransport

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module")
def ca(tmp_path_factory, authority):
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture
def options(ca):
    """Return a function that makes a client's options; the server's certificate is trusted."""
    return lambda **more: ClientOptions(**{"security_protocol": "SSL", "ssl_cafile": ca, **more})


def server(leaf, **attributes):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    for name, value in attributes.items():
        setattr(context, name, value)
    return context


# Which connections use TLS


def test_the_driver_is_opened_as_the_options_say(options, ca):
    with_tls = open_driver(options())
    assert isinstance(with_tls, SelectorDriver)
    assert with_tls._transports["broker"] is not PlainTransport
    with Consumer(security_protocol="SSL", ssl_cafile=ca, send_buffer_bytes=5) as consumer:
        assert consumer._shell.driver._transports["broker"] is not PlainTransport
        assert (socket.SOL_SOCKET, socket.SO_SNDBUF, 5) in consumer._shell.driver._socket_options
    for protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        assert open_driver(ClientOptions(security_protocol=protocol))._transports["broker"] is PlainTransport


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_of_both_protocols(protocol, options, make_world, connect_tls, server_context, selector_class):
    world = make_world(selector_class, transport=broker_transport(options(security_protocol=protocol)))
    stream, peer = connect_tls(world, server_context)
    assert not stream.lost
    assert peer.got == b"request"


def test_options_that_cannot_be_used_are_refused_when_the_driver_is_opened(tmp_path):
    with pytest.raises(KafkaConfigurationError, match="ssl_cafile"):
        open_driver(ClientOptions(security_protocol="SSL", ssl_cafile=str(tmp_path / "missing")))


def test_a_token_endpoint_has_a_transport_of_its_own(options, make_world, connect_tls, server_context):
    """With SASL_PLAINTEXT and an https token endpoint, only the connection to the endpoint uses TLS."""
    world = make_world(https=https_transport(options(security_protocol="SASL_PLAINTEXT")))
    for purpose in ("broker", "http"):
        stream = world.dial(world.listen(), purpose=purpose)
        world.run(lambda stream=stream: stream.made)
    for _ in range(2):
        stream, peer = connect_tls(world, server_context, purpose="https")
        assert stream.made
        assert peer.got == b"request"


def test_unusable_options_fail_the_https_connection_only(make_world, tmp_path):
    options = ClientOptions(security_protocol="SASL_PLAINTEXT", ssl_cafile=str(tmp_path / "missing"))
    world = make_world(https=https_transport(options))
    stream = world.dial(world.listen(), purpose="https")
    world.run(lambda: stream.lost)
    assert "ssl_cafile" in str(stream.error)


def test_a_driver_without_a_transport_for_the_purpose(make_world):
    world = make_world()
    world.dial(world.listen(), purpose="https")
    with pytest.raises(IllegalStateError, match="no transport for 'https'"):
        world.step()


def test_plaintext_does_not_load_openssl(monkeypatch):
    monkeypatch.delitem(sys.modules, "thinconsumer.sockets.tls_context", raising=False)
    secured.open_driver(ClientOptions())
    assert "thinconsumer.sockets.tls_context" not in sys.modules


# Failures


@pytest.fixture
def fail(options, make_world, connect_tls, selector_class):
    """Return a function that returns the error of a connection, after at most one round trip of application bytes."""

    def fail(context, host="localhost", request=b"request", **more):
        world = make_world(selector_class, transport=broker_transport(options(**more)))
        stream, _ = connect_tls(world, context, host=host, request=request)
        world.run(lambda: stream.lost)
        error = stream.error
        assert isinstance(error, KafkaConnectionError)
        assert error.is_certificate_rejected
        assert error.host == host
        assert f"{host}:{error.port}" in str(error)
        return str(error)

    return fail


def test_an_untrusted_certificate(fail):
    error = fail(server(trustme.CA().issue_cert("localhost")))
    assert "unable to get local issuer certificate (set ssl_cafile or ssl_truststore_location to the" in error
    assert error.endswith("during the TLS handshake")


def test_a_self_signed_certificate(fail, tmp_path):
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "pem").write_bytes(pem + builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    error = fail(context)
    assert "self-signed certificate" in error.replace("self signed", "self-signed")
    assert "(set ssl_cafile or ssl_truststore_location to this certificate)" in error


def test_a_certificate_that_has_expired(fail, authority):
    expired = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    error = fail(server(authority.issue_cert("localhost", not_after=expired)))
    assert "certificate has expired (the peer needs a new certificate; check this machine's clock, too)" in error


@pytest.mark.parametrize("host", ["broker.example", "127.0.0.1"])
def test_a_certificate_for_another_host(fail, server_context, host):
    error = fail(server_context, host=host)
    assert "mismatch, certificate is not valid for" in error
    assert f"'{host}' (connect to a name that the certificate has" in error


def test_another_host_without_the_check(options, make_world, connect_tls, server_context):
    world = make_world(transport=broker_transport(options(ssl_check_hostname=False)))
    stream, _ = connect_tls(world, server_context, host="broker.example")
    assert not stream.lost


@pytest.mark.parametrize("newest", [V12, V13])
@pytest.mark.parametrize("request_bytes", [b"", b"request"])
def test_a_missing_client_certificate(fail, authority, newest, request_bytes):
    """With TLS 1.3, the alert arrives after the handshake, and maybe after a request could not be sent."""
    context = server(authority.issue_cert("localhost"), verify_mode=ssl.CERT_REQUIRED, maximum_version=newest)
    error = fail(context, request=request_bytes)
    assert "client certificate" in error
    assert "see ssl_certfile or ssl_keystore_location" in error


@pytest.mark.parametrize("newest", [V12, V13])
def test_a_client_certificate_that_the_broker_does_not_trust(fail, authority, newest):
    context = server(authority.issue_cert("localhost"), verify_mode=ssl.CERT_REQUIRED, maximum_version=newest)
    authority.configure_trust(context)
    leaf = trustme.CA().issue_cert("client.example")
    chain = leaf.cert_chain_pems[0].bytes().decode()
    key = leaf.private_key_pem.bytes().decode()
    error = fail(context, ssl_keystore_certificate_chain=chain, ssl_keystore_key=key)
    assert "the peer does not trust the issuer of the client certificate (see ssl_certfile" in error


@pytest.mark.parametrize(("client", "oldest"), [("TLSv1.2", V13), ("TLSv1.3", V12)])
def test_no_version_in_common(fail, authority, client, oldest):
    context = server(authority.issue_cert("localhost"), minimum_version=oldest, maximum_version=oldest)
    error = fail(context, ssl_enabled_protocols=(client,))
    assert "client and broker share no TLS version (see ssl_enabled_protocols and ssl_protocol)" in error


def test_no_cipher_suite_in_common(fail, authority):
    context = server(authority.issue_cert("localhost"), maximum_version=V12)
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    assert "see ssl_ciphers and ssl_cipher_suites" in fail(context, ssl_ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")


@pytest.mark.parametrize(
    ("answer", "is_certain"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", True), (b"\0\0\0\x0a\0\0\0\0\0\x23", True), (b"", False)],
    ids=["http", "kafka", "none"],
)
def test_a_port_without_tls(options, make_world, answer, is_certain):
    """A Kafka broker closes without an answer, as a broker that restarts does, so only that is worth a retry."""
    world = make_world(transport=broker_transport(options()))
    listener = world.listen()
    stream = world.dial(listener)
    world.step()
    peer = world.accept(listener)
    world.step()
    peer.recv(1 << 16)
    peer.sendall(answer)
    peer.close()
    world.run(lambda: stream.lost)
    assert "the port does not use TLS (set security_protocol='PLAINTEXT'" in str(stream.error)
    assert ("perhaps" in str(stream.error)) is not is_certain
    assert stream.error.is_certificate_rejected is is_certain


# Sessions


@pytest.mark.parametrize("newest", [V12, V13])
def test_sessions_are_resumed(options, make_world, connect_tls, authority, newest, selector_class):
    context = server(authority.issue_cert("localhost"), maximum_version=newest)
    world = make_world(selector_class, transport=broker_transport(options()))
    listener = world.listen()
    for was_resumed in (False, True, True):
        stream, peer = connect_tls(world, context, listener=listener)
        assert peer.tls.session_reused is was_resumed
        peer.tls.send(b"answer")
        world.run(lambda stream=stream: stream.received == b"answer")
    _, other = connect_tls(world, context)
    assert not other.tls.session_reused, "a session is offered to its own host and port only"


def test_a_new_context_begins_with_full_handshakes(make_world, connect_tls, authority, server_context):
    contexts = []

    def latest():
        contexts.append(ssl.create_default_context())
        authority.configure_trust(contexts[-1])
        return contexts[-1]

    context = server(authority.issue_cert("localhost"))
    world = make_world(transport=tls_transport(latest))
    listener = world.listen()
    for _ in range(2):
        stream, peer = connect_tls(world, context, listener=listener)
        assert not peer.tls.session_reused
        peer.tls.send(b"answer")
        world.run(lambda stream=stream: stream.received)


def test_a_session_that_the_server_forgot_ends_in_a_full_handshake(options, make_world, connect_tls, authority):
    world = make_world(transport=broker_transport(options()))
    listener = world.listen()
    for _ in range(2):  # the second context is that of a restarted broker: it cannot decrypt tickets of the first
        stream, peer = connect_tls(world, server(authority.issue_cert("localhost")), listener=listener)
        assert not peer.tls.session_reused
        peer.tls.send(b"answer")
        world.run(lambda stream=stream: stream.received)


class FailingTls:
    """A TLS socket with a handshake that fails."""

    def __init__(self, context, error):
        self.context = context
        self._error = error

    def do_handshake(self):
        raise self._error

    def cipher(self):
        return None


def rejection(error_class, reason):
    error = error_class(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (rejection(ssl.SSLError, "SSLV3_ALERT_HANDSHAKE_FAILURE"), ConnectionAbortedError),
        (rejection(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED"), ssl.SSLCertVerificationError),
        (ssl.SSLEOFError(8, "EOF"), ssl.SSLEOFError),
    ],
)
def test_a_session_is_dropped_when_its_handshake_fails(error, raised, client_context):
    """A server that rejects sessions would otherwise never be reached again."""
    sessions, place = Sessions(), ("kafka-1", 9093)
    sessions._sessions[place] = client_context, object()
    tls = FailingTls(client_context, error)
    with pytest.raises(raised) as caught:
        TlsTransport(tls, sessions, place).handshake()
    assert sessions.find(place, client_context) is None
    if raised is ConnectionAbortedError:
        assert "so the next one begins anew" in str(caught.value)
    with pytest.raises(type(error)):
        TlsTransport(tls, sessions, place).handshake()


class AnsweredTls:
    """A TLS socket after its handshake, which counts how often its session is read."""

    def __init__(self, context, *, session_reused=False, has_ticket=True):
        self.context = context
        self.session_reused = session_reused
        self.reads = 0
        self._session = SimpleNamespace(has_ticket=has_ticket, id=b"")

    @property
    def session(self):
        self.reads += 1
        return self._session


def test_the_number_of_sessions_is_bounded(client_context):
    sessions = Sessions()
    for port in range(SESSIONS_MAX + 5):
        sessions.keep(("kafka", port), AnsweredTls(client_context))
    sessions.keep(("kafka", 1), AnsweredTls(client_context, has_ticket=False))
    assert len(sessions._sessions) == SESSIONS_MAX
    assert sessions.find(("kafka", 4), client_context) is None
    assert sessions.find(("kafka", 5), client_context) is not None
    assert sessions.find(("kafka", 5), None) is None


def test_sessions_are_read_seldom(client_context, monkeypatch):
    """Python before 3.13.1 loses 6 KB each time: a client that reconnected every second grew by 20 MB an hour."""
    monkeypatch.setattr(tls, "SESSION_READS_MAX", 5)
    sessions, place = Sessions(), ("kafka-1", 9093)
    resumed = AnsweredTls(client_context, session_reused=True)
    full = AnsweredTls(client_context)
    for _ in range(10):
        sessions.keep(place, resumed)
        sessions.keep(place, full)
    assert (resumed.reads, full.reads) == (0, 5)
    assert sessions.find(place, client_context) is full._session
