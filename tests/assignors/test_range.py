"""The range assignor, by examples; ``tests/real`` compares it with Java's."""

from thinconsumer.assignors.range import RangeAssignor


def test_topics_are_copartitioned_and_the_first_members_get_one_more(cluster, member, words):
    plan = RangeAssignor().assign(cluster(t=5, u=3), {"b": member("t u"), "a": member("u t")})
    assert words(plan) == {"a": "t-0 t-1 t-2 u-0 u-1", "b": "t-3 t-4 u-2"}


def test_more_members_than_partitions(cluster, member, words):
    members = dict.fromkeys("abc", member("t"))
    assert words(RangeAssignor().assign(cluster(t=2), members)) == {"a": "t-0", "b": "t-1", "c": ""}


def test_static_members_come_first_by_instance_id(cluster, member, words):
    """A static member that restarts has a new member id and gets the same partitions."""
    for restarted in "ax":
        members = {restarted: member("t", instance="i1"), "b": member("t", instance="i2"), "c": member("t")}
        assert words(RangeAssignor().assign(cluster(t=3), members)) == {restarted: "t-0", "b": "t-1", "c": "t-2"}


def test_partitions_within_racks_are_preferred_with_equal_counts(cluster, member, words):
    """KIP-881. Without racks the member would get 0 and 1; in its rack are 2 and 3."""
    members = {"m": member("t", rack="a"), "n": member("t", rack="b")}
    assert words(RangeAssignor().assign(cluster(t="b b a a"), members)) == {"m": "t-2 t-3", "n": "t-0 t-1"}
    assert words(RangeAssignor().assign(cluster(t="a a a b"), members)) == {"m": "t-0 t-1", "n": "t-2 t-3"}


def test_racks_keep_topics_copartitioned(cluster, member, words):
    """A number is assigned by rack only if both topics have a replica there."""
    members = {"m": member("t u", rack="a"), "n": member("t u", rack="b")}
    plan = RangeAssignor().assign(cluster(t="b a", u="b a"), members)
    assert words(plan) == {"m": "t-1 u-1", "n": "t-0 u-0"}
    plan = RangeAssignor().assign(cluster(t="b a", u="a b"), members)
    assert words(plan) == {"m": "t-0 u-0", "n": "t-1 u-1"}
    plan = RangeAssignor().assign(cluster(t="b a b a", u="b a b a"), members)
    assert words(plan) == {"m": "t-1 t-3 u-1 u-3", "n": "t-0 t-2 u-0 u-2"}


def test_the_extra_partition_goes_to_the_member_with_more_local_replicas(cluster, member, words):
    members = {"m": member("t u", rack="b"), "n": member("t u", rack="a")}
    plan = RangeAssignor().assign(cluster(t="a a b", u="a a b"), members)
    assert words(plan) == {"m": "t-2 u-2", "n": "t-0 t-1 u-0 u-1"}


def test_a_topic_with_replicas_in_all_racks_is_assigned_without_racks(cluster, member, words):
    members = {"m": member("t u", rack="c"), "n": member("t u", rack="a")}
    plan = RangeAssignor().assign(cluster(t="ab ab", u="a b b"), members)
    assert words(plan) == {"m": "t-0 u-1 u-2", "n": "t-1 u-0"}


def test_replicas_in_all_racks_or_in_no_members_rack_are_assigned_without_racks(cluster, member, words):
    runs = {"m": "t-0 t-1", "n": "t-2 t-3"}
    members = {"m": member("t", rack="b"), "n": member("t", rack="a")}
    assert words(RangeAssignor().assign(cluster(t="ab ab ab ab"), members)) == runs
    members = {"m": member("t", rack="c"), "n": member("t", rack="d")}
    assert words(RangeAssignor().assign(cluster(t="a a b b"), members)) == runs


def test_unknown_topics_and_members_without_topics(cluster, member, words):
    members = {"a": member("t unknown"), "b": member("", rack="a")}
    assert words(RangeAssignor().assign(cluster(t=1), members)) == {"a": "t-0", "b": ""}
    assert RangeAssignor().assign(cluster(t=1), {}) == {}
