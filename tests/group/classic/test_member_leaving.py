"""Leaving a group: when LeaveGroup is sent, on which connection, and how long the member waits for its response."""

import pytest

from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.coordinator import LEAVING_CONNECTION, MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest

S = ClassicMemberState
SILENCE = "silence"


# -- leaving


def test_leaving_sends_leave_group_with_a_reason(world):
    world.join()
    world.member.leave("the test is over", world.now)
    assert world.member.state is S.LEAVING and not world.member.has_left
    assert world.member.identity == Identity("g")
    world.turn()
    assert world.member.has_left
    [leave_request] = world.sent(LeaveGroupRequest)
    assert [(m.member_id, m.reason) for m in leave_request.members] == [("m1", "the test is over")]
    world.run(20.0)
    assert world.times(HeartbeatRequest) == []


@pytest.mark.parametrize(
    ("instance", "leave_group", "said"),
    [(None, None, True), (None, True, True), (None, False, False), ("i", None, False), ("i", True, True)],
)
def test_which_members_send_leave_group(make_world, instance, leave_group, said):
    """By default a static member does not (KIP-345); KIP-1092 lets the user decide."""
    world = make_world({"group_instance_id": instance}).join()
    world.member.leave("x", world.now, leave_group=leave_group)
    world.turn()
    assert world.member.has_left and bool(world.sent(LeaveGroupRequest)) is said
    if said:
        assert world.sent(LeaveGroupRequest)[0].members[0].group_instance_id == instance
        assert world.said[-1][1].min_version == (0 if instance is None else 3)


def test_without_a_member_id_no_leave_group_is_sent(world):
    world.script.always[FindCoordinatorRequest] = SILENCE
    world.join()
    world.member.leave("x", world.now)
    assert world.member.has_left


@pytest.mark.parametrize(("request_timeout_ms", "seconds"), [(30_000, 5.0), (1000, 1.0)])
def test_leaving_ends_at_the_deadline_without_a_coordinator(make_world, request_timeout_ms, seconds):
    world = make_world({"request_timeout_ms": request_timeout_ms}).join()
    world.script.always[FindCoordinatorRequest] = SILENCE
    world.coordinator.lost(1, "gone", world.now)
    world.member.leave("closing", world.now)
    world.run(seconds - 0.1)
    assert not world.member.has_left
    world.run(0.2)
    assert world.member.has_left and world.sent(LeaveGroupRequest) == []


def test_leave_group_does_not_wait_behind_a_held_back_join(world):
    """It uses another connection; that of the abandoned JoinGroup is closed."""
    world.join()
    parked = world.rejoin()
    dropped = []
    world.member.drop_connection = dropped.append
    world.member.leave("closing", world.now)
    assert dropped == [parked.target] == [(1, MEMBERSHIP)]
    world.turn()
    assert world.member.has_left
    [leave_request] = [r for _, r, _ in world.said if r.api is LeaveGroupRequest]
    assert leave_request.target == (1, LEAVING_CONNECTION)


def test_a_retried_leave_group_does_not_follow_a_newer_join(world):
    world.join()
    world.script.lines[LeaveGroupRequest].append("reset")
    world.script.always[JoinGroupRequest] = SILENCE
    world.member.leave("unsubscribed", world.now)
    world.member.subscribe("subscribed again")
    world.run(1.0)
    targets = [request.target for _, request, _ in world.said if request.api is LeaveGroupRequest]
    assert targets == [(1, MEMBERSHIP), (1, LEAVING_CONNECTION)]


def test_no_other_broker_is_asked_while_a_leave_group_is_unanswered(world):
    world.script.always[LeaveGroupRequest] = SILENCE
    world.join()
    world.member.leave("closing", world.now)
    world.run(4.9)
    assert len(world.sent(FindCoordinatorRequest)) == 1 and not world.member.has_left


def test_a_member_with_an_id_but_no_generation_sends_leave_group(world):
    """Otherwise the coordinator's next rebalance would wait for this member id."""
    world.script.lines[JoinGroupRequest] += [0, SILENCE]
    world.join()
    assert world.member.state is S.PREPARING_REBALANCE
    world.member.leave("closing", world.now)
    world.turn()
    assert world.sent(LeaveGroupRequest)[0].members[0].member_id == "m1"


def test_subscribing_again_does_not_wait_for_the_leave_group_response(world):
    world.script.always[LeaveGroupRequest] = SILENCE
    world.join()
    world.member.leave("unsubscribed", world.now)
    world.member.subscribe("subscribed again")
    world.turn()
    assert world.member.state is S.STABLE and world.member.identity == Identity("g", 2, "m2")
    apis = [request.api for _, request, _ in world.said]
    assert apis.index(LeaveGroupRequest) < len(apis) - apis[::-1].index(JoinGroupRequest)
    world.run(20.0)
    assert world.member.state is S.STABLE


def test_leaving_again_withdraws_a_subscription_made_while_leaving(world):
    world.script.always[LeaveGroupRequest] = SILENCE
    world.join()
    world.member.leave("x", world.now)
    world.member.subscribe("y")
    world.member.leave("z", world.now)
    world.run(10.0)
    assert world.member.state is S.UNSUBSCRIBED
    world.member.leave("nothing to leave", world.now)
    assert world.member.state is S.UNSUBSCRIBED


def test_after_leaving_the_coordinator_is_not_searched(world):
    world.join()
    world.member.leave("x", world.now)
    world.turn()
    world.coordinator.lost(1, "gone", world.now)
    world.run(10.0)
    assert len(world.sent(FindCoordinatorRequest)) == 1


@pytest.mark.parametrize(
    ("instance", "leave_group", "said"), [(None, None, True), (None, False, False), ("i", None, False)]
)
def test_the_connection_to_leave_over_is_known_before(make_world, instance, leave_group, said):
    """Only a member that will send LeaveGroup needs it, and a held-back JoinGroup changes it."""
    world = make_world({"group_instance_id": instance}).join()
    assert world.member.leave_target(leave_group) == ((1, MEMBERSHIP) if said else None)
    world.rejoin()
    assert world.member.leave_target(leave_group) == ((1, LEAVING_CONNECTION) if said else None)
    world.member.leave("x", world.now, leave_group=leave_group)
    assert world.member.leave_target(leave_group) is None
    assert world.member.has_sent_leave is not said
    world.turn()
    assert world.member.has_sent_leave
