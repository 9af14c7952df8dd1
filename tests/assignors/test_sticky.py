"""The eager sticky assignor: its user data and the claims that it accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.assignors.base import Assignment, GroupMetadata, RebalanceProtocol
from thinconsumer.assignors.sticky import Claim, StickyAssignor, find_owners, read_claim
from thinconsumer.types import ClusterView, PartitionInfo, TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
T9 = TopicPartition("t", 9)
TOPICS = ClusterView({"t": tuple(PartitionInfo("t", number, 1, 0, (), (), ()) for number in range(3))}, {})
JAVAS = bytes.fromhex("0000000100017400000002000000000000000100000007")


def user_data_of(*tps, generation=7):
    assignor = StickyAssignor()
    assignor.on_assignment(Assignment(tps), GroupMetadata("g", generation, "m"))
    return assignor.subscription_user_data(["t"])


def test_it_is_eager_and_has_no_user_data_before_the_first_assignment():
    assert set(StickyAssignor().supported_protocols) == {RebalanceProtocol.EAGER}
    assert StickyAssignor().subscription_user_data(["t"]) is None


def test_the_previous_assignment_is_encoded_as_by_java():
    assert user_data_of(T1, T0) == JAVAS


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        (JAVAS, Claim([T0, T1], 7)),
        (JAVAS[:-4], Claim([T0, T1], -1)),  # Java's version 0
        (b"\0\1" + JAVAS, Claim([T0, T1], 7)),  # kafka-python's, with a version in front
        (JAVAS + b"more", Claim([T0, T1], 7)),
        (b"\0\0\0\0\0\0\0\5", Claim([], 5)),
        (None, Claim()),
        (b"", Claim()),
        (b"\xff" * 40, Claim()),
        (b"\x7f\xff\xff\xff", Claim()),
        (JAVAS[:-6], Claim()),
    ],
)
def test_user_data_of_other_clients_and_versions_are_read(data, claim):
    assert read_claim(data) == claim


@given(st.binary(max_size=60))
def test_any_bytes_as_user_data_are_accepted(data):
    assert isinstance(read_claim(data), Claim)


def test_members_keep_partitions_and_the_rest_goes_to_the_least_loaded(cluster, member, words):
    members = {
        "a": member("t u", user_data=user_data_of(T0, T1)),
        "b": member("t u", user_data=user_data_of(U0)),
        "c": member("t u"),
    }
    plan = StickyAssignor().assign(cluster(t=4, u=2), members)
    assert words(plan) == {"a": "t-0 t-1", "b": "t-2 u-0", "c": "t-3 u-1"}


def test_owned_partitions_of_eager_members_are_ignored(cluster, member, words):
    """Eager members revoke all partitions before they join."""
    members = {"a": member("t", "t-1", generation=7), "b": member("t")}
    assert words(StickyAssignor().assign(cluster(t=2), members)) == {"a": "t-0", "b": "t-1"}


def test_of_two_previous_owners_the_newer_generation_wins(cluster, member, words):
    members = {
        "a": member("t", user_data=user_data_of(T1, generation=6)),
        "b": member("t", user_data=user_data_of(T1, generation=7)),
    }
    assert words(StickyAssignor().assign(cluster(t=2), members)) == {"a": "t-0", "b": "t-1"}


def test_a_member_without_topics_gets_no_partitions(cluster, member, words):
    members = {"a": member("", user_data=user_data_of(T0)), "b": member("t")}
    assert words(StickyAssignor().assign(cluster(t=2), members)) == {"a": "", "b": "t-0 t-1"}


# -- the owners of partitions according to the members' claims


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
