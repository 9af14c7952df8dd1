"""What both kinds of members use: the time between two polls, and counters with timings."""

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.group.membership import PollTimer, Timing
from thinconsumer.timers import NEVER


@pytest.fixture
def options():
    return ConsumerConfig(group_id="g", max_poll_interval_ms=60_000)


def test_the_poll_timer_measures_gaps_between_calls_and_between_polls(options):
    poll_timer = PollTimer(options)
    assert poll_timer.overdue_at() == NEVER and poll_timer.seconds_since_poll(5.0) == 0.0
    assert [poll_timer.called(now) for now in (5.0, 5.0, 17.0)] == [0.0, 0.0, 12.0]
    poll_timer.polled(20.0)
    assert poll_timer.polled_at == 20.0 and poll_timer.overdue_at() == 80.0
    assert poll_timer.seconds_since_poll(23.5) == 3.5


def test_a_timing_keeps_count_last_total_and_highest():
    timing = Timing()
    for seconds in (1.0, 3.0, 2.0):
        timing.add(seconds)
    assert (timing.count, timing.last, timing.total, timing.highest) == (3, 2.0, 6.0, 3.0)
