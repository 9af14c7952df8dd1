"""Members that are removed: session timeout, rebalance timeout, and what their removal changes."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.states import ConsumerGroupState


def test_a_silent_member_is_removed_after_the_session_timeout(new_world: Any, member_of: Any, settled: Any) -> None:
    world = new_world(group_consumer_session_timeout_ms=6_000)
    first, second = member_of(world, "m1"), member_of(world, "m2")
    first.join()
    second.join()
    settled(first, second)
    world.advance(5.9)
    first.beat()
    world.advance(0.2)
    assert list(world.group.members) == ["m1"]
    assert second.beat().error_code == Code.UNKNOWN_MEMBER_ID
    settled(first)
    assert first.partitions == [0, 1, 2]
    assert second.join().error_code == 0


def test_a_static_member_that_stays_away_is_removed(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_session_timeout_ms=6_000)
    member = member_of(world, "m1", "i1")
    member.join()
    member.leave(-2)
    world.advance(6.1)
    assert world.group.state is ConsumerGroupState.EMPTY
    assert world.group.static_members == {}


def test_a_member_that_does_not_revoke_in_time_is_removed(new_world: Any, member_of: Any, settled: Any) -> None:
    world = new_world()
    slow, other = member_of(world, "m1", rebalance_timeout_ms=5_000), member_of(world, "m2")
    slow.join()
    other.join()
    slow.ask(2)
    for _ in range(4):
        world.advance(1.2)
        assert slow.ask(2).error_code == 0, "heartbeats without owned partitions acknowledge nothing"
    world.advance(0.3)
    assert slow.ask(2).error_code == Code.UNKNOWN_MEMBER_ID
    settled(other)
    assert other.partitions == [0, 1, 2]


def test_a_revocation_in_time_ends_the_rebalance_timeout(new_world: Any, member_of: Any, settled: Any) -> None:
    world = new_world()
    first, second = member_of(world, "m1", rebalance_timeout_ms=5_000), member_of(world, "m2")
    first.join()
    second.join()
    settled(first, second)
    world.advance(6)
    assert len(world.group.members) == 2


def test_the_removal_is_tried_again_if_the_log_rejects_it(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_session_timeout_ms=6_000)
    member_of(world, "m1").join()
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    world.advance(6.1)
    assert len(world.group.members) == 1
    world.advance(0.5)
    assert world.group.members == {}


def test_leaving_raises_the_epoch_and_stops_the_timers(member: Any, world: Any) -> None:
    assert len(world.shard.member_timers) == 1
    answer = member.leave()
    assert (answer.error_code, answer.member_epoch, answer.member_id) == (0, -1, "m1")
    assert (world.group.epoch, world.group.state) == (3, ConsumerGroupState.EMPTY)
    assert len(world.shard.member_timers) == 0


def test_timers_end_with_the_leadership(new_member: Any, world: Any) -> None:
    new_member().join()
    world.resign()
    assert len(world.shard.member_timers) == 0


def test_the_last_subscriber_of_a_regular_expression_takes_it_away(new_member: Any, world: Any) -> None:
    member = new_member(subscribed_topic_names=[], subscribed_topic_regex="ord.*")
    member.join()
    world.advance(0)
    assert list(world.group.resolved) == ["ord.*"]
    member.leave()
    assert world.group.resolved == {}
