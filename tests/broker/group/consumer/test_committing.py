"""Committed offsets of consumer groups: who may commit and fetch them, and when they expire."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

GROUP, TOPIC = "billing", "orders"


def test_members_commit_in_their_epoch(pair: tuple[Any, Any], world: Any, seat_of: Any) -> None:
    assert world.commit(seat_of("m1", 3), 7).code == 0
    assert world.offset() == 7


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "code"),
    [
        ("m1", 2, 0, 0),  # it has owned the partition since epoch 2 (KIP-1251)
        ("m1", 2, 2, Code.STALE_MEMBER_EPOCH),
        ("m1", 1, 0, Code.STALE_MEMBER_EPOCH),
        ("m2", 2, 2, Code.STALE_MEMBER_EPOCH),
        ("m1", 4, 0, Code.STALE_MEMBER_EPOCH),
        ("x", 3, 0, Code.UNKNOWN_MEMBER_ID),
        ("", -1, 0, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_in_other_epochs(
    pair: tuple[Any, Any], world: Any, seat_of: Any, member_id: str, epoch: int, partition: int, code: int
) -> None:
    seat = seat_of(member_id, epoch)
    assert world.commit(seat, 7, partition=partition).code == code
    expected = Code.ILLEGAL_GENERATION if code == Code.STALE_MEMBER_EPOCH else code
    if member_id:
        assert world.txn_commit(9, seat=seat, partition=partition).code == expected


def test_anyone_commits_for_a_group_without_members(member: Any, world: Any) -> None:
    assert world.commit(offset=3).code == Code.UNKNOWN_MEMBER_ID
    member.leave()
    assert world.commit(offset=3).code == 0
    world.crash()
    assert world.offset() == 3


def test_transactions_need_no_member(pair: tuple[Any, Any], world: Any) -> None:
    assert world.txn_commit(7, 4, instance="i").code == Code.UNKNOWN_MEMBER_ID
    assert world.txn_commit(7, 4).code == 0
    world.marker(7)
    assert world.offset() == 4


def fetched(world: Any, member_id: str | None, epoch: int, *, require_stable: bool) -> int:
    found: list[int] = []
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=topics)
    world.coordinator.fetch_offsets(request, require_stable, lambda code, topics: found.append(code))
    return found[0]


@pytest.mark.parametrize("require_stable", [False, True])
def test_members_fetch_in_their_epoch(pair: tuple[Any, Any], world: Any, require_stable: bool) -> None:
    assert fetched(world, "m1", 3, require_stable=require_stable) == 0
    assert fetched(world, "m1", 2, require_stable=require_stable) == Code.STALE_MEMBER_EPOCH
    assert fetched(world, "m1", 4, require_stable=require_stable) == Code.STALE_MEMBER_EPOCH
    assert fetched(world, None, 3, require_stable=require_stable) == Code.UNKNOWN_MEMBER_ID
    assert fetched(world, "x", 2, require_stable=require_stable) == Code.UNKNOWN_MEMBER_ID
    assert fetched(world, None, -1, require_stable=require_stable) == 0


def test_members_are_not_checked_in_other_groups(world: Any) -> None:
    assert fetched(world, "m1", 2, require_stable=False) == 0
    world.stable(1)
    assert fetched(world, "m1", 2, require_stable=True) == 0


def test_offsets_of_subscribed_topics_do_not_expire(new_world: Any, member_of: Any) -> None:
    world = new_world(offsets_retention_minutes=1, group_consumer_session_timeout_ms=10_000_000)
    world.put_topic("other", 1)
    member = member_of(world, "m1")
    world.commit(offset=3)
    world.commit(offset=4, topic="other")
    member.join()
    world.advance(700)
    assert (world.offset(), world.fetch(0, topic="other").answer[1][0].partitions[0].committed_offset) == (3, -1)
    member.leave()
    world.advance(700)
    assert world.offset() == -1
    assert world.shard.latest.groups == {}
