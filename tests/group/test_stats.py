"""The counters and timings of a member."""

from thinconsumer.group.stats import Timing


def test_a_timing_keeps_count_last_total_and_highest():
    timing = Timing()
    for seconds in (1.0, 3.0, 2.0):
        timing.add(seconds)
    assert (timing.count, timing.last, timing.total, timing.highest) == (3, 2.0, 6.0, 3.0)
