"""The owners of partitions according to the members' claims."""

from thinconsumer.assignors.claims import Claim, find_owners
from thinconsumer.types import ClusterView, PartitionInfo, TopicPartition

T0, T1, T9 = (TopicPartition("t", number) for number in (0, 1, 9))
TOPICS = ClusterView({"t": tuple(PartitionInfo("t", number, 1, 0, (), (), ()) for number in range(3))}, {})


def test_a_single_claim_makes_an_owner():
    owned = find_owners({"a": Claim([T0], 5), "b": Claim([T1], 4), "c": Claim()}, TOPICS)
    assert owned.owners == {T0: "a", T1: "b"}
    assert not owned.disputed


def test_two_claims_from_one_generation_make_no_owner():
    owned = find_owners({"a": Claim([T0], 5), "b": Claim([T0], 5), "c": Claim([T0], 4)}, TOPICS)
    assert owned.owners == {}, "an older claim counts only while nobody newer makes one"
    assert owned.disputed == {T0}
    assert all(owned.held_by_others(T0, member) for member in "abcd")


def test_the_newer_generation_wins_in_any_order():
    for order in (("old", "new"), ("new", "old")):
        claims = {name: Claim([T0], {"old": 5, "new": 6}[name]) for name in order}
        owned = find_owners(claims, TOPICS)
        assert owned.owners == {T0: "new"}
        assert owned.held_by_others(T0, "old")
        assert not owned.held_by_others(T0, "new")


def test_a_newer_claim_wins_over_two_disputed_older_ones():
    owned = find_owners({"a": Claim([T0], 5), "b": Claim([T0], 5), "c": Claim([T0], 6)}, TOPICS)
    assert owned.owners == {T0: "c"}
    assert not owned.disputed


def test_an_unknown_generation_is_older_than_all_others():
    """Any negative number counts as unknown."""
    assert find_owners({"a": Claim([T0], -7), "b": Claim([T0], 0)}, TOPICS).owners == {T0: "b"}
    assert find_owners({"a": Claim([T0], -7), "b": Claim([T0], -1)}, TOPICS).disputed == {T0}


def test_a_partition_named_twice_by_one_member_is_not_disputed():
    assert find_owners({"a": Claim([T0, T0], 5)}, TOPICS).owners == {T0: "a"}


def test_claims_to_partitions_that_do_not_exist_are_dropped():
    """A topic was deleted and created again with fewer partitions."""
    owned = find_owners({"a": Claim([T9, TopicPartition("gone", 0), TopicPartition("t", -1), T1], 5)}, TOPICS)
    assert owned.owners == {T1: "a"}
