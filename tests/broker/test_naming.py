"""Topic names: valid, invalid and internal ones."""

import pytest

from thinconsumer_testing.broker.naming import is_internal, topic_name_error


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "...", "x" * 249, "__consumer_offsets"])
def test_valid_names(name):
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n", "\0"])
def test_invalid_names_have_a_reason(name):
    reason = topic_name_error(name)
    assert reason is not None
    assert reason.startswith("Topic name is invalid: ")


def test_internal_names_need_not_exist():
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("consumer_offsets")
    assert not is_internal(None)
