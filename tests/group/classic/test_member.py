"""A member and a healthy coordinator: join, lead, follow, rebalance, inconsistent responses; every state."""

import itertools
import logging
from collections import deque

import pytest

from thinconsumer.errors import InconsistentGroupProtocolError, KafkaConnectionError, KafkaProtocolError
from thinconsumer.group.classic.rebalance_attempt import READY_WITHIN
from thinconsumer.group.classic.requests import JOIN_GRACE
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


# -- joining


def test_after_member_id_required_the_join_is_repeated_at_once(world):
    """KIP-394. The second JoinGroup repeats the protocols without asking the role again."""
    world.join()
    first, second = world.sent(JoinGroupRequest)
    assert (first.member_id, second.member_id) == ("", "m1")
    assert world.times(JoinGroupRequest) == [1000.0, 1000.0]
    assert [p.name for p in second.protocols] == ["a", "b"]


def test_a_call_without_callbacks_repeats_the_join_after_member_id_required(world):
    """No user code is due between the two joins, and the coordinator drops an unused member id soon."""
    answers = world.script.lines[JoinGroupRequest]
    world.reach(S.REVOKING_BEFORE_JOIN)
    world.heal()
    world.now += 1
    assert world.member.work(world.now) and world.member.work(world.now)
    world.working = False
    world.turn()
    assert not answers and world.member.state is S.REVOKING_AFTER_SYNC
    assert world.role.taken == [], "the role decodes the assignment in work, not in a step"


def test_the_fields_of_a_join_request(make_world):
    world = make_world({"max_poll_interval_ms": 77_000})
    world.member.subscribe("x" * 300)
    world.turn()
    [_, join] = world.sent(JoinGroupRequest)
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (10_000, 77_000)
    assert (join.group_id, join.protocol_type, join.group_instance_id) == ("g", "pool", None)
    assert [(p.name, bytes(p.metadata)) for p in join.protocols] == [("a", b"a"), ("b", b"b")]
    assert join.reason == "x" * 255, "KIP-800, as Java cuts it"
    [request] = [r for _, r, m in world.said if m is join]
    assert request.deadline == world.now + 77.0 + JOIN_GRACE and request.max_wait == 77.0
    assert request.target == (1, MEMBERSHIP)


@pytest.mark.parametrize(("poll_ms", "join_deadline"), [(60_000, 1065.0), (1000, 1030.0)])
@pytest.mark.parametrize("leads", [False, True])
def test_the_deadlines_and_held_back_times_of_join_and_sync(make_world, poll_ms, join_deadline, leads):
    """A join may take at least the request timeout; the coordinator does not hold back a leader's SyncGroup."""
    world = make_world({"max_poll_interval_ms": poll_ms})
    world.script.leads = leads
    world.join()
    assert {r.deadline for _, r, _ in world.said if r.api is JoinGroupRequest} == {join_deadline}
    sync = [(r.deadline, r.max_wait) for _, r, _ in world.said if r.api is SyncGroupRequest]
    assert sync == [(1030.0, 0.0 if leads else 30.0)]


@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize("version", range(10))
def test_join_heartbeat_and_leave_work_in_every_version(make_world, version, instance):
    """In a version without an instance id, the broker would treat a static member as a dynamic one."""
    world = make_world({"group_instance_id": instance}, version=version)
    highest = {JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 5}
    highest[FindCoordinatorRequest] = 6
    write, versions = world.write, {}

    def capped(request):
        world.version = min(version, highest[request.api])
        versions[request.api] = max(world.version, request.min_version)
        return write(request)

    world.write = capped
    world.script.leads = world.script.requires_id = version % 2 == 1
    world.join().run(4.0)
    assert world.member.state is S.STABLE and len(world.sent(HeartbeatRequest)) == 1
    world.member.leave("y" * 256, world.now, leave_group=True)
    world.turn()
    assert world.member.state is S.UNSUBSCRIBED
    join, sync = world.sent(JoinGroupRequest)[-1], world.sent(SyncGroupRequest)[0]
    [heartbeat], [leave_request] = world.sent(HeartbeatRequest), world.sent(LeaveGroupRequest)
    assert (join.group_id, join.protocol_type, join.group_instance_id) == ("g", "pool", instance)
    assert join.rebalance_timeout_ms == (60_000 if versions[JoinGroupRequest] >= 1 else -1)
    assert (sync.generation_id, sync.member_id, sync.group_instance_id) == (1, "m1", instance)
    shares = {s.member_id: bytes(s.assignment) for s in sync.assignments}
    assert shares == ({"m1": b"share of m1", "other": b"share of other"} if world.script.leads else {})
    assert (heartbeat.generation_id, heartbeat.member_id, heartbeat.group_instance_id) == (1, "m1", instance)
    if versions[LeaveGroupRequest] >= 3:
        [leaving] = leave_request.members
        assert (leaving.member_id, leaving.group_instance_id) == ("m1", instance)
        assert leaving.reason == ("y" * 255 if versions[LeaveGroupRequest] >= 5 else None)
    else:
        assert leave_request.member_id == "m1"


