"""A member and time: heartbeats, gaps between polls, a silent coordinator, and clock jumps."""

import logging

import pytest

from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.coordinator import MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

S = ClassicMemberState
WHOLE = ["prepare", "protocols", "accept", "revoke", "install"]
SILENCE = "silence"


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# -- heartbeats


def test_one_heartbeat_per_interval(world):
    world.join().run(30.0)
    assert world.times(HeartbeatRequest) == [1003.0 + 3 * n for n in range(10)]
    assert world.due() == 1033.0
    [heartbeat] = {(m.member_id, m.generation_id) for m in world.sent(HeartbeatRequest)}
    assert heartbeat == ("m1", 1)


@pytest.mark.parametrize(("options", "deadline"), [({}, 10.0), ({"request_timeout_ms": 4000}, 4.0)])
def test_a_heartbeat_times_out_with_the_session_at_the_latest(make_world, options, deadline):
    world = make_world(options).join()
    world.run(3.0)
    [request] = [r for _, r, _ in world.said if r.api is HeartbeatRequest]
    assert request.deadline == 1003.0 + deadline and request.target == (1, MEMBERSHIP)


def test_the_heartbeat_interval_restarts_with_the_sync_response(world):
    world.script.always[SyncGroupRequest] = SILENCE
    world.join()
    [parked] = world.open
    world.now += 2.0
    world.respond_late(parked)
    world.run(2.9)
    assert world.sent(HeartbeatRequest) == []
    world.run(0.1)
    assert world.times(HeartbeatRequest) == [1005.0]


def test_successful_heartbeats_do_not_end_the_backoff_of_joins(make_world):
    """Heartbeats succeed between two failed joins."""
    world = make_world({"heartbeat_interval_ms": 50}).join()
    world.script.always[JoinGroupRequest] = Code.REQUEST_TIMED_OUT
    world.member.request_rejoin("x")
    world.run(20.0)
    assert len(world.sent(HeartbeatRequest)) > 100 and len(world.sent(JoinGroupRequest)) < 40


def test_no_heartbeat_during_an_unanswered_join_or_sync(world):
    """The coordinator would not read it, and keeps the session meanwhile."""
    for api in (JoinGroupRequest, SyncGroupRequest):
        world.script.always[api] = SILENCE
        world.join().run(20.0)
        assert world.sent(HeartbeatRequest) == []
        world.heal()
        [parked] = [request for request in world.open if request.asker == "member"]
        world.unheard.clear()
        world.turn()
        assert parked not in world.open


def test_a_queued_heartbeat_is_not_written_after_leaving(world):
    world.join()
    world.now += 3.0
    world.member.called(world.now)
    [heartbeat] = world.step()
    world.member.leave("x", world.now)
    error = world.write(heartbeat)
    assert "abandoned" in str(error) and world.sent(HeartbeatRequest) == []


# -- long gaps between calls


def test_after_a_gap_beyond_the_session_an_expelled_member_loses_its_partitions_and_rejoins(world, caplog):
    world.join()
    world.role.take_calls()
    world.script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
    world.now += 12.0
    world.member.called(world.now)
    assert "12.0 s between polls, session_timeout_ms=10000" in world.member.unconfirmed
    world.turn()
    assert world.role.calls == ["lose", *WHOLE]
    assert world.member.unconfirmed is None and world.member.identity == Identity("g", 2, "m2")
    assert world.sent(JoinGroupRequest)[2].member_id == ""
    [warning] = warnings(caplog)
    assert "12.0 s between polls, session_timeout_ms=10000" in warning


def test_a_program_that_is_slow_before_each_poll_is_warned_ever_more_rarely(world, caplog):
    world.join()
    for _ in range(20):
        world.now += 12.0
        world.member.called(world.now)
        world.turn()
        assert world.member.unconfirmed is None
    assert len(warnings(caplog)) == 4


