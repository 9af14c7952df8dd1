"""The login of a connection: order of requests, errors, and the session's lifetime."""

from collections import deque
from random import Random
from types import SimpleNamespace

import pytest

from thinconsumer.driver import Address
from thinconsumer.errors import (
    AuthorizationError,
    KafkaProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from thinconsumer.network.addresses import AddressBook
from thinconsumer.network.connection import Connection, ConnectionSettings
from thinconsumer.network.route import RouteContext
from thinconsumer.sasl.login import MESSAGES_MAX, SaslLogin
from thinconsumer.sasl.oauthbearer import OAuthBearer
from thinconsumer.sasl.plain import Plain
from thinconsumer.sasl.scram import Scram
from thinconsumer.support.timers import Backoff
from thinconsumer.wire.api_versions import ApiVersion, ApiVersionsResponse
from thinconsumer.wire.heartbeat import HeartbeatResponse
from thinconsumer.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from thinconsumer_testing.broker.wire.requests import decode_request_header, encode_response

SECRET = "hush-hush-1"
AGREED = SaslHandshakeResponse(mechanisms=["PLAIN", "OAUTHBEARER"])


def answered(auth_bytes=b"", **fields):
    return SaslAuthenticateResponse(auth_bytes=auth_bytes, **fields)


def begun(mechanism=None, **options):
    """Return a login that has sent the mechanism's first message."""
    login = SaslLogin(mechanism or Plain("alice", SECRET), **options)
    login.next_request(None, 0.0)
    login.next_request(AGREED, 0.0)
    return login


def bearer(expires_at=None):
    token = SimpleNamespace(value="abc.def", expires_at=expires_at, principal="alice", extensions={})
    return OAuthBearer(token)


def test_a_login_is_handshake_then_messages_then_nothing():
    login = SaslLogin(Plain("alice", SECRET))
    assert login.next_request(None, 0.0) == SaslHandshakeRequest(mechanism="PLAIN")
    assert login.next_request(AGREED, 0.0) == SaslAuthenticateRequest(auth_bytes=b"\0alice\0hush-hush-1")
    assert login.next_request(answered(), 0.0) is None
    assert (login.session_lifetime, login.reauthenticate_after) == (None, None)


class Untouchable:
    """A mechanism that must not be started."""

    name = "PLAIN"
    options = ()
    credentials_expire_at = None


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (
            SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "GSSAPI"]),
            UnsupportedSaslMechanismError,
            "sasl_mechanism='PLAIN', but this listener offers: GSSAPI, SCRAM-SHA-512",
        ),
        (SaslHandshakeResponse(error_code=33), UnsupportedSaslMechanismError, "offers: none"),
        (SaslHandshakeResponse(mechanisms=["GSSAPI"]), UnsupportedSaslMechanismError, "offers: GSSAPI"),
        (
            SaslHandshakeResponse(error_code=33, mechanisms=[f"M{n}" * 400 for n in range(10_000)]),
            UnsupportedSaslMechanismError,
            r"\.\.\.",
        ),
        (SaslHandshakeResponse(error_code=34), SaslAuthenticationFailedError, "check security_protocol"),
        (SaslHandshakeResponse(error_code=58), SaslAuthenticationFailedError, "sasl_mechanism='PLAIN'"),
        (answered(), KafkaProtocolError, "no request of the login expects"),
        (HeartbeatResponse(), KafkaProtocolError, "HeartbeatResponse"),
    ],
)
def test_no_credentials_are_sent_unless_the_handshake_succeeds(answer, error, text):
    login = SaslLogin(Untouchable())
    login.next_request(None, 0.0)
    with pytest.raises(error, match=text) as caught:
        login.next_request(answer, 0.0)
    assert len(str(caught.value)) < 10_000


def test_a_broker_that_lists_no_mechanism_is_taken_at_its_word():
    login = SaslLogin(Plain("alice", SECRET))
    login.next_request(None, 0.0)
    assert login.next_request(SaslHandshakeResponse(), 0.0) is not None


