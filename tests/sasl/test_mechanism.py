"""The code that all mechanisms share."""

import pickle

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.sasl.mechanism import authentication_failed, encode
from thinconsumer.sasl.plain import Plain


@pytest.mark.parametrize("text", ["hush\0hush-hush-1", "\ud800 hush-hush-1"])
def test_text_that_cannot_be_sent_is_rejected_without_being_shown(text):
    with pytest.raises(IllegalArgumentError, match="sasl_plain_password contains") as caught:
        encode(text, "sasl_plain_password")
    assert not isinstance(caught.value.__context__, UnicodeError), "the codec's error contains the text"
    assert "hush" not in str(caught.value)


def test_the_clients_own_errors_have_kafkas_code():
    error = authentication_failed("why")
    assert (error.code, error.name, error.retriable) == (58, "SASL_AUTHENTICATION_FAILED", False)
    assert str(pickle.loads(pickle.dumps(error))) == "why"


def test_mechanisms_are_not_pickled():
    with pytest.raises(TypeError, match="Plain holds a secret"):
        pickle.dumps(Plain("alice", "hush-hush-1"))