def test_a_response_to_a_heartbeat_sent_before_the_gap_confirms_nothing(world):
    """The response waited in the socket; the session may have ended since."""
    world.script.lines[HeartbeatRequest].append(SILENCE)
    world.join()
    world.run(3.0)
    [old] = world.open
    world.now += 11.0
    world.member.called(world.now)
    world.open.clear()
    world.open.append(old)
    world.reply(old, world.write(old))
    assert world.member.unconfirmed is not None
    world.step()
    world.serve()
    assert world.member.unconfirmed is None


def test_a_sync_sent_after_the_gap_confirms_the_membership(world):
    world.join()
    parked = world.rejoin()
    world.now += 11.0
    world.member.called(world.now)
    world.respond_late(parked)
    assert world.member.unconfirmed is not None, "the join was sent before the gap"
    world.turn()
    assert world.member.unconfirmed is None and world.member.state is S.STABLE


def test_a_gap_within_the_session_needs_no_confirmation(world, caplog):
    world.join()
    world.now += 9.9
    world.turn()
    assert world.member.unconfirmed is None and warnings(caplog) == []


def test_a_gap_before_the_first_join_needs_no_confirmation(world, caplog):
    world.member.subscribe("x")
    world.member.called(world.now)
    world.member.called(world.now + 100.0)
    assert world.member.unconfirmed is None and warnings(caplog) == []


def test_polls_return_no_records_until_the_membership_is_confirmed(world):
    world.join()
    world.script.always[HeartbeatRequest] = SILENCE
    world.now += 12.0
    world.turn()
    assert world.member.unconfirmed is not None
    world.run(9.0)
    assert world.member.unconfirmed is not None
    world.heal()
    world.run(5.0)
    assert world.member.unconfirmed is None


# -- drive without poll (KIP-62)


def test_without_polls_the_member_leaves_and_rejoins_with_the_next_poll(world, caplog):
    world.join()
    world.role.take_calls()
    world.working = False
    world.run(70.0)
    assert world.member.state is S.LOSING and world.member.identity == Identity("g") and world.member.unconfirmed
    [leave_request] = world.sent(LeaveGroupRequest)
    assert world.times(LeaveGroupRequest) == [1060.0]
    assert leave_request.members[0].member_id == "m1"
    assert "60.0 s between polls, max_poll_interval_ms=60000" in leave_request.members[0].reason
    [warning] = warnings(caplog)
    assert "60.0 s between polls, max_poll_interval_ms=60000" in warning
    assert max(world.times(HeartbeatRequest)) < 1060.0
    assert world.role.calls == []
    world.working = True
    world.turn()
    assert world.role.calls == ["lose", *WHOLE] and world.member.identity.member_id == "m2"


def test_the_end_of_the_poll_interval_is_a_wake_up(world):
    world.script.always[HeartbeatRequest] = SILENCE
    world.join()
    world.now += 3.0
    world.step()
    world.now = 1059.9
    world.step()
    assert world.due() == 1060.0


def test_the_leaders_assignment_in_a_blocking_call_does_not_count_as_poll(world):
    world.script.leads = True
    world.join()
    world.run(50.0)
    parked = world.rejoin()
    world.now += 5.0
    world.respond_late(parked)
    world.working = False
    for _ in range(5):
        world.turn()
        world.member.work(world.now, every=False)
    assert world.member.state is S.REVOKING_AFTER_SYNC
    world.run(60.0)
    assert world.times(LeaveGroupRequest) == [1110.0]


def test_after_the_poll_timeout_only_a_poll_joins_again(world):
    """A blocking call may run role methods, too; the group must not wait for a member that does not poll."""
    world.join()
    world.working = False
    world.run(61.0)
    assert world.member.work(world.now)
    world.run(10.0)
    assert world.member.state is S.UNJOINED and world.due() > world.now
    world.working = True
    world.turn()
    assert world.member.state is S.STABLE


def test_a_static_member_stops_heartbeats_without_leave_group(make_world):
    """KIP-345: its partitions stay assigned to it until its session expires."""
    world = make_world({"group_instance_id": "i"}).join()
    world.working = False
    world.run(70.0)
    assert world.sent(LeaveGroupRequest) == [] and world.member.identity == Identity("g", -1, "", "i")
    assert max(world.times(HeartbeatRequest)) < 1060.0


