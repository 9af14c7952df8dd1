"""A coordinator that dies at each step of a rebalance, and what becomes of the group with the next one.

The steps are those of the failure cases in Kafka's *Consumer Rewrite Design* and its coordinator's failover scenarios:

1. a member failed or came, and nobody was told yet
2. some members were told of the rebalance, others not
3. some members have rejoined, others not
4. the generation was made, and is not in the log; or it is, and nobody was told
5. some members have heard of the new generation, others not

There generation and members were written when all had joined; today they are written together with the assignment,
when the leader brings it. So whoever dies before that leaves the earlier generation behind, and its members go on in it
or rejoin; whoever dies after leaves the new one, with its assignments.
"""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.broker.group.states import GroupState


def rejoin_all(world: Any, seats: list[Any]) -> list[Any]:
    """Let members join again and form a stable group; return their places, the leader first."""
    asked = [world.join(seat.member_id) for seat in seats]
    found = sorted((world.seat(one) for one in asked), key=lambda seat: not seat.is_leader)
    world.settle(found)
    return found


# -- steady


def test_a_steady_group_goes_on_with_its_generation(world: Any) -> None:
    leader, follower = world.stable(2)
    world.commit(leader, 7)
    world.crash()
    assert [world.heartbeat(seat).answer for seat in (leader, follower)] == [0, 0]
    assert world.sync(follower).answer.assignment == follower.member_id.encode()
    assert world.commit(follower, 8, partition=1).code == 0
    assert (world.offset(0), world.offset(1)) == (7, 8)


def test_a_steady_group_goes_on_while_its_coordinator_catches_up(new_world: Any) -> None:
    world = new_world()
    leader, _ = world.stable(2)
    world.config = type(world.config)(coordinator_load_s=3.0, group_min_session_timeout_ms=10)
    world.crash()
    assert world.heartbeat(leader).answer == 0
    assert world.commit(leader).code == 14
    world.advance(3)
    assert world.commit(leader).code == 0


def test_sessions_begin_anew_with_the_new_coordinator(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=10_000)
    world.advance(9)
    world.crash()
    world.advance(9)
    assert world.heartbeat(leader).answer == 0
    world.advance(2)
    assert world.heartbeat(leader).answer == 27
    assert follower.member_id not in world.group.members


def test_a_member_that_died_with_its_coordinator_is_missed_by_the_next(world: Any) -> None:
    """Step 1: the failure is found once more, a session later."""
    leader, _ = world.stable(2, session_ms=10_000)
    world.advance(9.9)
    world.heartbeat(leader)
    world.crash()
    for _ in range(3):
        world.advance(4)
        world.heartbeat(leader)
    (left,) = rejoin_all(world, [leader])
    assert left.generation == 2


def test_an_id_that_was_given_out_is_not_known_to_the_next(world: Any) -> None:
    """Step 1: nobody knows that a newcomer was to come back."""
    (leader,) = world.stable(1)
    pending = world.newcomer()
    world.crash()
    assert world.join(pending).answer.error_code == 25
    assert world.heartbeat(leader).answer == 0


# -- prepare for rebalance


@pytest.mark.parametrize("told", [0, 1, 2])
def test_a_rebalance_that_only_some_have_heard_of_begins_again(world: Any, told: int) -> None:
    """Step 2: those who heard rejoin and so begin it; the others hear of it then. The newcomer is not known."""
    seats = world.stable(2)
    newcomer = world.newcomer()
    world.join(newcomer)
    assert [world.heartbeat(seat).answer for seat in seats[:told]] == [27] * told
    world.crash()
    assert world.join(newcomer).answer.error_code == 25
    if told == 0:
        assert [world.heartbeat(seat).answer for seat in seats] == [0, 0]
        assert world.group.state is GroupState.STABLE
        return
    first = world.join(seats[0].member_id)  # the leader: a stable group rebalances for it
    assert first.is_parked
    assert world.heartbeat(seats[1]).answer == 27
    second = world.join(seats[1].member_id)
    assert {world.seat(first).generation, world.seat(second).generation} == {2}


def test_a_follower_that_alone_heard_of_a_rebalance_that_is_off_is_told_to_stay(world: Any) -> None:
    """Step 2: why there was one died with the coordinator; the member that failed may be back."""
    _, follower = world.stable(2)
    world.join(world.newcomer())
    assert world.heartbeat(follower).answer == 27
    world.crash()
    again = world.join(follower.member_id, protocols={"range": b""}).answer
    assert (again.error_code, again.generation_id) == (0, 1)
    assert world.sync(follower).answer.assignment == follower.member_id.encode()


def test_joins_that_were_parked_are_sent_on_and_begin_the_rebalance_again(world: Any) -> None:
    """Step 3, with a coordinator that could still say goodbye."""
    leader, follower = world.stable(2)
    parked = world.join(leader.member_id)
    world.resign()
    assert parked.answer.error_code == 16
    world.elect()
    seats = rejoin_all(world, [leader, follower])
    assert {seat.generation for seat in seats} == {2}


