"""The range assignor: consecutive partitions, co-partitioned, static members first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thinconsumer_testing.broker.group.consumer.assignors.range_assignor import assign_ranges
from thinconsumer_testing.broker.group.consumer.assignors.spec import MemberSpec

A, B = b"a" * 16, b"b" * 16
BOTH = frozenset({A, B})


def test_topics_with_equal_counts_are_co_partitioned() -> None:
    assignment = assign_ranges({"m2": MemberSpec(BOTH), "m1": MemberSpec(BOTH)}, {A: 3, B: 3})
    assert assignment == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m2": {A: frozenset({2}), B: frozenset({2})},
    }


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    members = {
        "a": MemberSpec(BOTH),
        "b": MemberSpec(BOTH, instance_id="host-2"),
        "c": MemberSpec(BOTH, instance_id="host-1"),
    }
    assignment = assign_ranges(members, {A: 3, B: 1})
    assert assignment["c"] == {A: frozenset({0}), B: frozenset({0})}
    assert assignment["b"] == {A: frozenset({1})}
    assert assignment["a"] == {A: frozenset({2})}


def test_only_subscribers_share_a_topic() -> None:
    members = {"m1": MemberSpec(BOTH), "m2": MemberSpec(frozenset({B})), "m3": MemberSpec(frozenset())}
    assert assign_ranges(members, {A: 2, B: 3}) == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "m2": {B: frozenset({2})},
        "m3": {},
    }


@given(st.lists(st.frozensets(st.sampled_from((A, B))), max_size=6), st.integers(0, 9), st.integers(0, 9))
def test_every_partition_has_one_owner_in_a_range(subscribed: list[frozenset[bytes]], a: int, b: int) -> None:
    counts = {A: a, B: b}
    members = {f"m{number}": MemberSpec(topics) for number, topics in enumerate(subscribed)}
    assignment = assign_ranges(members, counts)
    for topic_id in frozenset().union(*subscribed):
        found = [target[topic_id] for target in assignment.values() if topic_id in target]
        assert sorted(index for indexes in found for index in indexes) == list(range(counts[topic_id]))
        assert all(max(indexes) - min(indexes) + 1 == len(indexes) for indexes in found)
        among = sum(topic_id in topics for topics in subscribed)
        assert all(counts[topic_id] // among <= len(one) <= -(-counts[topic_id] // among) for one in found)
