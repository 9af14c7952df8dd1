"""The records of a new target assignment: only those of members whose target changes, then its epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from thinconsumer_testing.broker.group.consumer.assignors.registry import SERVER_ASSIGNORS
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup, ResolvedRegex
from thinconsumer_testing.broker.group.consumer.member import ConsumerGroupMember
from thinconsumer_testing.broker.group.consumer.records import removal_of_member
from thinconsumer_testing.broker.group.consumer.target import new_target
from thinconsumer_testing.broker.group.records import CoordinatorRecord, ReplayedState
from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage
from thinconsumer_testing.broker.ordered.topic import OrderedTopicCounts

A = b"a" * 16


@pytest.fixture
def image() -> ClusterImage:
    found = ClusterImage("c")
    rows = tuple(PartitionImage("a", A, n, 1, 0, (1,), (1,)) for n in range(4))
    found.put_topic(TopicImage("a", A, rows, {}))
    return found


def group_of(count: int = 2, **fields: Any) -> ConsumerGroup:
    """Return a group of members with these fields, by default subscribed to topic a."""
    group = ConsumerGroup("g")
    group.epoch = 7
    for number in range(count):
        group.put_member(ConsumerGroupMember(f"m{number}", **{"subscribed_topic_names": frozenset({"a"}), **fields}))
    return group


def apply(group: ConsumerGroup, records: Iterable[CoordinatorRecord]) -> int:
    """Apply records to a group, and return their number."""
    state, found = ReplayedState(), list(records)
    state.groups["g"] = group
    for record in found:
        record.change(state, 0)
    return len(found)


def assign(group: ConsumerGroup, image: ClusterImage) -> int:
    """Apply a new target assignment, and return the number of its records."""
    return apply(group, new_target(group, image, SERVER_ASSIGNORS, 5))


def test_unchanged_targets_are_not_written(image: ClusterImage) -> None:
    group = group_of()
    assert assign(group, image) == 3
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (7, 5)
    assert sorted(index for target in group.targets.values() for index in target[A]) == [0, 1, 2, 3]
    assert assign(group, image) == 1
    apply(group, removal_of_member("g", "m1"))
    assert assign(group, image) == 2


def test_a_member_without_partitions_has_an_empty_target(image: ClusterImage) -> None:
    group = group_of(1, subscribed_topic_names=frozenset({"missing"}))
    assert assign(group, image) == 2
    assert group.targets == {"m0": {}}


def test_resolved_expressions_count_as_subscriptions(image: ClusterImage) -> None:
    group = group_of(1, subscribed_topic_names=frozenset(), subscribed_topic_regex="a.*")
    group.resolved["a.*"] = ResolvedRegex(frozenset({"a"}))
    assign(group, image)
    assert group.targets == {"m0": {A: frozenset(range(4))}}


def test_most_members_choose_the_assignor(image: ClusterImage) -> None:
    group = group_of(server_assignor="range")
    assign(group, image)
    assert [sorted(group.target(name)[A]) for name in ("m0", "m1")] == [[0, 1], [2, 3]]


def mark(image: ClusterImage, undeleted: int) -> None:
    """Let the topic have six partitions, of which those from a number on are marked for deletion."""
    rows = tuple(PartitionImage("a", A, n, 1, 0, (1,), (1,)) for n in range(6))
    image.put_topic(TopicImage("a", A, rows, {}, ordered=OrderedTopicCounts(2, undeleted)))


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_that_are_marked_for_deletion_are_assigned_apart(image: ClusterImage, assignor: str) -> None:
    """Producers write only to the others: a member with marked partitions alone would get no new records."""
    group = group_of(server_assignor=assignor)
    for undeleted in (6, 2):
        mark(image, undeleted)
        assign(group, image)
        shares = [group.target(name)[A] for name in ("m0", "m1")]
        assert [len([index for index in share if index < undeleted]) for share in shares] == [undeleted // 2] * 2
        assert sorted(index for share in shares for index in share) == list(range(6))
        assert assign(group, image) == 1  # no member would give up a partition next time


def test_marked_partitions_stay_with_their_members_if_that_is_even(image: ClusterImage) -> None:
    group = group_of()
    group.targets = {"m0": {A: frozenset({1, 2, 5})}, "m1": {A: frozenset({0, 3, 4})}}
    before = dict(group.targets)
    mark(image, 2)
    assert assign(group, image) == 1
    assert group.targets == before
