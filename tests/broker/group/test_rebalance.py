"""From one generation to the next, and what happens when somebody takes too long."""

from __future__ import annotations

from typing import Any

from thinconsumer.broker.group import rebalance
from thinconsumer.broker.group.states import GroupState


def test_two_newcomers_form_a_generation(world: Any) -> None:
    leader, follower = world.joined(2)
    assert (leader.generation, follower.generation) == (1, 1)
    assert leader.is_leader
    assert not follower.is_leader
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_only_the_leader_sees_the_members(world: Any) -> None:
    ids = [world.newcomer(), world.newcomer()]
    asked = [world.join(name, protocols={"range": name.encode()}) for name in ids]
    world.advance(0)
    leader, follower = sorted((a.answer for a in asked), key=lambda a: a.leader != a.member_id)
    assert {m.member_id: m.metadata for m in leader.members} == {name: name.encode() for name in ids}
    assert follower.members == []
    assert (leader.protocol_name, leader.protocol_type) == ("range", "consumer")


def test_an_initial_rebalance_waits_for_more_members(new_world: Any) -> None:
    world = new_world(group_initial_rebalance_delay_ms=3000)
    first = world.join(version=3)
    world.advance(2.9)
    assert first.is_parked
    world.advance(0.2)
    assert world.seat(first).generation == 1


def test_the_initial_delay_is_extended_by_each_newcomer_up_to_the_rebalance_timeout(new_world: Any) -> None:
    world = new_world(group_initial_rebalance_delay_ms=3000)
    asked = [world.join(version=3, rebalance_ms=7000)]
    for _ in range(2):
        world.advance(2.5)
        asked.append(world.join(version=3, rebalance_ms=7000))
    world.advance(1.9)  # 6.9
    assert all(one.is_parked for one in asked)
    world.advance(0.2)  # 7.1
    assert {world.seat(one).generation for one in asked} == {1}


def test_without_a_newcomer_the_initial_delay_ends_at_once(new_world: Any) -> None:
    world = new_world(group_initial_rebalance_delay_ms=3000)
    one, two = world.join(version=3), world.join(version=3)
    world.advance(3.0)
    assert one.is_parked  # two came during the first delay, which begins once more
    world.advance(3.0)
    assert {world.seat(a).generation for a in (one, two)} == {1}


def test_members_learn_of_a_rebalance_by_their_heartbeats_and_rejoin(world: Any) -> None:
    leader, follower = world.stable(2)
    third = world.join(world.newcomer())
    assert world.heartbeat(follower).answer == 27
    rejoined = [world.join(leader.member_id), world.join(follower.member_id)]
    assert {world.seat(a).generation for a in (third, *rejoined)} == {2}


def test_who_does_not_rejoin_in_time_is_out(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=60_000, rebalance_ms=5_000)
    rejoined = world.join(leader.member_id, rebalance_ms=5_000)
    world.advance(4.9)
    assert rejoined.is_parked
    world.advance(0.2)
    assert world.seat(rejoined).generation == 2
    assert list(world.group.members) == [leader.member_id]
    assert world.heartbeat(follower).answer == 25


def test_a_late_leader_is_replaced(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=60_000, rebalance_ms=5_000)
    rejoined = world.join(follower.member_id, protocols={"range": b"new", "roundrobin": b""}, rebalance_ms=5_000)
    world.advance(5.1)
    assert world.seat(rejoined).is_leader
    assert world.heartbeat(leader).answer == 25


def test_static_members_that_do_not_rejoin_are_kept_until_their_session_ends(world: Any) -> None:
    """KIP-345: they may be restarting."""
    asked = [world.join(instance=name, rebalance_ms=2_000, session_ms=9_000) for name in ("i", "j")]
    world.advance(0)
    seats = sorted((world.seat(a) for a in asked), key=lambda s: not s.is_leader)
    world.settle(seats)
    rejoined = world.join(seats[0].member_id, instance=_instance(seats[0]), rebalance_ms=2_000, session_ms=9_000)
    world.advance(2.1)
    assert world.seat(rejoined).generation == 2
    assert len(world.group.members) == 2
    world.sync(world.seat(rejoined), {})
    world.advance(1.9)  # those who do not sync in time are out all the same
    assert list(world.group.members) == [seats[0].member_id]


def _instance(seat: Any) -> str:
    return str(seat.member_id[0])


def test_static_members_none_of_which_rejoins_are_waited_for(world: Any) -> None:
    asked = world.join(instance="i", rebalance_ms=2_000, session_ms=9_000)
    world.advance(0)
    seat = world.seat(asked)
    world.sync(seat, {})
    newcomer = world.newcomer(session_ms=1_000)
    world.join(newcomer, session_ms=1_000, rebalance_ms=2_000)
    world.leave(newcomer)  # nobody is parked now, and the static member was to rejoin
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.advance(5)
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.group.generation == 1
    world.advance(5)
    assert world.group.state is GroupState.EMPTY
    assert world.group.generation == 2


def test_a_member_that_sends_no_heartbeats_is_out(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=3_000)
    world.advance(2)
    assert world.heartbeat(follower).answer == 0
    world.advance(1.5)
    assert world.heartbeat(follower).answer == 27
    assert leader.member_id not in world.group.members
    assert world.seat(world.join(follower.member_id)).generation == 2