def test_a_static_member_sends_its_instance_id_in_every_request(make_world):
    world = make_world({"group_instance_id": "i"})
    world.join().run(3.0)
    for api, lowest in ((JoinGroupRequest, 5), (SyncGroupRequest, 3), (HeartbeatRequest, 3)):
        assert {m.group_instance_id for m in world.sent(api)} == {"i"}
        assert {r.min_version for _, r, _ in world.said if r.api is api} == {lowest}
    assert len(world.sent(JoinGroupRequest)) == 1, "a static member needs no member id for its first JoinGroup"


# -- leading


def test_a_leader_waits_for_metadata_then_sends_the_assignments(world):
    world.script.leads = True
    world.role.says["ready_to_assign"] = deque([False, False, True])
    world.join()
    assert world.member.state is S.COMPLETING_REBALANCE
    assert world.due() <= world.now + 0.02, "ready_to_assign is called again soon"
    world.run(0.1)
    assert world.member.state is S.STABLE and world.member._attempt.leads
    assert world.role.calls == [
        "prepare", "protocols", "ready_to_assign", "ready_to_assign", "ready_to_assign", "perform_assignment",
        "accept", "revoke", "install",
    ]  # fmt: skip
    [sync] = world.sent(SyncGroupRequest)
    assert {s.member_id: bytes(s.assignment) for s in sync.assignments} == {
        "m1": b"share of m1", "other": b"share of other",
    }  # fmt: skip
    assert [(m.member_id, m.metadata) for m in world.role.members] == [("m1", b"x"), ("other", b"y")]
    assert all(isinstance(m.metadata, bytes) for m in world.role.members)


def test_a_leader_assigns_without_metadata_after_a_time_limit(world):
    world.script.leads = True
    world.role.says["ready_to_assign"] = False
    world.join()
    begun = world.now
    assert world.run(20.0, until=lambda: world.member.state is S.STABLE)
    assert READY_WITHIN <= world.now - begun <= READY_WITHIN + 0.1


def test_gaps_between_calls_do_not_count_for_the_leaders_time_limit(world):
    """After a long gap the metadata may arrive at once; an assignment without it would leave topics out."""
    world.script.leads = True
    world.role.says["ready_to_assign"] = False
    world.join()
    world.now += 9.0
    world.turn()
    assert world.member.state is S.COMPLETING_REBALANCE
    assert world.run(READY_WITHIN + 0.1, until=lambda: world.member.state is S.STABLE)


def test_a_leader_sends_heartbeats_before_it_assigns(world):
    """The session timeout runs from the JoinGroup response on."""
    world.script.leads = True
    world.role.says["ready_to_assign"] = False
    world.join().run(3.5)
    assert world.times(HeartbeatRequest) == [pytest.approx(1003.0, abs=0.02)]


def test_a_restarted_static_leader_keeps_the_assignment(make_world):
    """KIP-814: the role gets the members, to notice changes later; SyncGroup has no assignments."""
    world = make_world({"group_instance_id": "i"})
    world.script.leads = world.script.skips = True
    world.join()
    assert world.role.skips == [True]
    assert world.sent(SyncGroupRequest)[0].assignments == []


def test_blocking_calls_compute_the_assignment_but_call_no_listener(world):
    """commit() must neither stall the group nor call listeners."""
    world.script.leads = True
    world.join()
    world.role.take_calls()
    world.member.request_rejoin("again")
    world.turn(every=False)
    assert world.member.state is S.REVOKING_BEFORE_JOIN and world.role.take_calls() == []
    assert world.member.has_work(world.now) and not world.member.has_work(world.now, every=False)
    assert not world.member.work(world.now, every=False)
    assert world.member.work(world.now)
    world.turn(every=False)
    assert world.role.take_calls() == ["prepare", "protocols", "ready_to_assign", "perform_assignment"]
    assert world.member.state is S.REVOKING_AFTER_SYNC


