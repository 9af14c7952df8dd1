"""Coordinator failures at each step of a rebalance, and the state of the group at the next coordinator.

The steps are those of the failure cases in Kafka's *Consumer Rewrite Design* and its coordinator's failover scenarios:

1. a member failed or joined, and no member has received REBALANCE_IN_PROGRESS 2. some members have received it 3. some
members have rejoined 4. the generation has begun and is not in the log; or it is, and no member has received it 5. some
members have received the new generation

That design writes generation and members when all have joined; today they are written with the leader's assignment. A
coordinator that fails before that write leaves the previous generation, which its members continue or rejoin; one that
fails after it leaves the new generation with its assignments.
"""

from typing import Any

import pytest

from thinconsumer_testing.broker.group.states import GroupState


def rejoin_all(world: Any, seats: list[Any]) -> list[Any]:
    """Let members rejoin and form a stable group; return their seats, the leader first."""
    asked = [world.join(seat.member_id) for seat in seats]
    found = sorted((world.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
    world.settle(found)
    return found


# -- steady


def test_stable_group_keeps_its_generation(world: Any) -> None:
    leader, follower = world.stable(2)
    world.commit(leader, 7)
    world.crash()
    assert [world.heartbeat(seat).answer for seat in (leader, follower)] == [0, 0]
    assert world.sync(follower).answer.assignment == follower.member_id.encode()
    assert world.commit(follower, 8, partition=1).code == 0
    assert (world.offset(0), world.offset(1)) == (7, 8)


def test_stable_group_continues_while_the_coordinator_loads(new_world: Any) -> None:
    world = new_world()
    leader, _ = world.stable(2)
    world.config = type(world.config)(coordinator_load_s=3.0, group_min_session_timeout_ms=10)
    world.crash()
    assert world.heartbeat(leader).answer == 0
    assert world.commit(leader).code == 14
    world.advance(3)
    assert world.commit(leader).code == 0


def test_session_timeouts_restart_at_the_new_coordinator(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=10_000)
    world.advance(9)
    world.crash()
    world.advance(9)
    assert world.heartbeat(leader).answer == 0
    world.advance(2)
    assert world.heartbeat(leader).answer == 27
    assert follower.member_id not in world.group.members


def test_next_coordinator_detects_a_dead_member(world: Any) -> None:
    """Step 1: the failure is detected again after a session timeout."""
    leader, _ = world.stable(2, session_ms=10_000)
    world.advance(9.9)
    world.heartbeat(leader)
    world.crash()
    for _ in range(3):
        world.advance(4)
        world.heartbeat(leader)
    (left,) = rejoin_all(world, [leader])
    assert left.generation == 2


def test_pending_member_id_is_unknown_to_the_next_coordinator(world: Any) -> None:
    """Step 1: pending member ids are not persistent."""
    (leader,) = world.stable(1)
    pending = world.newcomer()
    world.crash()
    assert world.join(pending).answer.error_code == 25
    assert world.heartbeat(leader).answer == 0


# -- prepare for rebalance


@pytest.mark.parametrize("count", [0, 1, 2])
def test_rebalance_that_some_members_have_received_restarts(world: Any, count: int) -> None:
    """Step 2: members that received REBALANCE_IN_PROGRESS rejoin, which restarts it; the new member is unknown."""
    seats = world.stable(2)
    newcomer = world.newcomer()
    world.join(newcomer)
    assert [world.heartbeat(seat).answer for seat in seats[:count]] == [27] * count
    world.crash()
    assert world.join(newcomer).answer.error_code == 25
    if count == 0:
        assert [world.heartbeat(seat).answer for seat in seats] == [0, 0]
        assert world.group.state is GroupState.STABLE
        return
    first = world.join(seats[0].member_id)  # a rejoining leader makes a stable group rebalance
    assert first.is_parked
    assert world.heartbeat(seats[1]).answer == 27
    second = world.join(seats[1].member_id)
    assert {world.seat(first).generation, world.seat(second).generation} == {2}


def test_follower_rejoining_alone_keeps_the_generation(world: Any) -> None:
    """Step 2: the reason of the rebalance is lost with the coordinator, and the failed member may be back."""
    _, follower = world.stable(2)
    world.join(world.newcomer())
    assert world.heartbeat(follower).answer == 27
    world.crash()
    again = world.join(follower.member_id, protocols={"range": b""}).answer
    assert (again.error_code, again.generation_id) == (0, 1)
    assert world.sync(follower).answer.assignment == follower.member_id.encode()


def test_parked_joins_fail_and_restart_the_rebalance(world: Any) -> None:
    """Step 3, with a coordinator that resigns in order."""
    leader, follower = world.stable(2)
    parked = world.join(leader.member_id)
    world.resign()
    assert parked.answer.error_code == 16
    world.elect()
    seats = rejoin_all(world, [leader, follower])
    assert {seat.generation for seat in seats} == {2}


def test_rebalance_continues_after_some_members_have_rejoined(world: Any) -> None:
    """Step 3."""
    leader, follower, third = world.stable(3)
    assert world.join(leader.member_id).is_parked
    assert world.join(follower.member_id).is_parked
    world.crash()
    assert world.heartbeat(third).answer == 0
    assert world.join(leader.member_id).is_parked
    assert world.heartbeat(third).answer == 27
    assert world.heartbeat(follower).answer == 27


def test_new_members_in_the_join_phase_are_unknown(world: Any) -> None:
    """Step 3: members without a written generation are lost."""
    ids = [world.newcomer(), world.newcomer()]
    for member_id in ids:
        assert world.join(member_id).is_parked
    world.crash()
    assert [world.join(member_id).answer.error_code for member_id in ids] == [25, 25]
    assert len(world.stable(2)) == 2


# -- rebalancing


def test_unwritten_generation_is_unknown(world: Any) -> None:
    """Step 4, before the write: members send a generation that is newer than the loaded one."""
    seats = world.stable(2)
    world.join(seats[0].member_id)
    rejoined = world.seat(world.join(seats[1].member_id))
    assert rejoined.generation == 2
    world.crash()
    assert world.group.generation == 1
    assert world.heartbeat(rejoined).answer == 22
    assert world.sync(rejoined).answer.error_code == 22
    assert world.commit(rejoined).code == 22
    assert {seat.generation for seat in rejoin_all(world, seats)} == {2}


def test_unwritten_first_generation_leaves_unknown_members(world: Any) -> None:
    """Step 4, for a group without a previous generation."""
    leader, follower = world.joined(2)
    world.crash()
    assert world.sync(leader, {}).answer.error_code == 25
    assert world.heartbeat(follower).answer == 25
    assert len(world.stable(2)) == 2


def test_unreplicated_assignment_is_lost(world: Any) -> None:
    """Step 4: the assignment was appended but not replicated, so no member has received it."""
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.hold = True
    brought = world.sync(leader, {follower.member_id: b"plan"})
    assert waiting.is_parked
    assert brought.is_parked
    world.crash(losing=True)
    assert world.sync(follower).answer.error_code == 25


def test_replicated_assignment_is_loaded(world: Any) -> None:
    """Step 4, after the write."""
    leader, follower = world.joined(2)
    world.replica.hold = True
    brought = world.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"})
    assert brought.is_parked
    world.crash()
    assert world.sync(follower).answer.assignment == b"b"
    assert world.sync(leader).answer.assignment == b"a"
    assert world.group.state is GroupState.STABLE


def test_all_members_continue_in_the_written_generation(world: Any) -> None:
    """Step 5: some members have their assignment, others request it from the next coordinator."""
    leader, follower, third = world.joined(3)
    world.sync(leader, {seat.member_id: seat.member_id.encode() for seat in (leader, follower, third)})
    world.sync(follower)
    world.crash()
    assert [world.heartbeat(seat).answer for seat in (leader, follower)] == [0, 0]
    assert world.sync(third).answer.assignment == third.member_id.encode()


def test_member_with_several_protocols_causes_a_rebalance(world: Any) -> None:
    """Step 5, as in Kafka: only the elected protocol is in the log, so the member's protocols seem to have changed."""
    leader, follower = world.stable(2)
    world.crash()
    assert world.join(follower.member_id).is_parked
    assert world.heartbeat(leader).answer == 27


# -- other parked requests


def test_unreplicated_commit_is_lost_and_not_acknowledged(world: Any) -> None:
    world.commit(offset=1)
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.crash(losing=True)
    assert asked.is_parked
    assert world.offset() == 1


def test_group_with_a_lost_empty_generation_times_out_again(world: Any) -> None:
    (leader,) = world.stable(1, session_ms=5_000)
    world.replica.hold = True
    world.leave(leader.member_id)
    world.crash(losing=True)
    assert world.group.state is GroupState.STABLE
    world.advance(5.1)
    assert world.group.state is GroupState.EMPTY
    assert world.group.generation == 2


def test_static_member_returns_to_the_next_coordinator(world: Any) -> None:
    (old,) = world.static("i", protocols={"range": b""})
    world.crash()
    back = world.join(instance="i", protocols={"range": b""}).answer
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert world.heartbeat(old, instance="i").answer == 82
    world.crash()
    assert list(world.group.members) == [back.member_id]