def test_time_within_a_listener_does_not_count_for_the_poll_interval(world):
    """The poll that called the listener has not returned."""

    def slow():
        for _ in range(13):
            world.now += 5.0
            world.member.called(world.now)
            world.step()
            world.serve()
        return True

    world.join()
    world.role.says["prepare"] = slow
    world.member.request_rejoin("x")
    world.turn()
    assert world.sent(LeaveGroupRequest) == [] and world.member.state is S.STABLE


def test_the_poll_timeout_does_not_abandon_a_join_in_flight(world):
    world.join()
    world.rejoin()
    world.working = False
    world.run(64.0)
    assert world.sent(LeaveGroupRequest) == [] and world.due() > world.now


# -- the coordinator does not answer


@pytest.mark.parametrize("api", [JoinGroupRequest, SyncGroupRequest])
def test_a_stopped_coordinator_is_detected_during_a_join_or_sync(world, api):
    """A held-back join looks the same; other brokers know that the group has moved."""
    world.join()
    parked = world.rejoin(api)
    asked = len(world.said)
    world.run(8.5)
    probes = [r for _, r, _ in world.said[asked:] if r.api is FindCoordinatorRequest]
    assert [p.target.node_id in (2, 3) for p in probes] == [True, True], (
        "one per heartbeat interval, not to the coordinator"
    )
    assert world.member.state in (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE)
    world.heal()
    world.script.node_id = 2
    world.now += 1.0
    world.member.called(world.now)
    world.step()
    world.serve()
    requests = world.coordinator.step(world.now) + world.member.step(world.now)
    assert world.dropped == [parked.target] == [(1, MEMBERSHIP)]
    world.open += requests
    world.turn()
    assert world.member.state is S.STABLE
    assert world.member.identity.member_id == "m1"
    assert world.sent(JoinGroupRequest)[-1].member_id == "m1"
    [last] = [r for _, r, _ in world.said if r.api is SyncGroupRequest][-1:]
    assert last.target == (2, MEMBERSHIP)


def test_a_stopped_coordinator_is_detected_by_an_unanswered_heartbeat(world):
    world.join()
    world.script.always[HeartbeatRequest] = SILENCE
    world.run(5.0)
    world.heal()
    world.script.node_id = 3
    world.run(3.0)
    assert world.coordinator.node_id == 3 and world.member.state is S.STABLE
    assert [r.target.node_id for _, r, _ in world.said if r.api is HeartbeatRequest] == [1, 3]
    assert world.member.identity == Identity("g", 1, "m1"), "the new coordinator has loaded the member from its log"


def test_a_join_stays_in_flight_if_other_brokers_confirm_the_coordinator(world):
    world.join()
    world.rejoin()
    world.run(40.0)
    assert len([r for r in world.open if r.api is JoinGroupRequest]) == 1 and world.dropped == []


def test_a_join_stays_in_flight_if_the_same_coordinator_is_found_again(world):
    """Only the connection for commits broke; the join is on another one."""
    world.join()
    parked = world.rejoin()
    world.coordinator.lost(1, "the commit's connection broke", world.now)
    world.run(1.0)
    assert world.coordinator.node_id == 1 and world.open == [parked]


# -- clocks that jump


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("jump", [15.0, 100.0, 1e6])
def test_the_member_recovers_from_any_clock_jump(make_world, state, jump):
    """After a suspended laptop wakes up, the session has expired and requests in flight have timed out."""
    world = make_world().reach(state)
    world.heal()
    world.unheard.clear()
    world.now += jump
    if state is S.STABLE:
        world.script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
    world.run(10.0)
    expected = {S.UNSUBSCRIBED: S.UNSUBSCRIBED, S.LEAVING: S.UNSUBSCRIBED, S.FATAL: S.FATAL}
    assert world.member.state is expected.get(state, S.STABLE)
    assert world.member.unconfirmed is None
    assert len(world.said) < 40
