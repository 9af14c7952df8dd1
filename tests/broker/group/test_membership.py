"""SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from typing import Any

from thinconsumer.broker.group.states import GroupState


def test_everybody_gets_its_part_when_the_log_has_it(world: Any) -> None:
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.hold = True
    brought = world.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"})
    assert waiting.is_parked
    assert brought.is_parked
    world.replica.release()
    assert (brought.answer.assignment, waiting.answer.assignment) == (b"a", b"b")
    assert (waiting.answer.protocol_type, waiting.answer.protocol_name) == ("consumer", "range")
    assert world.group.state is GroupState.STABLE


def test_who_asks_later_gets_its_part_at_once(world: Any) -> None:
    leader, follower = world.joined(2)
    world.sync(leader, {follower.member_id: b"b"})
    assert world.sync(follower).answer.assignment == b"b"
    assert world.sync(leader).answer.assignment == b""  # the leader gave itself nothing


def test_what_is_given_to_strangers_is_nobodys(world: Any) -> None:
    (leader,) = world.joined(1)
    assert world.sync(leader, {"stranger": b"x", leader.member_id: b"a"}).answer.assignment == b"a"
    world.crash()
    assert list(world.group.members) == [leader.member_id]


def test_only_the_leader_can_bring_an_assignment(world: Any) -> None:
    _, follower = world.joined(2)
    assert world.sync(follower, {follower.member_id: b"mine"}).is_parked
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_a_sync_is_checked_against_type_and_name(world: Any) -> None:
    """KIP-559."""
    leader, follower = world.joined(2)
    assert world.sync(leader, protocol_type="consumer", protocol="roundrobin").answer.error_code == 23
    assert world.sync(leader, protocol_type="connect", protocol="range").answer.error_code == 23
    assert world.sync(follower, protocol_type="consumer", protocol="range").is_parked


def test_a_member_that_syncs_again_over_another_connection_is_answered_there(world: Any) -> None:
    leader, follower = world.joined(2)
    first, second = world.sync(follower), world.sync(follower)
    assert first.answer.error_code == 27
    world.sync(leader, {follower.member_id: b"b"})
    assert second.answer.assignment == b"b"


def test_a_heartbeat_while_a_join_is_parked_says_to_join(world: Any) -> None:
    leader, _ = world.stable(2)
    world.join(leader.member_id)
    assert world.heartbeat(leader).answer == 27


def test_a_heartbeat_waits_for_what_is_being_written(world: Any) -> None:
    """It would tell of a generation that the next coordinator may not know."""
    (leader,) = world.stable(1)
    world.replica.hold = True
    world.commit(leader)
    asked = world.heartbeat(leader)
    assert asked.is_parked
    world.replica.release()
    assert asked.answer == 0


def test_requests_without_a_group(world: Any, seat_of: Any) -> None:
    seat = seat_of("m", 1)
    assert world.heartbeat(seat, group="").answer == 24
    assert world.sync(seat, group="").answer.error_code == 24
    assert world.leave("m", group="").answer.error_code == 24


# -- leaving


def test_the_others_rebalance_when_somebody_leaves(world: Any) -> None:
    leader, follower = world.stable(2)
    assert world.leave(leader.member_id).answer.members[0].error_code == 0
    assert world.heartbeat(follower).answer == 27
    again = world.seat(world.join(follower.member_id))
    assert (again.generation, again.is_leader) == (2, True)


def test_the_last_one_to_leave_empties_the_group(world: Any) -> None:
    (leader,) = world.stable(1)
    world.leave(leader.member_id)
    assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 2)
    assert world.group.timers == {}


def test_many_leave_at_once_each_with_a_result(world: Any) -> None:
    one, two, three = world.stable(3)
    answer = world.leave(one.member_id, "stranger", two.member_id, ("", "i"), (three.member_id, "i")).answer
    assert answer.error_code == 0
    assert [(m.member_id, m.error_code) for m in answer.members] == [
        (one.member_id, 0),
        ("stranger", 25),
        (two.member_id, 0),
        ("", 25),
        (three.member_id, 25),
    ]
    assert list(world.group.members) == [three.member_id]
    assert world.group.generation == 1  # one rebalance for all of them, and it has only begun


def test_an_administrator_removes_a_static_member_by_its_instance_id(world: Any) -> None:
    world.join(instance="i")
    world.advance(0)
    answer = world.leave(("", "i")).answer
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [("", "i", 0)]
    assert world.group.state is GroupState.EMPTY


def test_somebody_who_was_to_come_back_need_not(world: Any) -> None:
    (leader,) = world.stable(1)
    pending = world.newcomer()
    rejoined = world.join(leader.member_id)
    assert world.leave(pending).answer.members[0].error_code == 0
    assert world.seat(rejoined).generation == 2


def test_who_leaves_while_its_join_is_parked_is_answered(world: Any) -> None:
    leader, _ = world.stable(2)
    parked = world.join(leader.member_id)
    world.leave(leader.member_id)
    assert (parked.answer.error_code, parked.answer.member_id) == (25, "")


def test_who_leaves_while_its_sync_is_parked_is_answered(world: Any) -> None:
    """Kafka never answers it."""
    _, follower = world.joined(2)
    waiting = world.sync(follower)
    world.leave(follower.member_id)
    assert waiting.answer.error_code == 25


def test_the_end_of_a_group_is_told_when_the_log_has_it(world: Any) -> None:
    (leader,) = world.stable(1)
    world.replica.hold = True
    asked = world.leave(leader.member_id)
    assert asked.is_parked
    world.replica.release()
    assert asked.answer.error_code == 0


def test_a_group_whose_end_cannot_be_written_is_empty_all_the_same(world: Any) -> None:
    (leader,) = world.stable(1)
    world.replica.refuse = 19
    assert world.leave(leader.member_id).answer.error_code == 15
    assert world.group.state is GroupState.EMPTY
