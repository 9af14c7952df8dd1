"""Groups that move from the classic to the consumer group protocol and back, while their members go on."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer.migration import encoded_assignment
from thinconsumer_testing.broker.group.group import ClassicGroup
from thinconsumer_testing.broker.group.states import GroupState

GROUP, TOPIC = "billing", "orders"
SUBSCRIPTION = encode_subscription([TOPIC])


def stable(world: Any, *instances: str | None) -> list[Any]:
    """Let two classic members, or static ones, form a group; the leader owns 0 and 1, the other one 2."""
    options = {"protocols": {"range": SUBSCRIPTION}}
    if instances:
        asked = [world.join(instance=name, **options) for name in instances]
        world.advance(0)
        seats = sorted((world.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
    else:
        seats = world.joined(2, **options)
    parts = [[TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)], [TopicPartition(TOPIC, 2)]]
    plan = {seat.member_id: encode_assignment(found) for seat, found in zip(seats, parts)}
    for seat in seats:
        world.sync(seat, plan if seat.is_leader else None)
    return seats


def settle(world: Any, seats: list[Any], modern: Any, seat_of: Any) -> list[int]:
    """Let two classic members rejoin and send SyncGroup, and the other one send heartbeats; return what both own."""
    owned = [[0, 1], [2]]
    for _ in range(3):
        for number, seat in enumerate(seats):
            kept = [TopicPartition(TOPIC, n) for n in owned[number]]
            answer = world.join(seat.member_id, protocols={"range": encode_subscription([TOPIC], owned=kept)}).answer
            assert answer.error_code == 0
            seats[number] = seat_of(answer.member_id, answer.generation_id)
            answer = world.sync(seats[number]).answer
            assert answer.error_code == 0
            owned[number] = [
                n for row in decode_assignment(answer.assignment).assigned_partitions for n in row.partitions
            ]
        modern.beat()
    return [*owned[0], *owned[1]]


# -- from classic to consumer


def test_a_classic_group_moves_when_a_member_of_the_new_protocol_joins(
    new_member: Any, world: Any, seat_of: Any
) -> None:
    seats = stable(world)
    world.commit(seats[0], 5)
    modern = new_member("m1")
    answer = modern.join()
    assert (answer.error_code, answer.member_epoch, modern.owned) == (0, 2, set())
    group = world.shard.latest.consumer_group(GROUP)
    assert group is not None
    assert (group.epoch, len(group.members)) == (2, 3)
    assert [world.heartbeat(seat).code for seat in seats] == [Code.REBALANCE_IN_PROGRESS] * 2
    owned = settle(world, seats, modern, seat_of)
    assert sorted([*modern.partitions, *owned]) == [0, 1, 2]
    assert len(modern.partitions) == 1
    assert world.offset() == 5
    world.crash()
    assert world.shard.latest.consumer_group(GROUP) is not None
    assert world.commit(seats[0], 6).code == 0


def test_partitions_that_stay_are_owned_in_the_same_epoch_after_the_move(new_member: Any, world: Any) -> None:
    leader, follower = stable(world)
    new_member("m1").join()
    members = world.group.members
    topic_id = world.image.topics[TOPIC].topic_id
    assert members[leader.member_id].assigned == {topic_id: {0: 1, 1: 1}}
    assert members[follower.member_id].assigned == {topic_id: {2: 1}}
    assert world.commit(leader, 7).code == 0, "members go on in their generation"


def test_parked_requests_are_told_to_rejoin(new_member: Any, world: Any) -> None:
    seats = stable(world)
    parked = world.join(seats[0].member_id, protocols={"range": SUBSCRIPTION})
    assert parked.is_parked
    assert new_member("m1").join().error_code == 0
    assert parked.answer.error_code == Code.REBALANCE_IN_PROGRESS


def test_a_group_in_its_first_rebalance_moves(new_member: Any, world: Any) -> None:
    member_id = world.newcomer(protocols={"range": SUBSCRIPTION})
    parked = world.join(member_id, protocols={"range": SUBSCRIPTION})
    assert parked.is_parked
    assert new_member("m1").join().error_code == 0
    assert parked.answer.error_code == Code.REBALANCE_IN_PROGRESS
    assert set(world.group.members) == {member_id, "m1"}


def test_a_rejected_append_leaves_the_classic_group(new_member: Any, world: Any) -> None:
    seats = stable(world)
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    assert new_member("m1").join().error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert isinstance(world.group, ClassicGroup)
    assert [world.heartbeat(seat).code for seat in seats] == [0, 0]


def test_a_static_member_moves_by_a_restart(new_member: Any, world: Any, seat_of: Any) -> None:
    stable(world, "i1", "i2")
    modern = new_member("m1", "i1")
    assert modern.join().error_code == 0
    assert modern.partitions in ([0, 1], [2])
    assert len(world.group.members) == 2


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", 0, 0), ("upgrade", 1, 0), ("downgrade", 0, 1), ("BIDIRECTIONAL", 1, 1)],
)
def test_the_policy_allows_each_direction(
    policy: str, upgrades: int, downgrades: int, new_world: Any, member_of: Any
) -> None:
    world = new_world(group_consumer_migration_policy=policy)
    stable(world)
    code = member_of(world, "m1").join().error_code
    assert code == (0 if upgrades else Code.GROUP_ID_NOT_FOUND)
    world = new_world(group_consumer_migration_policy=policy)
    modern = member_of(world, "m1")
    modern.join()
    assert world.join(instance="i", protocols={"range": SUBSCRIPTION}).answer.error_code == 0
    modern.leave()
    assert isinstance(world.group, ClassicGroup) is bool(downgrades)


@pytest.mark.parametrize(
    ("options", "assignment"),
    [
        ({"protocol_type": "connect", "protocols": {"eager": b""}}, b""),
        ({"protocols": {"range": b"\0"}}, b""),
        ({"protocols": {"range": SUBSCRIPTION}}, b"\0"),
        ({"protocols": {"range": SUBSCRIPTION}}, encode_assignment([], b"own data")),
    ],
)
def test_groups_that_cannot_move(new_member: Any, world: Any, options: Any, assignment: bytes) -> None:
    (leader,) = world.joined(1, **options)
    world.sync(leader, {leader.member_id: assignment})
    answer = new_member("m1").join()
    assert answer.error_code == Code.GROUP_ID_NOT_FOUND
    assert answer.error_message.startswith("Cannot upgrade classic group billing to consumer group because")
    assert world.heartbeat(leader).code == 0


def test_groups_that_are_too_large_do_not_move(new_world: Any, member_of: Any) -> None:
    world = new_world(group_consumer_max_size=1)
    stable(world)
    assert member_of(world, "m1").join().error_code == Code.GROUP_ID_NOT_FOUND


# -- from consumer to classic


def test_a_consumer_group_moves_back_when_its_last_member_of_the_new_protocol_leaves(
    new_member: Any, world: Any, seat_of: Any
) -> None:
    seats = stable(world)
    modern = new_member("m1")
    modern.join()
    settle(world, seats, modern, seat_of)
    world.commit(seats[0], 5)
    epoch = world.group.epoch
    assert modern.leave().error_code == 0
    group = world.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (GroupState.PREPARING_REBALANCE, epoch)
    assert [world.heartbeat(seat).code for seat in seats] == [Code.REBALANCE_IN_PROGRESS] * 2
    asked = [world.join(seat.member_id, protocols={"range": SUBSCRIPTION}) for seat in seats]
    assert {world.seat(one).generation for one in asked} == {epoch + 1}
    assert world.offset() == 5
    assert len(world.shard.member_timers) == 0


def test_the_next_coordinator_finds_the_classic_group(new_member: Any, world: Any, seat_of: Any) -> None:
    seats = stable(world)
    modern = new_member("m1")
    modern.join()
    modern.leave()
    world.crash()
    group = world.group
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {seat.member_id for seat in seats}
    assert (group.generation, group.protocol_name) == (2, "range")
    assert new_member("m2").join().error_code == 0, "and it can move again"
    world.crash()
    assert world.shard.latest.consumer_group(GROUP) is not None


def test_a_session_timeout_moves_the_group_too(new_world: Any, member_of: Any, seat_of: Any) -> None:
    world = new_world(group_consumer_session_timeout_ms=6_000)
    (leader, follower) = stable(world)
    member_of(world, "m1").join()
    for _ in range(7):
        world.advance(1)
        for seat in (leader, follower):
            world.heartbeat(seat)
    assert isinstance(world.group, ClassicGroup)


def test_a_static_member_moves_the_group_back_by_a_restart(new_member: Any, world: Any, seat_of: Any) -> None:
    modern = new_member("m1", "i1")
    modern.join()
    before = modern.partitions
    answer = world.join(instance="i1", protocols={"range": SUBSCRIPTION}).answer
    assert (answer.error_code, answer.generation_id) == (0, 2)
    group = world.group
    assert isinstance(group, ClassicGroup)
    assert (group.state, list(group.members)) == (GroupState.STABLE, [answer.member_id])
    seat = seat_of(answer.member_id, 2)
    assigned = decode_assignment(world.sync(seat, instance="i1").answer.assignment).assigned_partitions
    assert [row.partitions for row in assigned] == [before]
    assert world.heartbeat(seat, instance="i1").code == 0


def test_a_static_member_with_another_subscription_makes_the_group_rebalance(new_member: Any, world: Any) -> None:
    world.put_topic("other", 1)
    new_member("m1", "i1").join()
    data = encode_subscription(["other"])
    assert world.join(instance="i1", protocols={"range": data}).answer.error_code == 0
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_a_group_that_is_too_large_for_the_classic_protocol_stays(new_world: Any, member_of: Any) -> None:
    world = new_world(group_max_size=1)
    modern = member_of(world, "m1")
    modern.join()
    for name in ("i1", "i2"):
        assert world.join(instance=name, protocols={"range": SUBSCRIPTION}).answer.error_code == 0
    modern.leave()
    assert world.shard.latest.consumer_group(GROUP) is not None


@pytest.mark.parametrize(("metadata", "version"), [(b"\0\0", 0), (b"\0\3", 3), (b"\0\x09", 3), (b"\xff\xff", 0)])
def test_assignments_have_the_version_of_the_subscription(world: Any, metadata: bytes, version: int) -> None:
    topic_id = world.image.topics[TOPIC].topic_id
    data = encoded_assignment({topic_id: {1: 1, 0: 1}, b"x" * 16: {0: 1}}, metadata, world.image)
    assert data[:2] == version.to_bytes(2, "big")
    (row,) = decode_assignment(data).assigned_partitions
    assert (row.topic, row.partitions) == (TOPIC, [0, 1])


# -- empty groups


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(member: Any, world: Any) -> None:
    member.leave()
    world.commit(offset=8)
    assert world.join("unknown").answer.error_code == Code.UNKNOWN_MEMBER_ID
    assert world.shard.latest.consumer_group(GROUP) is not None
    (seat,) = world.stable(1)
    assert isinstance(world.group, ClassicGroup)
    assert world.offset() == 8
    world.crash()
    assert isinstance(world.group, ClassicGroup)
    assert world.heartbeat(seat).answer == 0


def test_the_group_stays_if_the_log_rejects_its_removal(member: Any, world: Any) -> None:
    member.leave()
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    assert world.join().answer.error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert world.shard.latest.consumer_group(GROUP) is not None


def test_members_of_a_consumer_group_are_unknown_to_classic_requests(new_member: Any, world: Any, seat_of: Any) -> None:
    new_member().join()
    seat = seat_of("m1", 1)
    assert world.sync(seat).answer.error_code == Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(seat).answer == Code.UNKNOWN_MEMBER_ID
    assert world.join(protocol_type="connect").answer.error_code == Code.INCONSISTENT_GROUP_PROTOCOL
