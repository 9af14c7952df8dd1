"""When racks matter for an assignment (KIP-881)."""

import pytest

from thinconsumer.assignors.racks import member_racks, partition_racks, racks_matter
from thinconsumer.types import TopicPartition

A, B, AB, NONE = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset()


@pytest.mark.parametrize(
    ("members", "partitions", "matters"),
    [
        ("a", [A, B], True),
        ("a", [AB, A], True),
        ("a", [AB, NONE], True),
        ("a", [A, A], False),  # all partitions have replicas in all racks
        ("ab", [AB, AB], False),
        ("c", [A, B], False),  # no member is in a rack with replicas
        ("", [A, B], False),
        ("a", [NONE, NONE], False),
        ("a", [], False),
    ],
)
def test_racks_matter_only_if_members_differ_in_local_replicas(members, partitions, matters):
    assert racks_matter(list(members), partitions) is matters


def test_members_without_a_rack_and_nodes_without_one_are_left_out(cluster, member):
    members = {"m": member("t", rack="a"), "n": member("t"), "o": member("t", rack="")}
    assert member_racks(members) == {"m": "a"}
    racks = partition_racks(cluster(t="ab a- -"), ["t"])
    assert racks == {TopicPartition("t", 0): AB, TopicPartition("t", 1): A, TopicPartition("t", 2): NONE}