def test_a_heartbeat_that_succeeds_ends_the_backoff(world):
    """Else the next error would delay the heartbeat after it by the longest backoff, towards the session timeout."""
    world.join()
    failing = [Code.COORDINATOR_LOAD_IN_PROGRESS] * 5
    world.script.lines[HeartbeatRequest] += [*failing, 0, failing[0]]
    world.run(15.0)
    times = world.times(HeartbeatRequest)
    assert times[5] - times[4] > 0.5
    assert times[7] - times[6] < 0.2


# -- a rebalance


def test_a_rebalance_keeps_the_member_id(world):
    world.join()
    world.role.take_calls()
    world.script.lines[HeartbeatRequest].append(Code.REBALANCE_IN_PROGRESS)
    world.run(3.0)
    assert world.role.calls == WHOLE
    assert world.member.identity == Identity("g", 2, "m1")
    assert world.sent(JoinGroupRequest)[-1].member_id == "m1"


def test_the_role_and_the_user_can_request_a_rebalance(world):
    world.join()
    world.role.why = "its topics have changed"
    world.step()
    world.role.why = None
    world.turn()
    assert world.sent(JoinGroupRequest)[-1].reason == "its topics have changed"
    world.member.request_rejoin("the user wants it")
    assert world.agenda.is_due(world.now)
    world.turn()
    assert world.sent(JoinGroupRequest)[-1].reason == "the user wants it"
    assert world.member.identity.generation_id == 3


def test_a_rejoin_requested_during_a_join_follows_it(world):
    world.script.always[JoinGroupRequest] = SILENCE
    world.join()
    world.member.subscribe("more topics")
    world.turn()
    [parked] = world.open
    world.respond_late(parked)
    world.turn()
    assert world.member.identity.generation_id == 2, "the held-back join, and the requested one"
    assert world.sent(JoinGroupRequest)[-1].reason == "more topics"
    world.run(5.0)
    assert world.member.identity.generation_id == 2


def test_an_unsent_join_is_rebuilt_after_a_new_subscription(world):
    """The role supplied its protocols before the user subscribed to another topic."""
    world.reach(S.REVOKING_BEFORE_JOIN)
    world.heal()
    world.now += 1
    world.member.work(world.now)
    world.member.work(world.now)
    world.role.names = ["b"]
    world.script.protocol = "b"
    world.member.subscribe("other topics")
    world.turn()
    assert [p.name for p in world.sent(JoinGroupRequest)[0].protocols] == ["b"]
    world.run(10.0)
    assert world.member.state is S.STABLE and world.member.identity.generation_id == 1, "one rebalance is enough"


@pytest.mark.parametrize("call", ["prepare", "revoke", "install", "lose"])
def test_a_role_method_that_returns_false_is_repeated(world, call):
    """A revocation waits for a commit this way; heartbeats go on."""
    if call == "lose":
        world.reach(S.LOSING)
    else:
        world.role.says[call] = False
        world.join()
    heartbeats = call in ("revoke", "install")
    world.run(10.0)
    assert world.role.calls.count(call) > 5
    assert bool(world.sent(HeartbeatRequest)) is (heartbeats or call == "lose")
    world.heal()
    world.run(2.0)
    assert world.member.state is S.STABLE


def test_work_returns_whether_it_made_progress(world):
    """Otherwise a caller that repeats it while it makes progress would loop."""
    world.reach(S.REVOKING_BEFORE_JOIN)
    world.now += 1
    assert world.member.has_work(world.now)
    assert world.member.work(world.now) is False
    assert not world.member.has_work(world.now)
    world.role.says.clear()
    world.agenda.take(world.now)
    world.now = world.due()
    assert world.member.work(world.now) is True
    world.member.leave("bye", world.now)
    assert world.member.work(world.now) is False


def test_a_listener_that_keeps_failing_does_not_block_the_next_rebalance(world):
    world.reach(S.ASSIGNING)
    world.script.lines[HeartbeatRequest].append(Code.REBALANCE_IN_PROGRESS)
    world.run(3.5)
    assert world.member.identity.generation_id == 2


