"""An assignor for clients as the embedded broker calls it."""

from typing import NamedTuple

import pytest

from thinconsumer.assignors import Assignment, CooperativeStickyAssignor, PartitionAssignor, StickyAssignor
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.types import Node, TopicPartition
from thinconsumer_testing import ServerSideAssignor


class Member(NamedTuple):
    topics: frozenset
    rack_id: str | None = None
    instance_id: str | None = None
    partitions: frozenset = frozenset()


class Noting(PartitionAssignor):
    name = "noting"

    def __init__(self, plan):
        self.plan = plan

    def assign(self, cluster, subscriptions):
        self.cluster, self.subscriptions = cluster, subscriptions
        return {member: Assignment(tuple(share), b"dropped") for member, share in self.plan.items()}


def tps(*numbers):
    return frozenset(TopicPartition("t", n) for n in numbers)


def test_it_gets_partitions_numbered_from_zero_on_with_their_racks():
    inner = Noting({"ann": [TopicPartition("t", 1)], "bob": []})
    members = {"ann": Member(frozenset({"u", "t"}), "a", "i", tps(5)), "bob": Member(frozenset())}
    topics = {"t": {4: frozenset("ab"), 5: frozenset("b")}}
    assert ServerSideAssignor(inner).assign(members, topics) == {"ann": [TopicPartition("t", 5)], "bob": []}
    assert [p.partition for p in inner.cluster.partitions["t"]] == [0, 1]
    assert [inner.cluster.racks(p) for p in inner.cluster.partitions["t"]] == [frozenset("ab"), frozenset("b")]
    assert set(inner.cluster.nodes.values()) == {Node(1, "", -1, "a"), Node(2, "", -1, "b")}
    ann = inner.subscriptions["ann"]
    assert (ann.topics, ann.user_data, ann.owned_partitions) == (("t", "u"), None, (TopicPartition("t", 1),))
    assert (ann.rack_id, ann.group_instance_id) == ("a", "i")


@pytest.mark.parametrize("wrong", [("t", 2), ("t", 4), ("t", -1), ("x", 0)])
def test_a_partition_that_it_did_not_get_is_an_error(wrong):
    adapted = ServerSideAssignor(Noting({"ann": [TopicPartition(*wrong)]}))
    with pytest.raises(ValueError, match=f"{wrong[0]}-{wrong[1]}, which does not exist"):
        adapted.assign({"ann": Member(frozenset({"t"}))}, {"t": {4: frozenset(), 5: frozenset()}})


def test_sticky_keeps_the_last_target():
    adapted = ServerSideAssignor(StickyAssignor())
    members = {"ann": Member(frozenset({"t"}), partitions=tps(0, 3)), "bob": Member(frozenset({"t"}))}
    plan = adapted.assign(members, {"t": dict.fromkeys(range(4), frozenset())})
    assert (set(plan["ann"]), set(plan["bob"])) == (tps(0, 3), tps(1, 2))


def test_only_assignors_that_assign_all_partitions_at_once_are_taken():
    with pytest.raises(IllegalArgumentError, match="cooperative-sticky is cooperative"):
        ServerSideAssignor(CooperativeStickyAssignor())
    with pytest.raises(IllegalArgumentError, match="no PartitionAssignor"):
        ServerSideAssignor(StickyAssignor)
