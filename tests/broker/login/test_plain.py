"""PLAIN: the right password of a known user, and every other message."""

import pytest

from thinconsumer_testing.broker.login.exchange import LoginFailedError
from thinconsumer_testing.broker.login.plain import PlainExchange

USERS = {"alice": "alice-secret", "zoë": "pässword"}


@pytest.mark.parametrize("message", ["\0alice\0alice-secret", "alice\0alice\0alice-secret", "\0zoë\0pässword"])
def test_right_password(message):
    exchange = PlainExchange(USERS)
    assert exchange.evaluate(message.encode(), 0.0) == b""
    assert exchange.is_complete
    assert exchange.user in USERS
    assert exchange.expires_at is None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"\xff\0alice\0alice-secret", "not UTF-8"),
        (b"\0\0alice-secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0alice-secret", "Invalid username or password"),
        (b"bob\0alice\0alice-secret", "authorization id that is different"),
    ],
)
def test_wrong_messages(message, words):
    exchange = PlainExchange(USERS)
    with pytest.raises(LoginFailedError, match=words) as caught:
        exchange.evaluate(message, 0.0)
    assert not exchange.is_complete
    assert "secret" not in str(caught.value)