def test_a_rebalance_waits_for_an_assigned_callback_that_has_not_run(world):
    """Otherwise partitions would be revoked without having been assigned."""
    world.working = False
    world.member.subscribe("x")
    for _ in range(4):
        world.turn()
        world.now += 0.1
        while world.member.has_work(world.now) and world.member.state is not S.ASSIGNING:
            world.member.work(world.now)
            world.turn()
    assert world.member.state is S.ASSIGNING
    world.script.lines[HeartbeatRequest].append(Code.REBALANCE_IN_PROGRESS)
    world.run(4.0)
    assert world.member.state is S.ASSIGNING
    world.role.take_calls()
    world.working = True
    world.turn()
    assert world.role.calls == ["install", *WHOLE] and world.member.identity.generation_id == 2


@pytest.mark.parametrize(("heartbeat_ms", "least", "most"), [(3000, 3.0, 3.1), (100, 0.5, 1.3)])
def test_short_generations_are_joined_at_most_once_per_heartbeat_or_backoff(make_world, heartbeat_ms, least, most):
    """Members that join one after the other cause short generations, and a late join delays the whole group.

    With frequent heartbeats, only the backoff prevents a fast loop of rebalances.
    """
    world = make_world({"heartbeat_interval_ms": heartbeat_ms})
    world.script.lines[HeartbeatRequest] += [Code.REBALANCE_IN_PROGRESS] * 500
    world.join().run(60.0, until=lambda: world.member.identity.generation_id > 10)
    joins = world.times(JoinGroupRequest)
    apart = [after - before for before, after in itertools.pairwise(joins)][-5:]
    assert least <= min(apart) and max(apart) <= most


