"""Credentials are replaced before they expire, and failed attempts wait for a backoff."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.sasl.refresh import LEAST_PERIOD, Refresh, refresh_after
from thinconsumer.support.agenda import Agenda

WALL = 1_700_000_000.0
OPTIONS = SimpleNamespace(
    sasl_login_refresh_window_factor=0.8,
    sasl_login_refresh_window_jitter=0.05,
    sasl_login_refresh_min_period_seconds=60,
    sasl_login_refresh_buffer_seconds=300,
    sasl_login_retry_backoff_ms=100,
    sasl_login_retry_backoff_max_ms=10_000,
)


class Lowest:
    def random(self):
        return 0.0


def refresh():
    return Refresh(OPTIONS, random.Random(1), Agenda().alarm())


@pytest.mark.parametrize(
    ("lifetime", "seconds"),
    [
        (3600, 2880),  # the window
        (1000, 700),  # the buffer before the expiry
        (360, 60),
        (359, 359 * 0.8),  # too short for both bounds, so they do not count
        (10, 8),
        (0.5, LEAST_PERIOD),
    ],
)
def test_refresh_times_are_javas(lifetime, seconds):
    assert refresh_after(lifetime, OPTIONS, Lowest()) == pytest.approx(seconds)


@given(st.floats(2, 1e8), st.floats(0.5, 1), st.floats(0, 0.25), st.integers(0, 900), st.integers(0, 3600))
def test_a_refresh_is_due_before_the_expiry(lifetime, factor, jitter, first, buffer):
    options = SimpleNamespace(
        sasl_login_refresh_window_factor=factor,
        sasl_login_refresh_window_jitter=jitter,
        sasl_login_refresh_min_period_seconds=first,
        sasl_login_refresh_buffer_seconds=buffer,
    )
    after = refresh_after(lifetime, options, Lowest())
    assert LEAST_PERIOD <= after <= lifetime


def test_failures_back_off_and_keep_the_credential():
    one = refresh()
    one.succeeded(WALL + 100, 0.0, WALL)
    delays = []
    now = 85.0
    for _ in range(12):
        one.failed(now, retriable=True)
        delays.append(one.planned.at - now)
        now = one.planned.at
    assert one.is_valid(WALL + 99)
    assert 0.08 <= delays[0] <= 0.12
    assert 8 <= delays[-1] <= 10
    assert one.has_lasted(now)
    one.succeeded(WALL + 1000, now, WALL)
    assert not one.has_lasted(now + 1000)


def test_a_credential_that_expires_at_once_is_not_replaced_without_end():
    """Each attempt gives another credential that has expired by the time of the next check."""
    one = refresh()
    one.succeeded(WALL + 0.001, 10.0, WALL)
    assert not one.is_valid(WALL + 0.001)
    assert not one.is_due(10.002, WALL + 0.002)
    assert one.is_due(10.0 + LEAST_PERIOD, WALL + LEAST_PERIOD)


def test_a_rejected_credential_is_replaced_earlier_but_not_in_a_loop():
    one = refresh()
    one.succeeded(WALL + 3600, 10.0, WALL)
    one.rejected(11.0)
    assert one.planned.at == 20.0  # sasl_login_retry_backoff_max_ms after the last success
    one.rejected(500.0)
    assert one.planned.at == 20.0
    one.succeeded(WALL + 3600, 100.0, WALL)
    one.rejected(500.0)
    assert one.planned.at == 500.0
