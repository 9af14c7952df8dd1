"""Tokens are read from every shape that providers return, and nothing prints or pickles their value."""

import base64
import json
import pickle
from collections import namedtuple

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.sasl.tokens import TOKEN_CHARACTERS_MAX, Token, as_token, claims_of

NOW = 1_700_000_000.0
AccessToken = namedtuple("AccessToken", ["token", "expires_on"])


def signed(**claims):
    return jwt.encode(claims, "k" * 32)


def unsigned(payload: bytes) -> str:
    return f"e30.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.e30"


def test_a_jwts_expiry_and_subject_are_read():
    value = signed(exp=NOW + 60, sub="me", azp="app")
    assert as_token(value, NOW) == Token(value, NOW + 60, "me", {})
    assert as_token(value, NOW, "azp").principal == "app"
    assert as_token(value.encode() + b"\n", NOW).value == value


def test_an_opaque_token_has_no_known_expiry():
    assert as_token("abc", NOW) == Token("abc", None, "", {})


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (Token("abc", NOW + 1, "me", {"a": "b"}), Token("abc", NOW + 1, "me", {"a": "b"})),
        (("abc", NOW + 1), Token("abc", NOW + 1)),
        (["abc", int(NOW) + 1], Token("abc", NOW + 1)),
        (("abc", None), Token("abc")),
        (("abc", NOW + 1, "me", {"a": "b"}), Token("abc", NOW + 1, "me", {"a": "b"})),
        (("abc", NOW + 1, None, None), Token("abc", NOW + 1)),
        (("abc", (NOW + 1) * 1000), Token("abc", NOW + 1)),  # as aws-msk-iam-sasl-signer-python returns it
        (AccessToken("abc", int(NOW) + 1), Token("abc", NOW + 1)),  # as azure-identity returns it
    ],
)
def test_shapes_of_providers(returned, expected):
    assert as_token(returned, NOW) == expected


def test_an_expiry_that_is_given_goes_before_the_claim():
    value = signed(exp=NOW - 60, sub="me")
    assert as_token((value, NOW + 60), NOW) == Token(value, NOW + 60, "me")


async def provider():
    return "abc"


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "NoneType, which is no token"),
        (5, "int, which is no token"),
        ({"access_token": "abc"}, "dict, which is no token"),
        (("abc",), "tuple, which is no token"),
        ((5, NOW + 1), "a str, not int"),
        ("", "empty"),
        ("  ", "empty"),
        ("a\x01b", "characters"),
        ("a b", "characters"),
        ("é", "characters"),
        ("a" * (TOKEN_CHARACTERS_MAX + 1), "at most"),
        (("abc", "soon"), "not str"),
        (Token("abc", "soon"), "not str"),
        (("abc", True), "not True"),
        (("abc", float("nan")), "not nan"),
        (("abc", -1), "not -1"),
        (("abc", NOW + 1, 5), "principal"),
        (("abc", NOW + 1, "me", ["a"]), "not list"),
        (("abc", NOW + 1, "me", {"a": 5}), "the value of 'a'"),
        (("abc", NOW), "expired 0 s ago"),
        (signed(exp=NOW - 300), "expired 300 s ago.*clocks"),
        (provider(), "awaitable"),
    ],
)
def test_other_values_are_refused(returned, words):
    with pytest.raises(IllegalArgumentError, match=words):
        as_token(returned, NOW)


def test_no_value_is_shown():
    secret = "c4n4ry"
    for returned in (secret + " x", ("abc", NOW, secret, {"a": secret}), ("abc", NOW + 1, "me", {"a": 5, "b": secret})):
        with pytest.raises(IllegalArgumentError) as caught:
            as_token(returned, NOW)
        assert secret not in str(caught.value)
    token = Token(secret, None, "me", {"a": secret})
    assert secret not in repr(token) + str(token)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(token)


@pytest.mark.parametrize(
    "value",
    [
        "a.b",
        "a.b.c.d.e",
        "a.b.c",
        "a.*.c",
        unsigned(b"[1]"),
        unsigned(b"{"),
        unsigned(b"\xff"),
        unsigned(b"[" * 100_000),
        unsigned(b'{"exp":' + b"9" * 5000 + b"}"),
    ],
)
def test_malformed_jwts_have_no_claims(value):
    assert claims_of(value) == {}
    assert as_token(value.replace("*", "-"), NOW).expires_at is None


@pytest.mark.parametrize("exp", ["NaN", "Infinity", "1e999", '"5"', "true", "null", "[]", "0", "-5", "9" * 400])
def test_an_expiry_that_is_no_time_is_unknown(exp):
    assert as_token(unsigned(b'{"exp":' + exp.encode() + b"}"), NOW).expires_at is None


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.integers(), st.text(), st.floats(allow_nan=False))))
def test_claims_survive_the_way_into_a_jwt(claims):
    assert claims_of(unsigned(json.dumps(claims).encode())) == claims


@given(st.one_of(st.text(), st.tuples(st.text(), st.floats(), st.text()), st.binary()))
def test_any_value_is_a_token_or_an_error(returned):
    try:
        token = as_token(returned, NOW)
    except IllegalArgumentError:
        return
    assert token.value
    assert token.expires_at is None or token.expires_at > NOW
