"""ConsumerGroupHeartbeat: joining, epochs, reconciliation, static members, and every error."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.errors import GroupRequestError
from thinconsumer_testing.broker.group.consumer.heartbeat import check_heartbeat
from thinconsumer_testing.broker.group.consumer.states import ConsumerGroupState

GROUP, TOPIC = "billing", "orders"


# -- joining


def test_the_first_member_gets_all_partitions_at_once(new_member: Any) -> None:
    member = new_member()
    answer = member.join()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m1", 2)
    assert member.partitions == [0, 1, 2]


def test_without_news_the_response_has_no_assignment_and_nothing_is_written(member: Any, world: Any) -> None:
    writes = world.replica.appends
    answer = member.beat()
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
    assert world.replica.appends == writes


def test_a_join_is_repeated_without_effect_if_its_response_was_lost(member: Any, world: Any) -> None:
    epoch = world.group.epoch
    assert member.join().error_code == 0
    assert (world.group.epoch, member.epoch, member.partitions) == (epoch, epoch, [0, 1, 2])


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


def test_partitions_move_one_owner_after_the_other(new_member: Any, world: Any) -> None:
    first, second = new_member("m1"), new_member("m2")
    first.join()
    answer = second.join()
    assert (answer.member_epoch, second.owned) == (3, set()), "the first member has not revoked yet"
    answer = first.beat()
    assert (answer.member_epoch, first.partitions) == (2, [0, 1]), "it keeps its epoch until it has revoked"
    assert second.beat().assignment is None
    assert first.beat().member_epoch == 3
    second.beat()
    assert second.partitions == [2]
    assert world.group.state is ConsumerGroupState.STABLE


def test_the_partition_of_a_member_that_leaves_goes_to_the_other(pair: tuple[Any, Any], settled: Any) -> None:
    first, second = pair
    assert second.leave().error_code == 0
    settled(first)
    assert first.partitions == [0, 1, 2]


def test_partitions_that_do_not_move_are_never_taken_away(new_member: Any, settled: Any) -> None:
    members = [new_member(f"m{n}") for n in range(3)]
    kept: set[int] = set()
    for count, member in enumerate(members, 1):
        member.join()
        settled(*members[:count])
        kept = set(members[0].partitions)
    assert len(kept) == 1


def test_a_new_topic_and_new_partitions_raise_the_epoch(new_member: Any, world: Any, settled: Any) -> None:
    member = new_member(subscribed_topic_names=[TOPIC, "later"])
    member.join()
    assert (world.group.epoch, len(member.owned)) == (2, 3)
    world.put_topic("later", 2)
    settled(member)
    assert (world.group.epoch, len(member.owned)) == (3, 5)
    world.put_topic(TOPIC, 4)
    settled(member)
    assert (world.group.epoch, len(member.owned)) == (4, 6)


def test_a_metadata_change_counts_although_the_log_rejects_the_next_heartbeat(member: Any, world: Any) -> None:
    world.put_topic(TOPIC, 4)
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    assert member.beat().error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert member.beat().error_code == 0
    assert world.group.epoch == 3


def test_a_topic_that_is_deleted_is_taken_away(member: Any, world: Any, settled: Any) -> None:
    world.image.remove_topic(TOPIC)
    member.beat()
    settled(member)
    assert member.owned == set()


def test_a_metadata_change_without_new_partitions_changes_nothing(member: Any, world: Any) -> None:
    world.put_topic(TOPIC, 3)
    member.beat()
    assert world.group.epoch == 2


def test_a_changed_subscription_takes_effect_with_the_heartbeat(new_member: Any, world: Any, settled: Any) -> None:
    other = world.put_topic("other", 1)
    member = new_member()
    member.join()
    member.beat(subscribed_topic_names=["other"])
    settled(member)
    assert member.owned == {(other, 0)}


def test_the_assignor_that_most_members_ask_for_is_used(new_member: Any, world: Any, settled: Any) -> None:
    world.put_topic("other", 3)
    names = [TOPIC, "other"]
    members = [new_member(f"m{n}", subscribed_topic_names=names, server_assignor="range") for n in range(2)]
    for member in members:
        member.join()
    settled(*members)
    assert world.group.preferred_assignor() == "range"
    assert [len(member.owned) for member in members] == [4, 2]


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


# -- epochs


def test_the_previous_epoch_is_accepted_if_nothing_more_is_owned(new_member: Any, world: Any) -> None:
    first, second = new_member("m1"), new_member("m2")
    first.join()
    second.join()
    first.beat()
    first.beat()
    assert first.epoch == 3
    answer = first.ask(2, topic_partitions=[])
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    first.epoch = 2
    assert first.beat().error_code == 0, "what it owns is a part of its assignment"
    first.epoch = 2
    topic_id = world.image.topics[TOPIC].topic_id
    first.owned.add((topic_id, 2))
    assert first.beat().error_code == Code.FENCED_MEMBER_EPOCH
    assert first.ask(2).error_code == Code.FENCED_MEMBER_EPOCH, "it does not say what it owns"


def test_older_epochs_are_fenced(member: Any, world: Any, settled: Any) -> None:
    for count in (4, 5, 6):
        world.put_topic(TOPIC, count)
        settled(member)
    assert member.epoch == 5
    assert member.ask(3, topic_partitions=[]).error_code == Code.FENCED_MEMBER_EPOCH


# -- static members


def test_a_static_member_keeps_its_partitions_while_it_is_away(new_member: Any, world: Any, settled: Any) -> None:
    static, other = new_member("m1", "i1"), new_member("m2")
    static.join()
    other.join()
    settled(static, other)
    before = static.partitions
    answer = static.leave(-2)
    assert (answer.error_code, answer.member_epoch) == (0, -2)
    epoch = world.group.epoch
    back = new_member("m3", "i1")
    assert back.join().member_epoch == epoch
    assert (back.partitions, world.group.epoch) == (before, epoch)
    assert list(world.group.static_members.values()) == ["m3"]
    assert "m1" not in world.group.members


def test_an_instance_id_in_use_is_not_released(new_member: Any) -> None:
    new_member("m1", "i1").join()
    assert new_member("m2", "i1").join().error_code == Code.UNRELEASED_INSTANCE_ID


def test_another_member_with_the_instance_id_fences_the_former_one(new_member: Any) -> None:
    former, back = new_member("m1", "i1"), new_member("m2", "i1")
    former.join()
    former.leave(-2)
    back.join()
    assert former.beat().error_code == Code.FENCED_INSTANCE_ID
    assert former.leave().error_code == Code.FENCED_INSTANCE_ID
    assert former.leave(-2).error_code == Code.FENCED_INSTANCE_ID


def test_an_unknown_instance_is_an_unknown_member(new_member: Any) -> None:
    new_member("m1").join()
    assert new_member("m2", "i1").ask(3).error_code == Code.UNKNOWN_MEMBER_ID
    assert new_member("m2", "i1").leave(-2).error_code == Code.UNKNOWN_MEMBER_ID


def test_a_static_member_can_leave_for_good(new_member: Any, world: Any) -> None:
    member = new_member("m1", "i1")
    member.join()
    assert member.leave().error_code == 0
    assert (world.group.members, world.group.static_members) == ({}, {})


# -- errors


def test_a_heartbeat_of_an_unknown_member_or_group(new_member: Any) -> None:
    member = new_member()
    assert member.ask(3).error_code == Code.GROUP_ID_NOT_FOUND
    assert member.leave().error_code == Code.GROUP_ID_NOT_FOUND
    new_member("m2").join()
    assert member.ask(3).error_code == Code.UNKNOWN_MEMBER_ID
    assert member.leave().error_code == Code.UNKNOWN_MEMBER_ID


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


# -- checks that need no group


JOIN = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 5,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def code_of(fields: dict[str, Any], version: int = 1) -> int:
    try:
        check_heartbeat(ConsumerGroupHeartbeatRequest(**fields), version, ("uniform",))
    except GroupRequestError as error:
        return error.code
    return 0


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_names": []},
        {"member_epoch": 3, "topic_partitions": None, "rebalance_timeout_ms": -1, "subscribed_topic_names": None},
        {"member_epoch": -1},
        {"member_epoch": -2, "instance_id": "i"},
        {"server_assignor": "uniform"},
        {"instance_id": "i", "rack_id": "r"},
    ],
)
def test_valid_requests(fields: dict[str, Any]) -> None:
    assert code_of({**JOIN, **fields}) == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, Code.INVALID_REQUEST),
        ({"member_id": " "}, Code.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": 3}, Code.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": -1}, Code.INVALID_REQUEST),
        ({"group_id": ""}, Code.INVALID_REQUEST),
        ({"group_id": " "}, Code.INVALID_REQUEST),
        ({"instance_id": ""}, Code.INVALID_REQUEST),
        ({"rack_id": ""}, Code.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"topic_partitions": None}, Code.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions()]}, Code.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Code.INVALID_REQUEST),
        ({"member_epoch": -2}, Code.INVALID_REQUEST),
        ({"member_epoch": -3}, Code.INVALID_REQUEST),
        ({"server_assignor": "range"}, Code.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_invalid_requests(fields: dict[str, Any], code: int) -> None:
    assert code_of({**JOIN, **fields}) == code


def test_version_0_needs_no_member_id_to_join() -> None:
    assert code_of({**JOIN, "member_id": ""}, version=0) == 0
    assert code_of({**JOIN, "member_id": "", "member_epoch": -2, "instance_id": "i"}, version=0) == 0
    assert code_of({**JOIN, "member_id": "", "member_epoch": 1}, version=0) == Code.INVALID_REQUEST
