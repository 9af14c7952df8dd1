"""The round robin assignor, by examples; ``tests/real`` compares it with Java's."""

from thinconsumer.assignors.roundrobin import RoundRobinAssignor


def test_the_turn_continues_from_topic_to_topic(cluster, member, words):
    plan = RoundRobinAssignor().assign(cluster(t=3, u=3), {"b": member("u t"), "a": member("t u")})
    assert words(plan) == {"a": "t-0 t-2 u-1", "b": "t-1 u-0 u-2"}


def test_members_not_subscribed_to_a_topic_are_skipped(cluster, member, words):
    members = {"a": member("t"), "b": member("t u"), "c": member("t u v")}
    plan = RoundRobinAssignor().assign(cluster(t=1, u=2, v=3), members)
    assert words(plan) == {"a": "t-0", "b": "u-0", "c": "u-1 v-0 v-1 v-2"}


def test_static_members_come_first_by_instance_id(cluster, member, words):
    members = {"a": member("t"), "z": member("t", instance="i1"), "y": member("t", instance="i2")}
    assert words(RoundRobinAssignor().assign(cluster(t=3), members)) == {"a": "t-2", "z": "t-0", "y": "t-1"}


def test_unknown_topics_and_members_without_topics(cluster, member, words):
    members = {"a": member("t unknown"), "b": member("")}
    assert words(RoundRobinAssignor().assign(cluster(t=1), members)) == {"a": "t-0", "b": ""}
    assert words(RoundRobinAssignor().assign(cluster(), members)) == {"a": "", "b": ""}
    assert RoundRobinAssignor().assign(cluster(t=1), {}) == {}
