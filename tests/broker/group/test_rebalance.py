"""Rebalances: join phase, sync phase, and their timeouts."""

from itertools import repeat
from typing import Any

import pytest

from thinconsumer_testing.broker.group import rebalance
from thinconsumer_testing.broker.group.states import GroupState


@pytest.mark.parametrize(
    ("listed", "elected"),
    [
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin"),
        (["sticky range", "sticky range", "range"], "range"),
        (["roundrobin range sticky", "sticky range roundrobin"], "sticky"),  # the first in a Java HashMap
    ],
)
def test_protocol_with_most_votes_of_those_that_all_support_is_elected(
    world: Any, listed: list[str], elected: str
) -> None:
    asked = [world.join(version=3, protocols=dict.fromkeys(names.split(), b"")) for names in listed]
    world.advance(0)
    assert {one.answer.protocol_name for one in asked} == {elected}


def test_new_members_extend_the_initial_delay_up_to_the_rebalance_timeout(new_world: Any) -> None:
    world = new_world(group_initial_rebalance_delay_ms=3000)
    asked = [world.join(version=3, rebalance_ms=7000)]
    for _ in range(2):
        world.advance(2.5)
        asked.append(world.join(version=3, rebalance_ms=7000))
    world.advance(1.9)  # 6.9
    assert all(one.is_parked for one in asked)
    world.advance(0.2)  # 7.1
    assert {world.seat(one).generation for one in asked} == {1}


def test_initial_delay_without_new_members_is_not_extended(new_world: Any) -> None:
    world = new_world(group_initial_rebalance_delay_ms=3000)
    one, two = world.join(version=3), world.join(version=3)
    world.advance(3.0)
    assert one.is_parked  # two members joined during the first delay, so it is extended once
    world.advance(3.0)
    assert {world.seat(a).generation for a in (one, two)} == {1}


def test_members_that_do_not_rejoin_in_time_are_removed(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=60_000, rebalance_ms=5_000)
    rejoined = world.join(leader.member_id, rebalance_ms=2_000)  # the longest timeout of all members counts
    world.advance(4.9)
    assert rejoined.is_parked
    world.advance(0.2)
    assert world.seat(rejoined).generation == 2
    assert list(world.group.members) == [leader.member_id]
    assert world.heartbeat(follower).answer == 25


def test_late_leader_is_replaced(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=60_000, rebalance_ms=5_000)
    rejoined = world.join(follower.member_id, protocols={"range": b"new", "roundrobin": b""}, rebalance_ms=5_000)
    world.advance(5.1)
    assert world.seat(rejoined).is_leader
    assert world.heartbeat(leader).answer == 25


def test_static_members_that_do_not_rejoin_stay_until_their_session_timeout(world: Any) -> None:
    """KIP-345: they may be restarting."""
    timeouts = {"rebalance_ms": 2_000, "session_ms": 9_000}
    _, follower = world.static("i", "j", **timeouts)
    metadata = {"range": b"new", "roundrobin": b""}
    rejoined = world.join(follower.member_id, instance=follower.member_id[0], protocols=metadata, **timeouts)
    world.advance(2.1)
    seat = world.seat(rejoined)
    assert (seat.generation, seat.is_leader, len(world.group.members)) == (2, True, 2)
    world.sync(seat, {})
    world.advance(1.9)  # members without SyncGroup in time are removed all the same
    assert list(world.group.members) == [follower.member_id]


def test_join_phase_waits_if_only_static_members_are_missing(world: Any) -> None:
    world.static("i", rebalance_ms=2_000, session_ms=9_000)
    newcomer = world.newcomer(session_ms=1_000)
    world.join(newcomer, session_ms=1_000, rebalance_ms=2_000)
    world.leave(newcomer)  # no request is parked now, and the static member has to rejoin
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.advance(5)
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.group.generation == 1
    world.advance(5)
    assert world.group.state is GroupState.EMPTY
    assert world.group.generation == 2


def test_member_without_heartbeats_is_removed(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=3_000)
    world.advance(2)
    assert world.heartbeat(follower).answer == 0
    world.advance(1.5)
    assert world.heartbeat(follower).answer == 27
    assert leader.member_id not in world.group.members
    assert world.seat(world.join(follower.member_id)).generation == 2


def test_last_expired_session_leaves_an_empty_group(world: Any) -> None:
    world.stable(1, session_ms=3_000)
    world.advance(3.1)
    assert world.group.state is GroupState.EMPTY
    assert (world.group.generation, world.group.protocol_name, world.group.leader_id) == (2, None, None)


