"""The counters and timings of a member."""

from __future__ import annotations

from thinconsumer.group.classic.stats import MemberStats, Timing


def test_a_timing_keeps_count_last_total_and_highest():
    timing = Timing()
    for seconds in (1.0, 3.0, 2.0):
        timing.add(seconds)
    assert (timing.count, timing.last, timing.total, timing.highest) == (3, 2.0, 6.0, 3.0)


def test_members_do_not_share_their_counts():
    one, other = MemberStats(), MemberStats()
    one.joins.add(1.0)
    assert other.joins.count == 0 and other.heartbeat_at is None
