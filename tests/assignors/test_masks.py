"""Bit masks as sets of member numbers."""

from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.assignors.masks import bits, next_bit, readers


@given(st.sets(st.integers(0, 200)))
def test_bits_are_yielded_in_ascending_order(numbers):
    assert list(bits(sum(1 << number for number in numbers))) == sorted(numbers)


@given(st.sets(st.integers(0, 80), min_size=1), st.integers(0, 90))
def test_the_next_bit_wraps_around(numbers, start):
    expected = min((number for number in numbers if number >= start), default=min(numbers))
    assert next_bit(sum(1 << number for number in numbers), start) == expected


def test_subscribers_by_topic_with_a_topic_named_twice(member):
    subscriptions = {"a": member("t u t"), "b": member("u"), "c": member("")}
    assert readers(["t", "u", "v"], ["c", "b", "a"], subscriptions) == {"t": 0b100, "u": 0b110, "v": 0}
