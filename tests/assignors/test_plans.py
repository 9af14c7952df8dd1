"""Validation of assignments: what is rejected, and that the error names the assignor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinconsumer.assignors.base import Assignment
from thinconsumer.assignors.plans import (
    bits,
    checked,
    in_order,
    member_racks,
    next_bit,
    partition_racks,
    racks_matter,
    readers,
)
from thinconsumer.errors import InvalidAssignmentError
from thinconsumer.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"a": Assignment((T0,)), "b": Assignment((T0,))}, "assigned t-0 twice: to a and b"),
        ({"a": Assignment((T0, T0))}, "assigned t-0 twice: to a and a"),
        ({"b": Assignment((U0,))}, "assigned u-0 to b, which is not subscribed to it"),
        ({"a": Assignment((TopicPartition("t", 2),))}, "assigned t-2 to a, but the topic has 2 partitions"),
        ({"a": Assignment((TopicPartition("t", -1),))}, "assigned t--1 to a"),
        ({"x": Assignment()}, "assigned partitions to x, which is not in the group"),
        ({"a": [T0]}, "returned list instead of Assignment for member a"),
    ],
)
def test_an_invalid_assignment_raises_an_error_that_names_the_assignor(cluster, member, plan, says):
    members = {"a": member("t u"), "b": member("t")}
    with pytest.raises(InvalidAssignmentError) as caught:
        checked("mine", plan, cluster(t=2, u=1), members)
    assert str(caught.value).startswith("assignor 'mine'")
    assert says in str(caught.value)
    assert caught.value.assignor == "mine"


def test_a_member_missing_in_the_result_gets_an_empty_assignment(cluster, member):
    """Some clients fail on an assignment of zero bytes."""
    share = Assignment((T0,), b"data")
    assert checked("mine", {"a": share}, cluster(t=2), {"a": member("t"), "b": member("t")}) == {
        "a": share,
        "b": Assignment(),
    }


def test_a_cooperative_assignment_must_not_move_an_owned_partition(cluster, member):
    members = {"a": member("t", "t-0 t-1"), "b": member("t")}
    plan = {"a": Assignment((T0,)), "b": Assignment((T1,))}
    with pytest.raises(InvalidAssignmentError, match="assigned t-1 to b, but a owns it"):
        checked("mine", plan, cluster(t=2), members, cooperative=True)
    assert checked("mine", plan, cluster(t=2), members) == plan, "eager members have given up everything"


def test_topics_are_sorted_as_in_java(cluster, member):
    names = ["\uffe0", "\U0001f600", "a"]
    members = {"m": member(" ".join([*names, "unknown"]))}
    assert [*readers(cluster(**dict.fromkeys(names, 1)), ["m"], members)] == ["a", "\U0001f600", "\uffe0"]
    tps = [TopicPartition(name, number) for name in names for number in (10, 9)]
    assert [tp.partition for tp in in_order(tps)] == [9, 10] * 3
    assert [tp.topic for tp in in_order(tps)][::2] == ["a", "\U0001f600", "\uffe0"]


@given(st.sets(st.integers(0, 200)))
def test_bits_are_yielded_in_ascending_order(numbers):
    assert list(bits(sum(1 << number for number in numbers))) == sorted(numbers)


@given(st.sets(st.integers(0, 80), min_size=1), st.integers(0, 90))
def test_the_next_bit_wraps_around(numbers, start):
    expected = min((number for number in numbers if number >= start), default=min(numbers))
    assert next_bit(sum(1 << number for number in numbers), start) == expected


def test_subscribers_by_topic_with_a_topic_named_twice(cluster, member):
    subscriptions = {"a": member("t u t"), "b": member("u"), "c": member("")}
    assert readers(cluster(t=1, u=1, v=1), ["c", "b", "a"], subscriptions) == {"t": 0b100, "u": 0b110}


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
