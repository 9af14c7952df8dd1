"""OAUTHBEARER."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError, SaslAuthenticationFailedError
from thinconsumer.sasl.oauthbearer import OAuthBearer, bearer_message, describe_error
from thinconsumer.sasl.tokens import checked_extensions, checked_value

SECRET = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."


def token(value=SECRET, **extensions):
    return SimpleNamespace(value=value, expires_at=1234.5, principal="alice", extensions=extensions)


def test_the_message_has_the_framing_of_rfc_7628():
    assert bearer_message(token("abc")) == b"n,,\x01auth=Bearer abc\x01\x01"
    extensions = {"logicalCluster": "lkc-1", "identityPoolId": "pool 2"}
    assert bearer_message(token("abc", **extensions)) == (
        b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01identityPoolId=pool 2\x01\x01"
    )


@given(
    st.from_regex(r"[A-Za-z0-9._~+/-]+={0,2}", fullmatch=True),
    st.dictionaries(
        st.from_regex("[A-Za-z]+", fullmatch=True).filter(lambda name: name != "auth"),
        st.from_regex(r"[\x21-\x7e \t\r\n]+", fullmatch=True),
        max_size=4,
    ),
)
def test_every_valid_message_can_be_split(value, extensions):
    header, auth, *fields, end, nothing = bearer_message(token(value, **extensions)).decode().split("\x01")
    assert (header, auth, end, nothing) == ("n,,", f"auth=Bearer {value}", "", "")
    assert dict(field.split("=", 1) for field in fields) == extensions


@pytest.mark.parametrize("value", ["", "a b", "a\x01auth=Bearer b", "a,b", "ä", "a=b", "a\n\0"])
def test_tokens_that_would_change_the_message_are_rejected(value):
    with pytest.raises(IllegalArgumentError, match="the token ") as caught:
        checked_value(value)
    assert not value or repr(value) not in str(caught.value)


@pytest.mark.parametrize("name", ["", "auth", "a1", "a_b", "ä", "a=b", "a\n"])
def test_extension_names_are_letters(name):
    with pytest.raises(IllegalArgumentError, match="SASL extensions: has a name that is not only letters"):
        checked_extensions({name: "v"})


@pytest.mark.parametrize("value", ["", "a\x01b", "ä", "\0", "\x7f"])
def test_extension_values_are_printable(value):
    with pytest.raises(IllegalArgumentError, match="SASL extensions: the value of 'a' is not a str of printable"):
        checked_extensions({"a": value})


def test_an_empty_answer_ends_the_exchange():
    login = OAuthBearer(token(a="b"))
    assert login.start().startswith(b"n,,\x01auth=Bearer " + SECRET.encode())
    assert login.respond(b"") is None
    assert login.credentials_expire_at == 1234.5


@pytest.mark.parametrize("final", [b"", b"more"])
def test_an_error_is_answered_and_never_turns_into_success(final):
    login = OAuthBearer(token())
    assert login.respond(b'{"status":"invalid_token","scope":"kafka"}') == b"\x01"
    with pytest.raises(SaslAuthenticationFailedError, match="status: invalid_token, scope: kafka"):
        login.respond(final)


@pytest.mark.parametrize(
    ("challenge", "text"),
    [
        (b'{"status": "invalid_token", "openid-configuration": "https://x"}', "status: invalid_token, openid-configu"),
        (b'{"status": 1}', '{"status": 1}'),
        (b"[1]", "[1]"),
        (b"not JSON", "not JSON"),
        (b"\xff", "\ufffd"),
        (b"[" * 10_000, "[[["),
        (b"x" * 20_000, "an error message of 20000 bytes"),
    ],
)
def test_error_messages_of_every_shape_are_described(challenge, text):
    assert describe_error(challenge).startswith(text)


def test_the_token_is_not_shown():
    login = OAuthBearer(token())
    assert repr(login) == "<OAuthBearer 'alice'>"
    login.respond(f'{{"status":"bad token {SECRET}"}}'.encode())
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        login.respond(b"")
    assert SECRET not in str(caught.value)
