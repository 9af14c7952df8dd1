"""What both kinds of members use: counters with timings."""

from thinconsumer.group.membership import Timing


def test_a_timing_keeps_count_last_total_and_highest():
    timing = Timing()
    for seconds in (1.0, 3.0, 2.0):
        timing.add(seconds)
    assert (timing.count, timing.last, timing.total, timing.highest) == (3, 2.0, 6.0, 3.0)
