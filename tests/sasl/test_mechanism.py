"""The code that all mechanisms share."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.sasl.mechanism import HIDDEN, SERVER_TEXT_MAX, authentication_failed, encode, shown
from thinconsumer.sasl.plain import Plain


@pytest.mark.parametrize("text", ["hush\0hush-hush-1", "\ud800 hush-hush-1"])
def test_text_that_cannot_be_sent_is_rejected_without_being_shown(text):
    with pytest.raises(IllegalArgumentError, match="sasl_plain_password contains") as caught:
        encode(text, "sasl_plain_password")
    assert not isinstance(caught.value.__context__, UnicodeError), "the codec's error contains the text"
    assert "hush" not in str(caught.value)


@given(st.text(max_size=1000))
def test_a_servers_text_is_short_and_printable(text):
    result = shown(text)
    assert result.isprintable()
    assert len(result) <= SERVER_TEXT_MAX + 3


def test_secrets_in_a_servers_text_are_hidden():
    assert shown("got pass-word-1 and pass-word", "pass-word", "pass-word-1", "") == f"got {HIDDEN} and {HIDDEN}"
    assert "s3cret" not in shown("x" * (SERVER_TEXT_MAX - 3) + "s3cret-key", "s3cret-key")


def test_a_secret_that_is_a_plain_word_is_not_marked_in_the_text():
    """The gap would name the password."""
    assert shown("Invalid username or password", "password") == "Invalid username or password"


def test_control_characters_cannot_forge_log_lines():
    assert shown("no\n2026 ERROR\x1b[2J") == r"no\n2026 ERROR\x1b[2J"


def test_the_clients_own_errors_have_kafkas_code():
    error = authentication_failed("why")
    assert (error.code, error.name, error.retriable) == (58, "SASL_AUTHENTICATION_FAILED", False)
    assert str(pickle.loads(pickle.dumps(error))) == "why"


def test_mechanisms_are_not_pickled():
    with pytest.raises(TypeError, match="Plain holds a secret"):
        pickle.dumps(Plain("alice", "hush-hush-1"))