def test_some_have_rejoined_and_the_others_hear_of_it_from_the_next(world: Any) -> None:
    """Step 3."""
    leader, follower, third = world.stable(3)
    assert world.join(leader.member_id).is_parked
    assert world.join(follower.member_id).is_parked
    world.crash()
    assert world.heartbeat(third).answer == 0
    assert world.join(leader.member_id).is_parked
    assert world.heartbeat(third).answer == 27
    assert world.heartbeat(follower).answer == 27


def test_members_that_were_joining_for_the_first_time_are_unknown(world: Any) -> None:
    """Step 3: what was not written is not known."""
    ids = [world.newcomer(), world.newcomer()]
    for member_id in ids:
        assert world.join(member_id).is_parked
    world.crash()
    assert [world.join(member_id).answer.error_code for member_id in ids] == [25, 25]
    assert len(world.stable(2)) == 2


# -- rebalancing


def test_a_generation_that_was_never_written_is_not_known(world: Any) -> None:
    """Step 4, before the log has it: members fall back to the generation before, and say one that is too new."""
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


def test_a_first_generation_that_was_never_written_leaves_strangers(world: Any) -> None:
    """Step 4, for a group that had no generation before."""
    leader, follower = world.joined(2)
    world.crash()
    assert world.sync(leader, {}).answer.error_code == 25
    assert world.heartbeat(follower).answer == 25
    assert len(world.stable(2)) == 2


def test_an_assignment_that_the_dead_coordinator_alone_had_is_lost(world: Any) -> None:
    """Step 4: it was appended and not replicated, so nobody was told."""
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.hold = True
    brought = world.sync(leader, {follower.member_id: b"plan"})
    assert waiting.is_parked
    assert brought.is_parked
    world.crash(losing=True)
    assert world.sync(follower).answer.error_code == 25


def test_an_assignment_that_was_replicated_is_there_though_nobody_was_told(world: Any) -> None:
    """Step 4, after the log has it."""
    leader, follower = world.joined(2)
    world.replica.hold = True
    brought = world.sync(leader, {leader.member_id: b"a", follower.member_id: b"b"})
    assert brought.is_parked
    world.crash()
    assert world.sync(follower).answer.assignment == b"b"
    assert world.sync(leader).answer.assignment == b"a"
    assert world.group.state is GroupState.STABLE


def test_members_that_heard_of_the_generation_and_those_that_did_not_meet_in_it(world: Any) -> None:
    """Step 5: some have their assignment, others ask the next coordinator for it."""
    leader, follower, third = world.joined(3)
    world.sync(leader, {seat.member_id: seat.member_id.encode() for seat in (leader, follower, third)})
    world.sync(follower)
    world.crash()
    assert [world.heartbeat(seat).answer for seat in (leader, follower)] == [0, 0]
    assert world.sync(third).answer.assignment == third.member_id.encode()


def test_a_member_that_missed_the_answer_to_its_join_gets_the_generation_from_the_next(world: Any) -> None:
    """Step 5: as a follower with the same metadata it need not disturb anybody."""
    leader, follower = world.stable(2, protocols={"range": b"m"})
    world.crash()
    again = world.join(follower.member_id, protocols={"range": b"m"}).answer
    assert (again.error_code, again.generation_id) == (0, 1)
    assert world.heartbeat(leader).answer == 0


def test_a_member_that_knows_more_protocols_than_were_written_rebalances_the_group(world: Any) -> None:
    """Step 5, as Kafka has it: only the elected protocol is in the log, so the member looks changed."""
    leader, follower = world.stable(2)
    world.crash()
    assert world.join(follower.member_id).is_parked
    assert world.heartbeat(leader).answer == 27


# -- other things that can be under way


def test_a_commit_that_the_dead_coordinator_alone_had_is_lost_and_was_not_confirmed(world: Any) -> None:
    world.commit(offset=1)
    world.replica.hold = True
    asked = world.commit(offset=2)
    world.crash(losing=True)
    assert asked.is_parked
    assert world.offset() == 1


def test_a_group_that_was_emptied_stays_so(world: Any) -> None:
    (leader,) = world.stable(1)
    world.leave(leader.member_id)
    world.crash()
    assert world.heartbeat(leader).answer == 25
    assert world.group.state is GroupState.EMPTY


def test_a_group_whose_end_was_lost_times_out_once_more(world: Any) -> None:
    (leader,) = world.stable(1, session_ms=5_000)
    world.replica.hold = True
    world.leave(leader.member_id)
    world.crash(losing=True)
    assert world.group.state is GroupState.STABLE
    world.advance(5.1)
    assert world.group.state is GroupState.EMPTY
    assert world.group.generation == 2


def test_the_generation_of_a_group_grows_over_any_number_of_coordinators(world: Any) -> None:
    seats = world.stable(2)
    for number in range(2, 6):
        world.crash()
        seats = rejoin_all(world, seats)
        assert {seat.generation for seat in seats} == {number}


def test_a_static_member_that_was_away_comes_back_to_the_next_coordinator(world: Any) -> None:
    (old,) = [world.seat(a) for a in [world.join(instance="i", protocols={"range": b""})] if world.advance(0) is None]
    world.settle([old])
    world.crash()
    back = world.join(instance="i", protocols={"range": b""}).answer
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert world.heartbeat(old, instance="i").answer == 82
    world.crash()
    assert list(world.group.members) == [back.member_id]
