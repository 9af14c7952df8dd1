"""OAUTHBEARER: framing, extensions, and the two steps of a rejection."""

import pytest

from thinconsumer_testing.broker.login.exchange import InvalidCredentialsError, LoginFailedError
from thinconsumer_testing.broker.login.oauthbearer import DUMMY, OAuthBearerExchange
from thinconsumer_testing.broker.login.web_tokens import AcceptedToken, TokenError


def accept(token, wall_time):
    if token != "good.token":
        raise TokenError("secret reason", "insufficient_scope")
    return AcceptedToken("al=ice", wall_time + 60)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good.token\x01\x01",
        b"n,a=al=3Dice,\x01auth=bearer  good.token\x01\x01",
        b"n,,\x01traceId=12 3=4\x01auth=Bearer good.token\x01\x01",
    ],
)
def test_accepted_token(message):
    exchange = OAuthBearerExchange(accept)
    assert exchange.evaluate(message, 10.0) == b""
    assert exchange.is_complete
    assert (exchange.user, exchange.expires_at) == ("al=ice", 70.0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        DUMMY,
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01",
        b"n,,\x01auth=Bearer good.token\x01\x01x",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01x=\xff\x01auth=Bearer good.token\x01\x01",
    ],
)
def test_malformed_messages(message):
    with pytest.raises(InvalidCredentialsError):
        OAuthBearerExchange(accept).evaluate(message, 0.0)


def test_authorization_as_another_user():
    with pytest.raises(LoginFailedError, match="authorization id"):
        OAuthBearerExchange(accept).evaluate(b"n,a=bob,\x01auth=Bearer good.token\x01\x01", 0.0)