def test_a_rejected_password_names_the_options_and_not_the_password():
    login = begun()
    answer = answered(error_code=58, error_message=f"Authentication failed for {SECRET}\n: bad")
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        login.next_request(answer, 0.0)
    text = str(caught.value)
    assert "sasl_plain_username, sasl_plain_password" in text
    assert r"Authentication failed for <hidden>\n: bad" in text
    assert SECRET not in text
    assert caught.value.code == 58


def test_a_rejection_without_a_message():
    with pytest.raises(SaslAuthenticationFailedError, match="check sasl_plain_username"):
        begun().next_request(answered(error_code=58, error_message=None), 0.0)


def test_scram_takes_two_messages_and_needs_the_servers_proof():
    login = SaslLogin(Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO"))
    login.next_request(None, 0.0)
    login.next_request(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]), 0.0)
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert isinstance(login.next_request(answered(first), 0.0), SaslAuthenticateRequest)
    last = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert login.next_request(answered(last, session_lifetime_ms=1000), 0.0) is None
    assert login.session_lifetime == 1.0


def test_a_rejected_token_ends_with_the_brokers_error():
    login = begun(bearer())
    assert login.next_request(answered(b'{"status":"invalid_token"}'), 0.0) == SaslAuthenticateRequest(auth_bytes=b"\1")
    with pytest.raises(SaslAuthenticationFailedError, match="invalid_token.*sasl_oauth_token_provider"):
        login.next_request(answered(error_code=58, error_message='{"status":"invalid_token"}'), 0.0)


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 0.85), (0.5, 0.9), (1.0, 0.95)])
def test_reauthentication_is_due_within_the_sessions_last_part(jitter, factor):
    login = begun(jitter=jitter)
    login.next_request(answered(session_lifetime_ms=60_000), 0.0)
    assert login.session_lifetime == 60.0
    assert login.reauthenticate_after == pytest.approx(60 * factor)


@pytest.mark.parametrize(
    ("expires_at", "after"),
    [(1030.0, 0.85 * 30), (1090.0, 0.85 * 60), (None, 0.85 * 60), (900.0, 0.85 * 60)],
    ids=["before the session", "after the session", "never", "by a wrong clock"],
)
def test_credentials_that_expire_first_end_the_session(expires_at, after):
    login = begun(bearer(expires_at), wall_time=lambda: 1000.0)
    login.next_request(answered(session_lifetime_ms=60_000), 0.0)
    assert login.reauthenticate_after == pytest.approx(after)


@pytest.mark.parametrize("lifetime", [0, -1, -(2**63)])
def test_without_a_lifetime_the_session_does_not_end(lifetime):
    """Before version 1 of SaslAuthenticate there is none; these brokers cannot re-authenticate."""
    login = begun(bearer(1030.0), wall_time=lambda: 1000.0)
    login.next_request(answered(session_lifetime_ms=lifetime), 0.0)
    assert (login.session_lifetime, login.reauthenticate_after) == (None, None)


def test_an_endless_exchange_is_ended():
    class Endless(Untouchable):
        name = "PLAIN"

        def start(self):
            return b"x"

        def respond(self, challenge):
            return b"x"

    login = begun(Endless())
    for _ in range(MESSAGES_MAX - 1):
        login.next_request(answered(b"y"), 0.0)
    with pytest.raises(SaslAuthenticationFailedError, match=f"{MESSAGES_MAX} messages"):
        login.next_request(answered(b"y"), 0.0)


def test_oversized_and_unsolicited_messages_are_refused():
    with pytest.raises(KafkaProtocolError, match="131073 bytes"):
        begun().next_request(answered(bytes(131_073)), 0.0)
    login = begun()
    with pytest.raises(KafkaProtocolError, match="twice"):
        login.next_request(AGREED, 0.0)
    login = begun()
    login.next_request(answered(), 0.0)
    with pytest.raises(KafkaProtocolError, match="no request of the login expects"):
        login.next_request(answered(), 0.0)
    login = begun(bearer())
    login.next_request(answered(b"expired"), 0.0)
    with pytest.raises(SaslAuthenticationFailedError, match="expired"):
        login.next_request(answered(), 0.0)
    with pytest.raises(KafkaProtocolError, match="no request of the login expects"):  # a failed login stays failed
        login.next_request(answered(), 0.0)


