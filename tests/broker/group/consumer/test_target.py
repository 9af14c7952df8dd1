"""The records of a new target assignment: only those of members whose target changes, then its epoch."""

from __future__ import annotations

import pytest

from thinconsumer.broker.group.consumer import records
from thinconsumer.broker.group.consumer.group import ConsumerGroup, ResolvedRegex
from thinconsumer.broker.group.consumer.member import ConsumerGroupMember
from thinconsumer.broker.group.consumer.target import new_target
from thinconsumer.broker.group.records import ReplayedState
from thinconsumer.broker.image import ClusterImage, PartitionImage, TopicImage

A = b"a" * 16


@pytest.fixture
def image() -> ClusterImage:
    found = ClusterImage("c")
    rows = tuple(PartitionImage("a", A, n, 1, 0, (1,), (1,)) for n in range(4))
    found.put_topic(TopicImage("a", A, rows, {}))
    return found


def state_of(*members: ConsumerGroupMember) -> ReplayedState:
    state = ReplayedState()
    group = state.groups["g"] = ConsumerGroup("g")
    group.epoch = 7
    for member in members:
        group.put_member(member)
    return state


def assign(state: ReplayedState, image: ClusterImage) -> int:
    """Apply a new target assignment, and return the number of its records."""
    group = state.consumer_group("g")
    assert group is not None
    found = list(new_target(group, image, "uniform", 5))
    for record in found:
        record.change(state, 0)
    return len(found)


def test_unchanged_targets_are_not_written(image: ClusterImage) -> None:
    names = frozenset({"a"})
    state = state_of(*(ConsumerGroupMember(f"m{n}", subscribed_topic_names=names) for n in range(2)))
    group = state.consumer_group("g")
    assert group is not None
    assert assign(state, image) == 3
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (7, 5)
    assert sorted(index for target in group.targets.values() for index in target[A]) == [0, 1, 2, 3]
    assert assign(state, image) == 1
    records.member_tombstone("g", "m1").change(state, 0)
    assert assign(state, image) == 2


def test_a_member_without_partitions_has_an_empty_target(image: ClusterImage) -> None:
    state = state_of(ConsumerGroupMember("m", subscribed_topic_names=frozenset({"missing"})))
    assert assign(state, image) == 2
    group = state.consumer_group("g")
    assert group is not None
    assert group.targets == {"m": {}}


def test_resolved_expressions_count_as_subscriptions(image: ClusterImage) -> None:
    state = state_of(ConsumerGroupMember("m", subscribed_topic_regex="a.*"))
    group = state.consumer_group("g")
    assert group is not None
    group.resolved["a.*"] = ResolvedRegex(frozenset({"a"}))
    assign(state, image)
    assert group.targets == {"m": {A: frozenset(range(4))}}


def test_most_members_choose_the_assignor(image: ClusterImage) -> None:
    names = frozenset({"a"})
    state = state_of(
        *(ConsumerGroupMember(f"m{n}", subscribed_topic_names=names, server_assignor="range") for n in range(2))
    )
    assign(state, image)
    group = state.consumer_group("g")
    assert group is not None
    assert [sorted(group.target(name)[A]) for name in ("m0", "m1")] == [[0, 1], [2, 3]]
