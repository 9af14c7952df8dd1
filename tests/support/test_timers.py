"""Backoff, Retry and SharedJitter."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.config import ClientOptions
from thinconsumer.support.timers import Backoff, Retry, SharedJitter


class Fixed:
    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value

    def randrange(self, stop: int, /) -> int:
        return 0


MIDDLE = Fixed(0.5)  # exactly between the two ends of the spread


def test_the_delay_doubles_up_to_the_maximum():
    backoff = Backoff(0.1, 1.0)
    waits = [backoff.delay(attempts, MIDDLE) for attempts in range(7)]
    assert waits == pytest.approx([0, 0.11, 0.2, 0.4, 0.8, 1.0, 1.0])


@pytest.mark.parametrize(("first_ms", "longest_ms", "seconds"), [(100, 1000, (0.1, 1.0)), (0, 0, (0.01, 0.01))])
def test_a_backoff_from_options_is_never_0(first_ms, longest_ms, seconds):
    """Without a backoff, the client would retry in a busy loop when a broker rejects requests at once."""
    options = ClientOptions.from_options(retry_backoff_ms=first_ms, retry_backoff_max_ms=longest_ms)
    assert Backoff.from_settings(options) == Backoff(*seconds)


def test_jitter_is_20_percent_both_ways_and_never_goes_below_the_initial_delay():
    backoff = Backoff(0.1, 1.0)
    assert [backoff.delay(1, Fixed(value)) for value in (0.0, 1.0)] == pytest.approx([0.1, 0.12])
    assert [backoff.delay(2, Fixed(value)) for value in (0.0, 1.0)] == pytest.approx([0.16, 0.24])


def test_the_maximum_includes_the_jitter():
    """KIP-580: min(maximum, grown * jitter)."""
    assert Backoff(0.1, 1.0).delay(50, Fixed(0.999)) == 1.0
    assert Backoff(0.1, 1.0).delay(50, Fixed(0.0)) == pytest.approx(0.8)


def test_an_initial_delay_above_the_maximum_is_capped():
    assert Backoff(5.0, 1.0).delay(1, MIDDLE) == pytest.approx(1.0)


@settings(deadline=None, max_examples=100)
@given(attempts=st.integers(-5, 10**9), initial=st.floats(0, 10), maximum=st.floats(0, 100), seed=st.integers())
def test_any_number_of_failures_gives_a_finite_delay(attempts, initial, maximum, seed):
    delay = Backoff(initial, maximum).delay(attempts, random.Random(seed))
    assert (min(initial, maximum) if attempts > 0 else 0) <= delay <= maximum
    assert math.isfinite(delay)


def test_the_same_seed_gives_the_same_delays():
    waits = [[Backoff(0.1, 1.0).delay(n, rng) for n in range(9)] for rng in (random.Random(7), random.Random(7))]
    assert waits[0] == waits[1]


def test_a_new_retry_may_send_at_once():
    assert Retry(Backoff(0.1, 1.0), MIDDLE).may_send(-1e9)


def test_a_retry_may_not_send_while_a_request_is_in_flight():
    retry = Retry(Backoff(0.1, 1.0), MIDDLE)
    retry.sent()
    assert not retry.may_send(1e9)


def test_the_backoff_grows_with_failures_and_a_success_resets_it():
    retry = Retry(Backoff(0.1, 1.0), MIDDLE)
    for expected in (0.11, 0.2, 0.4):
        retry.sent()
        retry.failed(100.0)
        assert retry.pause.at == pytest.approx(100.0 + expected)
        assert not retry.may_send(100.0 + expected - 0.001)
        assert retry.may_send(retry.pause.at)
    retry.sent()
    retry.succeeded()
    assert retry.may_send(0.0)
    retry.failed(100.0)
    assert retry.pause.at == pytest.approx(100.11)


def test_shared_jitter_returns_one_value_until_it_is_drawn_again():
    jitter = SharedJitter(random.Random(1))
    backoff = Backoff(0.1, 1.0)
    before = backoff.delay(3, jitter), jitter.random(), jitter.randrange(100)
    assert (backoff.delay(3, jitter), jitter.random(), jitter.randrange(100)) == before
    assert 0 <= before[2] < 100
    jitter.redraw()
    assert backoff.delay(3, jitter) != before[0]