class Wire:
    """A connection that logs in with PLAIN; the test is its broker, which supports ``ranges`` by API key."""

    def __init__(self, ranges):
        def new_login(host):
            return SaslLogin(Plain("alice", SECRET))

        settings = ConnectionSettings("me", 100_000, 5, 540.0, "SASL_PLAINTEXT", new_login)
        address = Address(0, ("10.0.0.1", 9092))
        commands, backoff = deque(), Backoff(1.0, 1.0)
        shared = RouteContext(settings, backoff, backoff, Random(1), commands, AddressBook(commands))
        self.connection = Connection(shared, settings, "kafka", address, 1, 30.0, 0.0, 30.0, shared.agenda.alarm, ())
        self.connection.connection_made(0.0)
        self.sent = [self.take()]
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
        self.reply(ApiVersionsResponse(api_keys=keys), ApiVersionsResponse.VERSIONS[1])

    def take(self):
        data = b"".join(self.connection.data_to_send())
        self.connection.data_sent(len(data), 0.0)
        return data

    def reply(self, message, version):
        """Send a response; what the connection writes next is added to ``sent``."""
        frame = encode_response(message, version, len(self.sent) - 1)
        data = len(frame).to_bytes(4, "big") + frame
        self.connection.get_buffer()[: len(data)] = data
        self.connection.buffer_updated(len(data), 0.0)
        self.sent.append(self.take())

    @property
    def versions(self):
        """API key and version of each request."""
        return [decode_request_header(data[4:])[:2] for data in self.sent if data]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_connection_logs_in_with_every_version_of_sasl_authenticate(version):
    wire = Wire({17: (0, 1), 36: (0, version)})
    assert SECRET.encode() not in b"".join(wire.sent)
    wire.reply(AGREED, 1)
    assert wire.versions[1:] == [(17, 1), (36, version)]
    assert SECRET.encode() in wire.sent[-1]
    wire.reply(answered(session_lifetime_ms=1000), version)
    assert wire.connection.is_ready


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ({17: (0, 0)}, "needs SaslHandshake versions 1 to 1, but broker 1 has versions 0 to 0"),
        ({17: (0, 1)}, "needs SaslAuthenticate versions 0 to 2, but broker 1 does not have this API"),
        ({17: (0, 1), 36: (3, 4)}, "needs SaslAuthenticate versions 0 to 2, but broker 1 has versions 3 to 4"),
        ({36: (0, 2)}, "needs SaslHandshake versions 1 to 1, but broker 1 does not have this API"),
        ({17: (2, 3), 36: (0, 2)}, "needs SaslHandshake versions 1 to 1, but broker 1 has versions 2 to 3"),
    ],
    ids=["handshake 0 only", "no authenticate", "newer authenticate", "no handshake", "newer handshake"],
)
def test_brokers_without_a_common_version_get_no_password(ranges, text):
    """After SaslHandshake 0 alone, Kafka expects the mechanism's messages without headers; they are never sent."""
    wire = Wire(ranges)
    if ranges.get(17) == (0, 1):
        wire.reply(AGREED, 1)
    assert text in str(wire.connection.error)
    assert SECRET.encode() not in b"".join(wire.sent)
    assert SECRET not in str(wire.connection.error)


@pytest.mark.parametrize(
    "answer", [SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI"]), SaslHandshakeResponse(error_code=34)]
)
def test_a_refused_handshake_ends_the_connection_before_the_password(answer):
    wire = Wire({17: (0, 1), 36: (0, 2)})
    wire.reply(answer, 1)
    assert wire.connection.has_ended
    assert isinstance(wire.connection.error, AuthorizationError)
    assert SECRET.encode() not in b"".join(wire.sent)
