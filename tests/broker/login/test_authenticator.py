"""The state machine of a login: every order of requests, failures, and re-authentication."""

import pytest

from thinconsumer_testing.broker.login.authenticator import Admission, Authenticated, Authenticator
from thinconsumer_testing.broker.login.exchange import InvalidCredentialsError, LoginFailedError

METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
SERVE, CLOSE = Admission.SERVE, Admission.CLOSE


class Spelled:
    """An exchange of two messages: ``hello``, then the user's name and the time at which the credentials expire."""

    def __init__(self):
        self.is_complete = False
        self.user = ""
        self.expires_at = None

    def evaluate(self, message, wall_time):
        if message == b"hello":
            return b"who?"
        if message == b"told":
            raise LoginFailedError("you are told")
        if message == b"hidden":
            raise InvalidCredentialsError("secret reason")
        user, _, expiry = message.decode().partition("@")
        self.is_complete, self.user, self.expires_at = True, user, float(expiry) if expiry else None
        return b"welcome"


@pytest.fixture
def principals():
    return []


@pytest.fixture
def new(principals):
    return lambda max_session_ms=0: Authenticator(
        ("PLAIN", "SCRAM-SHA-256"), lambda name: Spelled(), max_session_ms, principals.append
    )


def log_in(authenticator, message=b"alice", now=0.0):
    assert authenticator.admit(HANDSHAKE, now) is SERVE
    assert authenticator.handshake("PLAIN", 1)
    assert authenticator.admit(AUTHENTICATE, now) is SERVE
    return authenticator.authenticate(message, now, 1000.0 + now)


def test_login_of_several_messages(new, principals):
    one = new()
    assert one.admit(VERSIONS, 0.0) is SERVE
    one.on_api_versions()
    assert log_in(one, b"hello") == Authenticated(b"who?")
    assert not one.is_complete
    assert one.authenticate(b"alice", 0.0, 1000.0) == Authenticated(b"welcome", 0)
    assert one.is_complete
    assert principals == ["User:alice"]
    assert [one.admit(key, 1e9) for key in (METADATA, HANDSHAKE, AUTHENTICATE, VERSIONS)] == [SERVE] * 4
    one.on_api_versions()
    assert one.handshake("PLAIN", 1) is None
    assert one.authenticate(b"alice", 0.0, 1000.0) is None


def test_api_versions_may_be_repeated_only_until_it_is_answered(new):
    one = new()
    assert [one.admit(VERSIONS, 0.0) for _ in range(2)] == [SERVE] * 2
    one.on_api_versions()
    assert one.admit(VERSIONS, 0.0) is CLOSE
    assert one.admit(HANDSHAKE, 0.0) is CLOSE


def test_other_requests_during_the_exchange_are_illegal(new):
    for key in (METADATA, HANDSHAKE, VERSIONS):
        one = new()
        one.handshake("PLAIN", 1)
        assert one.admit(key, 0.0) is Admission.ILLEGAL_STATE
        assert one.authenticate(b"alice", 0.0, 0.0) is None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"told", "you are told"),
        (b"hidden", "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"),
    ],
)
def test_failed_login(new, principals, message, text):
    one = new()
    with pytest.raises(LoginFailedError) as caught:
        log_in(one, message)
    assert str(caught.value) == text
    assert caught.value.details == ("PLAIN: secret reason" if message == b"hidden" else text)
    assert one.admit(AUTHENTICATE, 0.0) is CLOSE
    assert principals == []


@pytest.mark.parametrize(
    ("max_session_ms", "message", "lifetime"),
    [
        (5000, b"alice", 5000),
        (0, b"alice@1007", 7000),
        (5000, b"alice@1007", 5000),
        (9000, b"alice@1007", 7000),
        (5000, b"alice@999", 0),
    ],
)
def test_lifetime_of_the_session(new, max_session_ms, message, lifetime):
    one = new(max_session_ms)
    assert log_in(one, message).session_lifetime_ms == lifetime
    assert one.admit(METADATA, lifetime / 1000) is SERVE
    assert one.admit(METADATA, lifetime / 1000 + 0.001) is CLOSE
    assert "expired" in one.why_rejected


def test_reauthentication_twice_a_second_is_no_reauthentication(new):
    one = new(5000)
    log_in(one)
    log_in(one, now=1.0)
    assert one.admit(HANDSHAKE, 1.5) is SERVE
    assert one.is_complete
    assert one.handshake("PLAIN", 1) is None


def test_failed_reauthentication_is_called_so(new):
    one = new(5000)
    log_in(one)
    with pytest.raises(LoginFailedError, match="during re-authentication"):
        log_in(one, b"hidden", 2.0)
