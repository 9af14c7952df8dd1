"""Texts of servers in errors."""

from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.support.server_text import HIDDEN, SERVER_TEXT_MAX, shown


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
