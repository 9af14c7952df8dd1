"""PLAIN."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.sasl.plain import Plain

SECRET = "hush-hush-1"
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def test_rfc_4616_example():
    assert Plain("tim", "tanstaaftanstaaf").start() == b"\0tim\0tanstaaftanstaaf"


@given(texts, texts)
def test_fields_are_utf_8_and_can_be_split(username, password):
    fields = Plain(username, password).start().split(b"\0")
    assert [field.decode() for field in fields] == ["", username, password]


def test_text_is_not_normalised():
    """Kafka compares bytes; SASLprep would turn a soft hyphen and a Roman numeral into other texts."""
    assert Plain("I\u00adX", "\u2168").start() == b"\0I\xc2\xadX\0\xe2\x85\xa8"


@pytest.mark.parametrize("fields", [("a\0b", "c"), ("a", "c\0d")])
def test_nul_is_rejected(fields):
    with pytest.raises(IllegalArgumentError, match="NUL"):
        Plain(*fields)


@pytest.mark.parametrize("answer", [b"", b"welcome"])
def test_the_exchange_is_one_message(answer):
    plain = Plain("alice", SECRET)
    assert plain.start() == b"\0alice\0hush-hush-1"
    assert plain.respond(answer) is None
    assert plain.credentials_expire_at is None


def test_the_password_is_not_shown():
    plain = Plain("alice", SECRET)
    assert repr(plain) == "<Plain 'alice'>"
    assert SECRET not in plain.shown(f"bad password {SECRET}")
