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


@pytest.mark.parametrize("key", [METADATA, AUTHENTICATE])
def test_requests_before_the_login_close_the_connection(new, key):
    one = new()
    assert one.admit(key, 0.0) is CLOSE
    assert "before the login" in one.why_rejected


def test_other_requests_during_the_exchange_are_illegal(new):
    for key in (METADATA, HANDSHAKE, VERSIONS):
        one = new()
        one.handshake("PLAIN", 1)
        assert one.admit(key, 0.0) is Admission.ILLEGAL_STATE
        assert one.authenticate(b"alice", 0.0, 0.0) is None


def test_mechanism_that_is_not_enabled(new):
    one = new()
    assert one.handshake("GSSAPI", 1) is False
    assert one.admit(HANDSHAKE, 0.0) is CLOSE


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


def test_version_0_of_the_handshake_is_followed_by_raw_tokens(new):
    one = new()
    assert not one.expects_raw_token
    one.handshake("PLAIN", 0)
    assert one.expects_raw_token
    one.authenticate(b"alice", 0.0, 1000.0)
    assert not one.expects_raw_token


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


def test_reauthentication_extends_the_session(new, principals):
    one = new(5000)
    log_in(one)
    log_in(one, now=4.0)
    assert one.admit(METADATA, 8.9) is SERVE
    log_in(one, now=20.0)
    assert principals == ["User:alice"] * 3
    assert one.admit(METADATA, 25.1) is CLOSE


def test_reauthentication_twice_a_second_is_no_reauthentication(new):
    one = new(5000)
    log_in(one)
    log_in(one, now=1.0)
    assert one.admit(HANDSHAKE, 1.5) is SERVE
    assert one.is_complete
    assert one.handshake("PLAIN", 1) is None


def test_reauthentication_with_another_user_fails(new, principals):
    one = new(5000)
    log_in(one)
    with pytest.raises(LoginFailedError, match=r"Cannot change principals .* from User.alice: User.bob"):
        log_in(one, b"bob", 2.0)
    assert principals == ["User:alice"]
    assert one.admit(METADATA, 2.0) is CLOSE


def test_failed_reauthentication_is_called_so(new):
    one = new(5000)
    log_in(one)
    with pytest.raises(LoginFailedError, match="during re-authentication"):
        log_in(one, b"hidden", 2.0)


def test_reauthentication_with_another_mechanism_fails_after_the_handshake(new):
    one = new(5000)
    log_in(one)
    assert one.admit(HANDSHAKE, 2.0) is SERVE
    assert one.handshake("SCRAM-SHA-256", 1) is True
    assert one.admit(AUTHENTICATE, 2.0) is Admission.CLOSE_LATE
    assert one.authenticate(b"alice", 2.0, 0.0) is None
