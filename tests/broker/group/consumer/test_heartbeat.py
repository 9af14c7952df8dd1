"""ConsumerGroupHeartbeat: joining, epochs, reconciliation, static members, and every error."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.states import ConsumerGroupState

GROUP, TOPIC = "billing", "orders"


# -- joining


def test_without_news_the_response_has_no_assignment_and_nothing_is_written(member: Any, world: Any) -> None:
    writes = world.replica.appends
    answer = member.beat()
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
    assert world.replica.appends == writes


def test_nothing_is_answered_before_the_records_are_committed(new_member: Any, world: Any) -> None:
    member = new_member()
    world.replica.hold = True
    waiting = member.send(0, topic_partitions=[], **member.fields)
    assert waiting == []
    assert world.coordinator.describe_consumer_groups([GROUP])[0].error_code == Code.GROUP_ID_NOT_FOUND
    world.replica.replicate()
    assert waiting[0].member_epoch == 2


def test_a_rejected_append_changes_nothing(new_member: Any, world: Any) -> None:
    member = new_member()
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    assert member.join().error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert world.shard.latest.groups == {}
    assert member.join().error_code == 0
    assert member.partitions == [0, 1, 2]


# -- reconciliation


def test_partitions_that_do_not_move_are_never_taken_away(new_member: Any, settled: Any) -> None:
    members = [new_member(f"m{n}") for n in range(3)]
    kept: set[int] = set()
    for count, member in enumerate(members, 1):
        member.join()
        settled(*members[:count])
        kept = set(members[0].partitions)
    assert len(kept) == 1


def test_a_metadata_change_counts_although_the_log_rejects_the_next_heartbeat(member: Any, world: Any) -> None:
    world.put_topic(TOPIC, 4)
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    assert member.beat().error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert member.beat().error_code == 0
    assert world.group.epoch == 3


def test_a_metadata_change_without_new_partitions_changes_nothing(member: Any, world: Any) -> None:
    world.put_topic(TOPIC, 3)
    member.beat()
    assert world.group.epoch == 2


def test_assignments_wait_for_the_configured_interval(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_assignment_interval_ms=1000)
    first, second = member_of(world, "m1"), member_of(world, "m2")
    first.join()
    second.join()
    assert (world.group.epoch, world.group.assignment_epoch) == (3, 2)
    assert world.group.state is ConsumerGroupState.ASSIGNING
    world.advance(1.0)
    second.beat()
    assert world.group.assignment_epoch == 3


# -- static members


def test_an_unknown_instance_is_an_unknown_member(new_member: Any) -> None:
    new_member("m1").join()
    assert new_member("m2", "i1").ask(3).error_code == Code.UNKNOWN_MEMBER_ID
    assert new_member("m2", "i1").leave(-2).error_code == Code.UNKNOWN_MEMBER_ID


# -- errors


def test_a_full_group_admits_no_more_members(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_max_size=1)
    first, second = member_of(world, "m1"), member_of(world, "m2")
    first.join()
    assert second.join().error_code == Code.GROUP_MAX_SIZE_REACHED
    assert first.beat().error_code == 0


def test_a_classic_group_is_no_consumer_group_unless_its_members_may_move(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_migration_policy="disabled")
    world.stable(1)
    member = member_of(world, "m1")
    for epoch, fields in ((0, {"topic_partitions": [], **member.fields}), (1, {}), (-1, {})):
        assert member.ask(epoch, **fields).error_code == Code.GROUP_ID_NOT_FOUND


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(new_member: Any, world: Any) -> None:
    (leader,) = world.stable(1)
    world.commit(leader, 7)
    world.leave(leader.member_id)
    assert new_member().join().error_code == 0
    assert world.offset() == 7
    world.crash()
    assert world.group.state is ConsumerGroupState.STABLE
    assert world.offset() == 7


def test_invalid_requests_are_rejected_before_the_group_is_looked_up(new_member: Any, world: Any) -> None:
    world.resign()
    assert new_member("").join().error_code == Code.INVALID_REQUEST
    assert new_member().join().error_code == Code.NOT_COORDINATOR


@pytest.mark.parametrize("assignor", ["sticky", ""])
def test_unknown_assignors_are_rejected(new_member: Any, assignor: str) -> None:
    answer = new_member(server_assignor=assignor).join()
    assert answer.error_code == Code.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in answer.error_message
