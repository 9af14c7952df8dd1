"""Names of topics: which are legal, which are the brokers' own."""

from __future__ import annotations

import pytest

from thinconsumer.broker.naming import is_internal, topic_name_error


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "...", "x" * 249, "__consumer_offsets"])
def test_legal_names(name):
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n", "\0"])
def test_illegal_names_are_told_why(name):
    reason = topic_name_error(name)
    assert reason is not None
    assert reason.startswith("Topic name is invalid: ")


def test_internal_names_are_internal_whether_they_exist_or_not():
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("consumer_offsets")
    assert not is_internal(None)
