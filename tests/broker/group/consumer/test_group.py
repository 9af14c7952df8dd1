"""What follows from a group's state: counts, owners, and which commits are accepted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup, ResolvedRegex
from thinconsumer_testing.broker.group.consumer.member import ClassicMetadata, ConsumerGroupMember
from thinconsumer_testing.broker.group.consumer.states import AssignmentState, ConsumerGroupState

A, B = b"a" * 16, b"b" * 16


def group_of(*members: ConsumerGroupMember) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in members:
        group.put_member(member)
    return group


def code_of(group: ConsumerGroup, *args: object, transactional: bool = False) -> int:
    try:
        group.check_commit(*args, transactional=transactional)  # type: ignore[arg-type]
    except GroupRequestError as error:
        return error.code
    return 0


def test_the_state_follows_from_epochs_and_members() -> None:
    group = ConsumerGroup("g")
    assert group.state is ConsumerGroupState.EMPTY
    group.put_member(ConsumerGroupMember("m", member_epoch=1))
    group.epoch = 2
    assert group.state is ConsumerGroupState.ASSIGNING
    group.assignment_epoch = 2
    assert group.state is ConsumerGroupState.RECONCILING
    group.put_member(ConsumerGroupMember("m", member_epoch=2))
    assert group.state is ConsumerGroupState.STABLE
    group.put_member(ConsumerGroupMember("m", member_epoch=2, state=AssignmentState.UNRELEASED_PARTITIONS))
    assert group.state is ConsumerGroupState.RECONCILING
    assert "Reconciling epoch 2, 1 members" in repr(group)


def test_a_partition_has_the_epoch_of_its_owner() -> None:
    group = group_of(ConsumerGroupMember("m", member_epoch=5, assigned={A: {0: 3}}, pending_revocation={A: {1: 4}}))
    assert [group.partition_epoch(A, index) for index in range(3)] == [5, 5, -1]
    assert group.partition_epoch(B, 0) == -1
    group.put_member(ConsumerGroupMember("m", member_epoch=6, assigned={B: {0: 6}}))
    assert [group.partition_epoch(A, 0), group.partition_epoch(B, 0)] == [-1, 6]
    group.remove_member("m")
    group.remove_member("m")
    assert group.partition_epoch(B, 0) == -1


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


def test_static_members_are_found_by_instance() -> None:
    group = group_of(ConsumerGroupMember("m1", instance_id="i"))
    group.put_member(ConsumerGroupMember("m2", instance_id="i"))
    group.remove_member("m1")
    member = group.static_member("i")
    assert member is not None
    assert member.member_id == "m2"
    assert group.static_member(None) is group.static_member("j") is None


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


# -- commits


def test_commits_are_accepted_in_the_members_epoch() -> None:
    group = group_of(ConsumerGroupMember("m", member_epoch=5, assigned={A: {0: 3}}))
    assert group.check_commit("m", None, 5, 9, transactional=False) is None
    assert group.check_commit("m", None, 4, 9, transactional=False) is group.members["m"]
    assert code_of(group, "m", None, 6, 9) == Code.STALE_MEMBER_EPOCH
    assert code_of(group, "x", None, 5, 9) == Code.UNKNOWN_MEMBER_ID
    assert code_of(group, "m", None, 5, 8) == Code.UNSUPPORTED_VERSION
    assert code_of(group, "m", None, 5, 3, transactional=True) == 0


def test_commits_without_a_member_need_an_empty_group() -> None:
    assert code_of(ConsumerGroup("g"), "", None, -1, 9) == 0
    group = group_of(ConsumerGroupMember("m", member_epoch=5))
    assert code_of(group, "", None, -1, 9) == Code.UNKNOWN_MEMBER_ID
    assert code_of(group, "", None, -1, 3, transactional=True) == 0
    assert code_of(group, "", "i", -1, 3, transactional=True) == Code.UNKNOWN_MEMBER_ID


def test_members_of_the_classic_protocol_get_its_errors() -> None:
    group = group_of(ConsumerGroupMember("m", member_epoch=5, classic=ClassicMetadata(1, ())))
    assert code_of(group, "m", None, 5, 2) == 0
    assert code_of(group, "m", None, 6, 9) == Code.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, 0),
        ("m", 5, 0),
        ("m", 4, Code.STALE_MEMBER_EPOCH),
        ("m", 6, Code.STALE_MEMBER_EPOCH),
        ("x", 5, Code.UNKNOWN_MEMBER_ID),
        (None, 5, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetching_offsets_needs_the_members_epoch(member_id: str | None, epoch: int, code: int) -> None:
    group = group_of(ConsumerGroupMember("m", member_epoch=5))
    try:
        group.check_fetch(member_id, epoch)
        found = 0
    except GroupRequestError as error:
        found = error.code
    assert found == code