def test_session_does_not_expire_with_a_parked_join(world: Any) -> None:
    leader, follower = world.stable(2, session_ms=3_000, rebalance_ms=60_000)
    parked = world.join(leader.member_id, session_ms=3_000, rebalance_ms=60_000)
    for _ in range(5):
        world.advance(2)
        assert world.heartbeat(follower).answer == 27
    assert parked.is_parked
    assert leader.member_id in world.group.members


def test_session_does_not_expire_with_a_parked_sync(world: Any) -> None:
    leader, follower = world.joined(2, session_ms=3_000, rebalance_ms=60_000)
    waiting = world.sync(follower)
    for _ in range(5):
        world.advance(2)
        assert world.heartbeat(leader).answer == 0
    assert waiting.is_parked
    world.sync(leader, {follower.member_id: b"plan"})
    assert waiting.answer.assignment == b"plan"
    world.advance(2.9)  # and restarts then
    assert world.heartbeat(follower).answer == 0


def test_new_member_with_a_join_parked_for_five_minutes_is_removed(world: Any) -> None:
    """Its client may have disconnected without a trace, and the member would stay as long as others do not rejoin."""
    world.stable(2, session_ms=1_000_000, rebalance_ms=1_000_000)
    newcomer = world.join(world.newcomer(), rebalance_ms=1_000_000)
    world.advance(rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS / 1000 + 1)
    assert newcomer.answer.error_code == 25
    assert newcomer.answer.member_id == ""


def test_pending_member_id_expires(world: Any) -> None:
    """KIP-394: a pending member delays the rebalance at most for its session timeout."""
    (leader,) = world.stable(1, session_ms=60_000)
    pending = world.newcomer(session_ms=3_000)
    rejoined = world.join(leader.member_id, session_ms=60_000)
    assert rejoined.is_parked
    world.advance(3.1)
    assert world.seat(rejoined).generation == 2
    assert world.join(pending).answer.error_code == 25


def test_members_that_do_not_sync_in_time_are_removed(world: Any) -> None:
    leader, follower = world.joined(2, session_ms=60_000, rebalance_ms=5_000)
    waiting = world.sync(leader, {})
    assert waiting.answer.error_code == 0
    world.advance(4.9)
    assert world.heartbeat(leader).answer == 0
    world.advance(0.2)
    assert world.heartbeat(leader).answer == 27
    assert world.heartbeat(follower).answer == 25


def test_leader_without_sync_is_removed_after_the_timeout(world: Any) -> None:
    leader, follower = world.joined(2, session_ms=60_000, rebalance_ms=5_000)
    waiting = world.sync(follower)
    world.advance(5.1)
    assert waiting.answer.error_code == 27
    assert world.heartbeat(leader).answer == 25
    assert world.seat(world.join(follower.member_id)).is_leader


def test_no_member_is_removed_after_all_have_synced(world: Any) -> None:
    world.stable(2, session_ms=60_000, rebalance_ms=5_000)
    assert rebalance.SYNC not in world.group.timers
    world.advance(6)
    assert world.group.state is GroupState.STABLE


def test_rejected_assignment_append_makes_all_members_rejoin(world: Any) -> None:
    leader, follower = world.joined(2)
    waiting = world.sync(follower)
    world.replica.codes = repeat(19)  # NOT_ENOUGH_REPLICAS
    brought = world.sync(leader, {follower.member_id: b"plan"})
    assert (waiting.answer.error_code, brought.answer.error_code) == (15, 15)
    assert waiting.answer.assignment == b""
    assert world.group.state is GroupState.PREPARING_REBALANCE
    world.replica.codes = repeat(0)
    rejoined = [world.join(seat.member_id) for seat in (leader, follower)]
    assert {world.seat(a).generation for a in rejoined} == {2}


def test_assignment_committed_after_the_next_rebalance_is_ignored(world: Any) -> None:
    leader, _ = world.joined(2)
    world.replica.hold = True
    brought = world.sync(leader, {})
    third = world.join(world.newcomer())
    assert brought.answer.error_code == 27
    world.replica.replicate()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert third.is_parked


def test_last_members_to_rejoin_above_the_maximum_size_are_rejected(new_world: Any) -> None:
    world = new_world(group_max_size=2)
    seats = world.stable(2)
    refused = world.join(version=3)
    assert refused.answer.error_code == 81
    assert world.group.state is GroupState.STABLE
    assert len(seats) == 2


def test_group_loaded_above_the_maximum_size_rebalances(new_world: Any) -> None:
    world = new_world()
    seats = world.stable(3)
    world.config = type(world.config)(group_max_size=2, group_min_session_timeout_ms=10)
    world.crash()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    asked = [world.join(seat.member_id) for seat in seats]
    assert asked[2].answer.error_code == 81
    world.advance(30.1)  # there is room again, which is checked at the rebalance timeout
    assert [world.seat(a).generation for a in asked[:2]] == [2, 2]
