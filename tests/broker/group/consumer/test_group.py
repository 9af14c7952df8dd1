"""What follows from a group's state: counts, owners, and which commits are accepted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup, ResolvedRegex
from thinconsumer_testing.broker.group.consumer.member import ConsumerGroupMember

A, B = b"a" * 16, b"b" * 16


def group_of(*members: ConsumerGroupMember) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.put_member(member)
    return group


def test_a_former_owner_does_not_take_a_partition_from_the_new_one() -> None:
    """In a compacted log, the last record of the former owner can come after that of the new owner."""
    group = group_of(ConsumerGroupMember("old", assigned={A: {0: 1}}))
    group.put_member(ConsumerGroupMember("new", member_epoch=2, assigned={A: {0: 2}}))
    group.put_member(ConsumerGroupMember("old"))
    assert group.partition_epoch(A, 0) == 2


def test_subscriptions_count_members_and_resolved_expressions() -> None:
    first = ConsumerGroupMember("m1", subscribed_topic_names=frozenset({"a", "b"}), server_assignor="range")
    second = ConsumerGroupMember("m2", subscribed_topic_names=frozenset({"b"}), subscribed_topic_regex="c.*")
    group = group_of(first, second)
    group.resolved["c.*"] = ResolvedRegex(frozenset({"cat", "b"}))
    group.resolved["x.*"] = ResolvedRegex(frozenset({"x"}))
    assert group.subscribed_topics() == {"a", "b", "cat"}
    assert [group.is_subscribed_to(name) for name in ("a", "cat", "x")] == [True, True, False]
    assert group.subscriptions_of(second) == {"b", "cat"}
    assert list(group.regexes) == ["c.*"]
    assert group.preferred_assignor() == "range"
    group.remove_member("m2")
    group.put_member(replace(first, subscribed_topic_names=frozenset({"a"}), server_assignor=None))
    assert group.subscribed_topics() == {"a"}
    assert (list(group.regexes), group.preferred_assignor()) == ([], None)


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_changes_alone(seed: int) -> None:
    draw = random.Random(seed)
    group = ConsumerGroup("g")
    for _ in range(30):
        _change(group, draw)
    before = {name: repr(value) for name, value in vars(group).items()}
    other = group.copy()
    assert {name: repr(value) for name, value in vars(other).items()} == before
    for _ in range(30):
        _change(other, draw)
    assert {name: repr(value) for name, value in vars(group).items()} == before


def _change(group: ConsumerGroup, draw: random.Random) -> None:
    name = f"m{draw.randrange(4)}"
    if draw.random() < 0.2:
        group.remove_member(name)
        return
    group.put_member(
        ConsumerGroupMember(
            name,
            member_epoch=draw.randrange(5),
            instance_id=draw.choice([None, name]),
            subscribed_topic_names=frozenset(draw.sample("abc", 2)),
            subscribed_topic_regex=draw.choice(["", "x"]),
            server_assignor=draw.choice([None, "range"]),
            assigned={A: {draw.randrange(4): 1}},
        )
    )
    group.targets[name] = {A: frozenset({draw.randrange(4)})}
    group.epoch += 1
