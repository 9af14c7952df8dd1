"""SyncGroup, Heartbeat and LeaveGroup."""

from itertools import repeat
from typing import Any

from thinconsumer_testing.broker.group.states import GroupState


def test_assignments_are_sent_once_committed(world: Any) -> None:
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.hold = True
    brought = world.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"})
    assert waiting.is_parked
    assert brought.is_parked
    world.replica.replicate()
    assert (brought.answer.assignment, waiting.answer.assignment) == (b"a", b"b")
    assert (waiting.answer.protocol_type, waiting.answer.protocol_name) == ("consumer", "range")
    assert world.group.state is GroupState.STABLE


def test_assignments_of_unknown_members_are_ignored(world: Any) -> None:
    (leader,) = world.joined(1)
    assert world.sync(leader, {"stranger": b"x", leader.member_id: b"a"}).answer.assignment == b"a"
    world.crash()
    assert list(world.group.members) == [leader.member_id]


def test_only_the_leaders_assignment_counts(world: Any) -> None:
    _, follower = world.joined(2)
    assert world.sync(follower, {follower.member_id: b"mine"}).is_parked
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_repeated_sync_replies_on_the_new_connection(world: Any) -> None:
    leader, follower = world.joined(2)
    first, second = world.sync(follower), world.sync(follower)
    assert first.answer.error_code == 27
    world.sync(leader, {follower.member_id: b"b"})
    assert second.answer.assignment == b"b"


def test_heartbeat_waits_for_uncommitted_appends(world: Any) -> None:
    """Otherwise it could confirm a generation that the next coordinator does not have."""
    (leader,) = world.stable(1)
    world.replica.hold = True
    world.commit(leader)
    asked = world.heartbeat(leader)
    assert asked.is_parked
    world.replica.replicate()
    assert asked.answer == 0


def test_requests_with_an_empty_group_id(world: Any, seat_of: Any) -> None:
    seat = seat_of("m", 1)
    asked = world.heartbeat(seat, group=""), world.sync(seat, group=""), world.leave("m", group="")
    assert [one.code for one in (*asked, world.txn_commit(7, group=""))] == [24] * 4


# -- leave


def test_last_leave_empties_the_group(world: Any) -> None:
    (leader,) = world.stable(1)
    world.leave(leader.member_id)
    assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 2)
    assert world.group.timers == {}


def test_pending_member_id_can_leave(world: Any) -> None:
    (leader,) = world.stable(1)
    pending = world.newcomer()
    rejoined = world.join(leader.member_id)
    assert world.leave(pending).answer.members[0].error_code == 0
    assert world.seat(rejoined).generation == 2


def test_leave_fails_the_members_parked_join(world: Any) -> None:
    leader, _ = world.stable(2)
    parked = world.join(leader.member_id)
    world.leave(leader.member_id)
    assert (parked.answer.error_code, parked.answer.member_id) == (25, "")


def test_leave_fails_the_members_parked_sync(world: Any) -> None:
    """Kafka never responds to it."""
    _, follower = world.joined(2)
    waiting = world.sync(follower)
    world.leave(follower.member_id)
    assert waiting.answer.error_code == 25


def test_last_leave_is_answered_once_committed(world: Any) -> None:
    (leader,) = world.stable(1)
    world.replica.hold = True
    asked = world.leave(leader.member_id)
    assert asked.is_parked
    world.replica.replicate()
    assert asked.answer.error_code == 0


def test_rejected_append_still_empties_the_group(world: Any) -> None:
    (leader,) = world.stable(1)
    world.replica.codes = repeat(19)
    assert world.leave(leader.member_id).answer.error_code == 15
    assert world.group.state is GroupState.EMPTY