def test_one_log_line_per_rebalance_with_its_reason_and_duration(world, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group.join_failures")
    world.join()
    world.run(2.5)
    world.member.request_rejoin("the user wants it")
    world.role.says["prepare"] = deque([False, True])
    caplog.clear()
    world.run(1.0)
    [line] = caplog.messages
    assert line == "group g: rebalanced in 0.010 s, generation 2, because the user wants it: something moved"


def test_each_join_that_fails_is_counted(world):
    world.script.lines[JoinGroupRequest] += [Code.COORDINATOR_LOAD_IN_PROGRESS] * 3
    world.join().run(7.0)
    assert (world.member.stats.failed, world.member.stats.rebalances.count) == (3, 1)


def test_requests_and_rebalances_are_counted(world):
    world.script.leads = True
    world.join().run(7.0)
    stats = world.member.stats
    assert (stats.joins.count, stats.syncs.count, stats.rebalances.count, stats.failed) == (1, 1, 1, 0)
    assert (stats.heartbeats, stats.heartbeat.count) == (2, 2)
    assert stats.rebalanced_at == 1000.0 and stats.answered_at == 1006.0


def test_after_a_failed_sync_the_role_supplies_new_protocols(world):
    """The owned partitions are part of a JoinGroup, and the leader may change."""
    world.script.leads = True
    world.script.lines[SyncGroupRequest] += [Code.REBALANCE_IN_PROGRESS, SILENCE]
    world.script.lines[JoinGroupRequest] += [0, 0, SILENCE]
    world.join()
    assert not world.member._attempt.leads
    world.respond_late(world.open[-1])
    world.turn()
    assert world.role.calls.count("protocols") == world.role.calls.count("ready_to_assign") == 2
    assert world.role.calls.count("prepare") == 1
    world.member.leave("x", world.now)
    assert not world.member.identity.is_member


def test_a_stable_generation_resets_the_backoff(world):
    """A member expelled every ten seconds joins again at once each time."""
    world.join()
    for number in range(2, 12):
        world.run(7.0)
        world.script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
        world.run(3.0, until=lambda: not world.script.lines[HeartbeatRequest])
        assert world.member.state is S.STABLE and world.member.identity == Identity("g", number, f"m{number}")


# -- inconsistent responses


@pytest.mark.parametrize(
    "bad",
    [
        {"protocol_name": "c"},
        {"protocol_name": None},
        {"protocol_type": "consumer"},
        {"generation_id": -1},
        {"member_id": ""},
    ],
)
def test_an_inconsistent_join_response_is_an_error_until_a_good_one(world, bad):
    good = world.script.join

    def spoil(message):
        response = good(message, 9, 0)
        if not response.error_code:
            for name, value in bad.items():
                setattr(response, name, value)
        return response

    world.script.always[JoinGroupRequest] = spoil
    world.join().run(10.0)
    assert isinstance(world.member.error, InconsistentGroupProtocolError | KafkaProtocolError)
    assert len(world.sent(JoinGroupRequest)) < 15, "at most one per maximum backoff"
    world.heal()
    world.run(2.0)
    assert world.member.error is None and world.member.state is S.STABLE


@pytest.mark.parametrize("bad", [{"protocol_name": "b"}, {"protocol_type": "consumer"}])
def test_a_sync_response_of_another_protocol_is_an_error(world, bad):
    def spoil(message):
        response = world.script.sync(message, 5, 0)
        for name, value in bad.items():
            setattr(response, name, value)
        return response

    world.script.lines[SyncGroupRequest].append(spoil)
    world.join()
    assert isinstance(world.member.error, InconsistentGroupProtocolError)
    world.run(2.0)
    assert world.member.error is None and world.member.state is S.STABLE
    assert world.role.taken == [(Identity("g", 2, "m1"), "a", b"a share")]


# -- rebalancing, as commits see it


def test_rebalancing_lasts_from_the_join_to_the_end_of_the_sync(world):
    """A blocking commit() runs no listener; the generation is known once SyncGroup has succeeded."""
    seen = {}
    world.role.says["prepare"] = lambda: seen.setdefault("prepare", world.member.rebalancing) in (True, False)
    for call in ("protocols", "accept", "revoke", "install"):
        world.role.says[call] = lambda call=call: seen.setdefault(call, world.member.rebalancing) in (True, False)
    world.join()
    assert seen == {"prepare": False, "protocols": True, "accept": False, "revoke": False, "install": False}


# -- states


@pytest.mark.parametrize("state", S)
def test_a_restart_repeats_requests_in_flight(make_world, state):
    """After Ctrl-C the engine is rebuilt, and responses cannot arrive."""
    world = make_world().reach(state)
    world.restart()
    world.heal()
    world.run(5.0)
    expected = {S.UNSUBSCRIBED: S.UNSUBSCRIBED, S.LEAVING: S.UNSUBSCRIBED, S.FATAL: S.FATAL}
    assert world.member.state is expected.get(state, S.STABLE)
    if state is S.LEAVING:
        assert len(world.sent(LeaveGroupRequest)) == 2
    if state in (S.COMPLETING_REBALANCE, S.STABLE, S.ASSIGNING):
        assert world.member.identity.generation_id == 1, "a repeated SyncGroup avoids a rebalance"


def test_a_restart_sends_the_heartbeat_in_flight_again(world):
    world.script.always[HeartbeatRequest] = SILENCE
    world.join().run(3.0)
    world.restart()
    world.turn()
    assert len(world.sent(HeartbeatRequest)) == 2


def test_a_join_does_not_wait_for_the_response_to_a_heartbeat(world):
    world.script.always[HeartbeatRequest] = SILENCE
    world.join().run(3.0)
    [heartbeat] = world.open
    world.member.request_rejoin("again")
    world.turn()
    assert world.member.identity.generation_id == 2
    assert {r.target for _, r, _ in world.said[1:]} == {heartbeat.target} == {(1, MEMBERSHIP)}


@pytest.mark.parametrize("state", S)
def test_responses_to_requests_before_a_restart_are_dropped(make_world, state):
    world = make_world().reach(state)
    old = list(world.open)
    world.restart()
    for request in old:
        world.open.append(request)
        world.reply(request, KafkaConnectionError("late"))
    assert world.coordinator.node_id == (None if state in (S.UNSUBSCRIBED, S.UNJOINED) else 1)


@pytest.mark.parametrize("state", S)
def test_a_member_can_leave_in_every_state(make_world, state):
    world = make_world().reach(state)
    world.member.leave("x", world.now)
    world.heal()
    world.run(6.0)
    assert world.member.has_left and world.member.error is None and world.member.identity == Identity("g")
    world.join().run(2.0)
    assert world.member.state is S.STABLE


@pytest.mark.parametrize("state", S)
def test_no_state_loops_without_a_pause(make_world, state):
    """Without responses and without callbacks, few steps are due."""
    world = make_world().reach(state)
    world.working = False
    world.script.always = dict.fromkeys(
        (FindCoordinatorRequest, JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest), SILENCE
    )
    end, turns = world.now + 9.0, 0
    while world.now < end:
        world.member.called(world.now)
        world.step()
        world.serve()
        world.step()
        turns += 1
        due = min([world.due(), *(request.deadline for request in world.open if request.deadline > world.now)])
        assert due > world.now or world.open, (world.member, due)
        world.now = min(max(due, world.now + 1e-6), end)
    assert turns < 40
