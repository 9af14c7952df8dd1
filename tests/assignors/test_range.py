"""Range: runs of neighbours. That plans are Java's is shown in ``tests/real``; here is what they look like."""

from __future__ import annotations

from thinconsumer.assignors.range import RangeAssignor


def test_equal_numbers_of_all_topics_stay_together_and_the_first_get_more(cluster, member, words):
    plan = RangeAssignor().assign(cluster(t=5, u=3), {"b": member("t u"), "a": member("u t")})
    assert words(plan) == {"a": "t-0 t-1 t-2 u-0 u-1", "b": "t-3 t-4 u-2"}


def test_more_members_than_partitions(cluster, member, words):
    members = dict.fromkeys("abc", member("t"))
    assert words(RangeAssignor().assign(cluster(t=2), members)) == {"a": "t-0", "b": "t-1", "c": ""}


def test_pain_E10_static_members_come_first_by_instance_id(cluster, member, words):
    """A static member that restarts gets a new member id, and what it had."""
    for restarted in "ax":
        members = {restarted: member("t", instance="i1"), "b": member("t", instance="i2"), "c": member("t")}
        assert words(RangeAssignor().assign(cluster(t=3), members)) == {restarted: "t-0", "b": "t-1", "c": "t-2"}


def test_within_racks_as_long_as_the_counts_allow(cluster, member, words):
    """KIP-881. The run a member would get is 0 and 1; what is in its rack is 2 and 3."""
    members = {"m": member("t", rack="a"), "n": member("t", rack="b")}
    assert words(RangeAssignor().assign(cluster(t="b b a a"), members)) == {"m": "t-2 t-3", "n": "t-0 t-1"}
    assert words(RangeAssignor().assign(cluster(t="a a a b"), members)) == {"m": "t-0 t-1", "n": "t-2 t-3"}


def test_racks_do_not_part_equal_numbers_of_topics_that_belong_together(cluster, member, words):
    """Only where both topics are in a member's rack is the number given for that reason."""
    members = {"m": member("t u", rack="a"), "n": member("t u", rack="b")}
    plan = RangeAssignor().assign(cluster(t="b a", u="b a"), members)
    assert words(plan) == {"m": "t-1 u-1", "n": "t-0 u-0"}
    plan = RangeAssignor().assign(cluster(t="b a", u="a b"), members)
    assert words(plan) == {"m": "t-0 u-0", "n": "t-1 u-1"}
    plan = RangeAssignor().assign(cluster(t="b a b a", u="b a b a"), members)
    assert words(plan) == {"m": "t-1 t-3 u-1 u-3", "n": "t-0 t-2 u-0 u-2"}


def test_one_extra_partition_goes_to_whom_more_fits(cluster, member, words):
    members = {"m": member("t u", rack="b"), "n": member("t u", rack="a")}
    plan = RangeAssignor().assign(cluster(t="a a b", u="a a b"), members)
    assert words(plan) == {"m": "t-2 u-2", "n": "t-0 t-1 u-0 u-1"}


def test_a_topic_that_is_everywhere_keeps_its_runs_beside_one_that_is_not(cluster, member, words):
    members = {"m": member("t u", rack="c"), "n": member("t u", rack="a")}
    plan = RangeAssignor().assign(cluster(t="ab ab", u="a b b"), members)
    assert words(plan) == {"m": "t-0 u-1 u-2", "n": "t-1 u-0"}


def test_replicas_everywhere_or_members_elsewhere_leave_the_runs_alone(cluster, member, words):
    runs = {"m": "t-0 t-1", "n": "t-2 t-3"}
    members = {"m": member("t", rack="b"), "n": member("t", rack="a")}
    assert words(RangeAssignor().assign(cluster(t="ab ab ab ab"), members)) == runs
    members = {"m": member("t", rack="c"), "n": member("t", rack="d")}
    assert words(RangeAssignor().assign(cluster(t="a a b b"), members)) == runs


def test_topics_that_are_not_known_and_members_that_want_nothing(cluster, member, words):
    members = {"a": member("t unknown"), "b": member("", rack="a")}
    assert words(RangeAssignor().assign(cluster(t=1), members)) == {"a": "t-0", "b": ""}
    assert RangeAssignor().assign(cluster(t=1), {}) == {}
