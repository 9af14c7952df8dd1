"""What follows from two rounds of a group: pure functions of what was read, and when."""

import math

import pytest

from thinconsumer import TopicPartition
from thinconsumer.admin import CLASSIC, GroupDescription, MemberDescription
from thinconsumer.cli.watch import GroupAt, GroupWatch, Offsets, catch_up_s, rate, total

A, B, C = (TopicPartition("orders", number) for number in range(3))
MEMBER = MemberDescription("m-1", None, "client", "/127.0.0.1", CLASSIC, assignment=(A, C))
GROUP = GroupDescription("g", CLASSIC, "Stable", "consumer", "range", (MEMBER,))


def at(seconds, offsets, error=""):
    return GroupAt(seconds, GROUP, {tp: Offsets(*each) for tp, each in offsets.items()}, error)


def watched(*rounds):
    watch = GroupWatch("g")
    for one in rounds:
        watch.add(one)
    return watch


@pytest.mark.parametrize(
    ("before", "now", "seconds", "expected"),
    [(10, 30, 4, 5.0), (10, 10, 4, 0.0), (30, 10, 4, None), (None, 10, 4, None), (10, None, 4, None), (1, 2, 0, None)],
)
def test_a_rate_is_unknown_after_a_reset_and_without_two_values(before, now, seconds, expected):
    assert rate(before, now, seconds) == expected


@pytest.mark.parametrize(
    ("lag", "consumed", "produced", "expected"),
    [
        (100, 30.0, 10.0, 5.0), (100, 10.0, 10.0, math.inf), (100, 0.0, 5.0, math.inf), (0, None, None, 0.0),
        (None, 3.0, 1.0, None), (5, None, 1.0, None),
    ],
)  # fmt: skip
def test_the_time_to_catch_up(lag, consumed, produced, expected):
    assert catch_up_s(lag, consumed, produced) == expected


def test_partitions_with_most_lag_come_first_and_those_that_are_unknown_last():
    watch = watched(at(10, {A: (5, 10), B: (None, 7)}), at(12, {A: (9, 20), B: (None, 7), C: (0, 50)}))
    first, second, third = watch.views()
    assert (first.tp, first.lag, first.consumed, first.catch_up_s, first.member) == (C, 50, None, None, MEMBER)
    assert (second.tp, second.lag, second.consumed, second.produced, second.catch_up_s) == (A, 11, 2.0, 5.0, math.inf)
    assert (third.tp, third.lag, third.unmoved_s, third.member) == (B, None, None, None)
    assert total(watch.views()) == (61, 2.0, 5.0, 0.0, 1)


def test_a_group_has_caught_up_when_its_last_partition_has():
    watch = watched(at(0, {A: (0, 100), B: (0, 200), C: (0, 10)}), at(10, {A: (50, 100), B: (50, 200), C: (0, 10)}))
    assert total(watch.views()) == (210, 10.0, 0.0, 30.0, 1)


def test_assigned_partitions_without_a_commit_are_shown():
    assert {one.tp for one in watched(at(1, {})).views()} == {A, C}


def test_it_is_known_since_when_an_offset_has_not_moved():
    rounds = [at(second, {A: (min(second, 3), 10), B: (4, 4)}) for second in range(1, 9)]
    views = {one.tp: one for one in watched(*rounds).views()}
    assert views[A].unmoved_s == 5
    assert views[B].unmoved_s is None  # there is nothing to consume


def test_rates_are_those_of_half_a_minute():
    """Commits every 5 s and rounds every second: the last second alone would show 0 or 50 per second."""
    rounds = [at(second, {A: (second // 5 * 50, 10_000)}) for second in range(200)]
    watch = watched(*rounds)
    assert watch.views()[0].consumed == pytest.approx(10, rel=0.2)
    assert len(watch.rounds) <= 32
    slow = watched(at(0, {A: (0, 10)}), at(100, {A: (100, 200)}), at(200, {A: (300, 400)}))
    assert slow.views()[0].consumed == 2.0


def test_an_error_keeps_the_last_view():
    watch = watched(at(1, {A: (1, 5)}), GroupAt(2, error="no broker"))
    assert watch.failing and watch.last_error == (2, "no broker")
    assert watch.views()[0].lag == 4 and watch.rounds[-1].at == 1
    watch.add(at(3, {A: (2, 5)}))
    assert not watch.failing and watch.last_error == (2, "no broker")
