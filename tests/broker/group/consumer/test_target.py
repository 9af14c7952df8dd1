"""The records of a new target assignment: only those of members whose target changes, then its epoch."""

from __future__ import annotations

import pytest

from thinconsumer_testing.broker.group.consumer import records
from thinconsumer_testing.broker.group.consumer.assignors.registry import SERVER_ASSIGNORS
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup, ResolvedRegex
from thinconsumer_testing.broker.group.consumer.member import ConsumerGroupMember
from thinconsumer_testing.broker.group.consumer.target import new_target
from thinconsumer_testing.broker.group.records import ReplayedState
from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage
from thinconsumer_testing.broker.ordered.topic import OrderedTopicCounts

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
    found = list(new_target(group, image, SERVER_ASSIGNORS, 5))
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
    records.removal_of_member("g", "m1")[-1].change(state, 0)
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


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_that_are_marked_for_deletion_are_assigned_apart(image: ClusterImage, assignor: str) -> None:
    """Producers write only to the others: a member with marked partitions alone would get no new records."""
    names = frozenset({"a"})
    state = state_of(
        *(ConsumerGroupMember(f"m{n}", subscribed_topic_names=names, server_assignor=assignor) for n in range(2))
    )
    group = state.consumer_group("g")
    assert group is not None
    for undeleted in (6, 2):
        rows = tuple(PartitionImage("a", A, n, 1, 0, (1,), (1,)) for n in range(6))
        image.put_topic(TopicImage("a", A, rows, {}, ordered=OrderedTopicCounts(2, undeleted)))
        assign(state, image)
        shares = [group.target(name)[A] for name in ("m0", "m1")]
        assert [len([index for index in share if index < undeleted]) for share in shares] == [undeleted // 2] * 2
        assert sorted(index for share in shares for index in share) == list(range(6))
        assert assign(state, image) == 1  # no member would give up a partition next time


def test_marked_partitions_stay_with_their_members_if_that_is_even(image: ClusterImage) -> None:
    names = frozenset({"a"})
    state = state_of(*(ConsumerGroupMember(f"m{n}", subscribed_topic_names=names) for n in range(2)))
    group = state.consumer_group("g")
    assert group is not None
    group.targets = {"m0": {A: frozenset({1, 2, 5})}, "m1": {A: frozenset({0, 3, 4})}}
    before = dict(group.targets)
    rows = tuple(PartitionImage("a", A, n, 1, 0, (1,), (1,)) for n in range(6))
    image.put_topic(TopicImage("a", A, rows, {}, ordered=OrderedTopicCounts(2, 2)))
    assert assign(state, image) == 1
    assert group.targets == before