def test_the_last_session_to_end_leaves_an_empty_group(world: Any) -> None:
    world.stable(1, session_ms=3_000)
    world.advance(3.1)
    assert world.group.state is GroupState.EMPTY
    assert (world.group.generation, world.group.protocol_name, world.group.leader_id) == (2, None, None)


def test_a_session_does_not_end_while_a_join_is_parked(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=3_000, rebalance_ms=60_000)
    parked = world.join(leader.member_id, session_ms=3_000, rebalance_ms=60_000)
    for _ in range(5):
        world.advance(2)
        assert world.heartbeat(follower).answer == 27
    assert parked.is_parked
    assert leader.member_id in world.group.members


def test_a_session_does_not_end_while_a_sync_is_parked(world: Any) -> None:
    leader, follower = world.joined(2, session_ms=3_000, rebalance_ms=60_000)
    waiting = world.sync(follower)
    for _ in range(5):
        world.advance(2)
        assert world.heartbeat(leader).answer == 0
    assert waiting.is_parked
    world.sync(leader, {follower.member_id: b"plan"})
    assert waiting.answer.assignment == b"plan"
    world.advance(2.9)  # and begins anew then
    assert world.heartbeat(follower).answer == 0


def test_a_newcomer_whose_join_is_parked_for_five_minutes_is_out(world: Any) -> None:
    """Its client may be gone without a trace, and would stay in for as long as members keep on not rejoining."""
    world.stable(2, session_ms=1_000_000, rebalance_ms=1_000_000)
    newcomer = world.join(world.newcomer(), rebalance_ms=1_000_000)
    world.advance(rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS / 1000 + 1)
    assert newcomer.answer.error_code == 25
    assert newcomer.answer.member_id == ""


def test_an_id_that_is_not_used_in_time_is_forgotten(world: Any) -> None:
    """KIP-394: pending members hold a rebalance up, but only for their session timeout."""
    (leader,) = world.stable(1, session_ms=60_000)
    pending = world.newcomer(session_ms=3_000)
    rejoined = world.join(leader.member_id, session_ms=60_000)
    assert rejoined.is_parked
    world.advance(3.1)
    assert world.seat(rejoined).generation == 2
    assert world.join(pending).answer.error_code == 25


def test_members_that_do_not_sync_in_time_are_out(world: Any) -> None:
    leader, follower = world.joined(2, session_ms=60_000, rebalance_ms=5_000)
    waiting = world.sync(leader, {})
    assert waiting.answer.error_code == 0
    world.advance(4.9)
    assert world.heartbeat(leader).answer == 0
    world.advance(0.2)
    assert world.heartbeat(leader).answer == 27
    assert world.heartbeat(follower).answer == 25


def test_a_leader_that_does_not_sync_holds_nobody_up_for_ever(world: Any) -> None:
    leader, follower = world.joined(2, session_ms=60_000, rebalance_ms=5_000)
    waiting = world.sync(follower)
    world.advance(5.1)
    assert waiting.answer.error_code == 27
    assert world.heartbeat(leader).answer == 25
    assert world.seat(world.join(follower.member_id)).is_leader


def test_everybody_has_synced_and_nobody_is_missed(world: Any) -> None:
    world.stable(2, session_ms=60_000, rebalance_ms=5_000)
    assert rebalance.SYNC not in world.group.timers
    world.advance(6)
    assert world.group.state is GroupState.STABLE


def test_an_assignment_that_cannot_be_written_sends_everybody_to_rejoin(world: Any) -> None:
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.refuse = 19  # NOT_ENOUGH_REPLICAS
    brought = world.sync(leader, {follower.member_id: b"plan"})
    assert (waiting.answer.error_code, brought.answer.error_code) == (15, 15)
    assert waiting.answer.assignment == b""
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.replica.refuse = 0
    rejoined = [world.join(seat.member_id) for seat in (leader, follower)]
    assert {world.seat(a).generation for a in rejoined} == {2}


def test_an_assignment_that_is_written_too_late_counts_for_nothing(world: Any) -> None:
    leader, _ = world.joined(2)
    world.replica.hold = True
    brought = world.sync(leader, {})
    third = world.join(world.newcomer())
    assert brought.answer.error_code == 27
    world.replica.release()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert third.is_parked


def test_a_group_over_its_size_loses_the_last_to_rejoin(new_world: Any) -> None:
    world = new_world(group_max_size=2)
    seats = world.stable(2)
    refused = world.join(version=3)
    assert refused.answer.error_code == 81
    assert world.group.state is GroupState.STABLE
    assert len(seats) == 2


def test_a_group_loaded_over_its_size_rebalances(new_world: Any) -> None:
    world = new_world()
    seats = world.stable(3)
    world.config = type(world.config)(group_max_size=2, group_min_session_timeout_ms=10)
    world.crash()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    asked = [world.join(seat.member_id) for seat in seats]
    assert asked[2].answer.error_code == 81
    world.advance(30.1)  # its place is free, which nobody looks at before the rebalance timeout
    assert [world.seat(a).generation for a in asked[:2]] == [2, 2]
