"""Consumer groups at the next coordinator: everything that is committed is loaded, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.consumer.states import ConsumerGroupState

GROUP, TOPIC = "billing", "orders"


def state_of(group: ConsumerGroup) -> dict[str, Any]:
    """Return what the log says about a group."""
    return {name: value for name, value in vars(group).items() if name not in ("metadata_version", "regex_version")}


def test_a_group_is_loaded_completely(new_member: Any, world: Any, settled: Any) -> None:
    members = [new_member("m1"), new_member("m2", "i2", rack_id="r"), new_member("m3", server_assignor="range")]
    pattern = new_member("m4", subscribed_topic_names=[], subscribed_topic_regex="ord.*")
    for member in (*members, pattern):
        member.join()
    settled(*members, pattern)
    before = state_of(world.group)
    world.crash()
    assert state_of(world.group) == before
    assert world.group.state is ConsumerGroupState.STABLE
    settled(*members, pattern)
    assert state_of(world.group) == before


@pytest.mark.parametrize("step", range(7))
def test_a_reconciliation_goes_on_at_the_next_coordinator(step: int, new_member: Any, world: Any, settled: Any) -> None:
    first, second = new_member("m1"), new_member("m2")
    steps = [first.join, second.join, first.beat, second.beat, first.beat, second.beat]
    for number, act in enumerate(steps):
        if number == step:
            world.crash()
        act()
    settled(first, second)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2]


def test_unreplicated_records_are_lost_as_a_whole(new_member: Any, world: Any, settled: Any) -> None:
    first, second = new_member("m1"), new_member("m2")
    first.join()
    world.replica.hold = True
    assert second.send(0, topic_partitions=[], **second.fields) == []
    world.crash(losing=True)
    assert list(world.group.members) == ["m1"]
    assert world.group.epoch == world.group.assignment_epoch == 2
    second.join()
    settled(first, second)


def test_sessions_and_revocations_are_timed_anew(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_session_timeout_ms=6_000)
    slow, other = member_of(world, "m1", rebalance_timeout_ms=2_000), member_of(world, "m2")
    slow.join()
    other.join()
    slow.ask(2)
    world.advance(1.9)
    world.crash()
    world.advance(1.9)
    assert len(world.group.members) == 2
    world.advance(0.2)
    assert list(world.group.members) == ["m2"]
    world.advance(6)
    assert world.group.members == {}


def test_a_group_without_members_keeps_its_epoch(member: Any, world: Any) -> None:
    member.leave()
    world.crash()
    assert (world.group.state, world.group.epoch) == (ConsumerGroupState.EMPTY, 3)
    assert member.join().member_epoch == 4


def test_a_deleted_group_stays_deleted(new_member: Any, world: Any) -> None:
    member = new_member(subscribed_topic_regex="ord.*")
    member.join()
    world.advance(0)
    member.leave()
    world.commit(offset=4)
    assert world.delete(GROUP).answer[0].error_code == 0
    assert world.shard.latest.groups == {}
    world.crash()
    assert world.shard.latest.groups == {}
    assert world.offset() == -1


def test_requests_while_the_log_is_loaded(new_world: Any, member_of: Any) -> None:
    world = new_world()
    member = member_of(world, "m1")
    member.join()
    world.config = type(world.config)(coordinator_load_s=3.0)
    world.crash()
    assert member.beat().error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(3)
    assert member.beat().error_code == 0
