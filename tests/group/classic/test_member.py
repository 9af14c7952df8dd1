"""A member's life with a coordinator that behaves: join, lead, follow, rebalance, what makes no sense; its states."""

from __future__ import annotations

import itertools
import logging
from collections import deque

import pytest

from thinconsumer.errors import InconsistentGroupProtocolError, KafkaConnectionError, KafkaProtocolError
from thinconsumer.group.classic.coordinator_channel import JOIN_GRACE
from thinconsumer.group.classic.rebalance_attempt import READY_WITHIN
from thinconsumer.group.classic.states import MemberState
from thinconsumer.group.coordinator import MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.timers import NEVER
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

S = MemberState
WHOLE = ["prepare", "protocols", "take", "revoke", "install"]
SILENCE = "silence"


# -- joining


def test_nothing_is_said_before_anybody_subscribes(world):
    world.run(5.0)
    assert world.said == [] and world.member.wake_at(world.now) == NEVER
    assert not world.member.has_work(world.now)


def test_joining_asks_the_role_in_order_and_is_stable_within_one_moment(world):
    world.join()
    assert world.member.state is S.STABLE
    assert world.role.calls == WHOLE
    assert world.member.identity == Identity("g", 1, "m1")
    assert world.role.taken == [(Identity("g", 1, "m1"), "a", b"a share")]


def test_the_first_join_is_sent_away_for_an_id_and_comes_back_with_it_at_once(world):
    """KIP-394, with the same protocols: the role is not asked twice."""
    world.join()
    first, second = world.sent(JoinGroupRequest)
    assert (first.member_id, second.member_id) == ("", "m1")
    assert world.times(JoinGroupRequest) == [1000.0, 1000.0]
    assert [p.name for p in second.protocols] == ["a", "b"]


def test_a_member_that_drives_only_comes_back_with_its_id_too(world):
    """Between the two joins nothing is to be asked of users' code, and the id does not keep for long."""
    answers = world.script.lines[JoinGroupRequest]
    world.reach(S.REVOKING_BEFORE_JOIN)
    world.heal()
    world.now += 1
    assert world.member.work(world.now) and world.member.work(world.now)
    world.working = False
    world.turn()
    assert not answers and world.member.state is S.REVOKING_AFTER_SYNC
    assert world.role.taken == [], "the share is looked at in work, not in a step"


def test_what_a_join_says(make_world):
    world = make_world({"max_poll_interval_ms": 77_000})
    world.member.subscribe("x" * 300)
    world.turn()
    [_, join] = world.sent(JoinGroupRequest)
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (10_000, 77_000)
    assert (join.group_id, join.protocol_type, join.group_instance_id) == ("g", "pool", None)
    assert [(p.name, bytes(p.metadata)) for p in join.protocols] == [("a", b"a"), ("b", b"b")]
    assert join.reason == "x" * 255, "KIP-800, as Java cuts it"
    [request] = [r for _, r, m in world.said if m is join]
    assert request.deadline == world.now + 77.0 + JOIN_GRACE and request.held_back == 77.0
    assert request.target == (1, MEMBERSHIP)


def test_a_join_waits_at_least_for_the_request_timeout(make_world):
    world = make_world({"max_poll_interval_ms": 1000})
    world.join()
    assert {r.deadline for _, r, _ in world.said if r.api is JoinGroupRequest} == {1030.0}


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins_beats_and_leaves(make_world, version):
    world = make_world(version=version)
    world.nodes.learn_node(world.nodes.nodes[1])
    highest = {JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 5}
    highest[FindCoordinatorRequest] = 6
    write = world.write

    def capped(request):
        world.version = min(version, highest[request.api])
        return write(request)

    world.write = capped
    world.script.leads = world.script.requires_id = version % 2 == 1
    world.join().run(4.0)
    assert world.member.state is S.STABLE and len(world.sent(HeartbeatRequest)) == 1
    world.member.leave("done", world.now)
    world.turn()
    assert world.member.state is S.UNSUBSCRIBED
    [leave_request] = world.sent(LeaveGroupRequest)
    assert (leave_request.member_id or leave_request.members[0].member_id) == "m1"


def test_a_static_member_names_itself_in_all_it_says_and_asks_for_versions_that_can(make_world):
    world = make_world({"group_instance_id": "i"})
    world.join().run(3.0)
    for api, lowest in ((JoinGroupRequest, 5), (SyncGroupRequest, 3), (HeartbeatRequest, 3)):
        assert {m.group_instance_id for m in world.sent(api)} == {"i"}
        assert {r.min_version for _, r, _ in world.said if r.api is api} == {lowest}
    assert len(world.sent(JoinGroupRequest)) == 1, "its name is known beforehand"


# -- leading


def test_a_leader_waits_until_it_is_ready_then_plans_and_hands_the_plan_in(world):
    world.script.leads = True
    world.role.says["ready_to_assign"] = deque([False, False, True])
    world.join()
    assert world.member.state is S.COMPLETING_REBALANCE
    assert world.member.wake_at(world.now) <= world.now + 0.02, "a role that was not ready is asked again soon"
    world.run(0.1)
    assert world.member.state is S.STABLE and world.member.leads
    assert world.role.calls == [
        "prepare", "protocols", "ready_to_assign", "ready_to_assign", "ready_to_assign", "perform_assignment",
        "take", "revoke", "install",
    ]  # fmt: skip
    [sync] = world.sent(SyncGroupRequest)
    assert {s.member_id: bytes(s.assignment) for s in sync.assignments} == {
        "m1": b"share of m1", "other": b"share of other",
    }  # fmt: skip
    assert [(m.member_id, m.metadata) for m in world.role.members] == [("m1", b"x"), ("other", b"y")]


def test_a_leader_that_never_gets_ready_plans_with_what_it_knows(world):
    world.script.leads = True
    world.role.says["ready_to_assign"] = False
    world.join()
    begun = world.now
    assert world.run(20.0, until=lambda: world.member.state is S.STABLE)
    assert READY_WITHIN <= world.now - begun <= READY_WITHIN + 0.1
    assert world.member.wake_at(begun) > begun


def test_time_in_which_nobody_called_does_not_count_against_the_leader(world):
    """After a minute away the metadata may be there in a millisecond: a plan without it would be a bad one."""
    world.script.leads = True
    world.role.says["ready_to_assign"] = False
    world.join()
    world.now += 9.0
    world.turn()
    assert world.member.state is S.COMPLETING_REBALANCE
    assert world.run(READY_WITHIN + 0.1, until=lambda: world.member.state is S.STABLE)


def test_a_leader_beats_while_it_plans(world):
    """The coordinator counts on it from the join's answer on."""
    world.script.leads = True
    world.role.says["ready_to_assign"] = False
    world.join().run(3.5)
    assert world.times(HeartbeatRequest) == [pytest.approx(1003.0, abs=0.02)]


def test_a_returning_static_leader_keeps_the_plan(make_world):
    """KIP-814: the role sees the members, so as to notice changes, and hands nothing in."""
    world = make_world({"group_instance_id": "i"})
    world.script.leads = world.script.skips = True
    world.join()
    assert world.role.skips == [True]
    assert world.sent(SyncGroupRequest)[0].assignments == []


def test_blocking_calls_do_the_leaders_work_only(world):
    """commit() must not stall the group, nor call listeners."""
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


# -- a rebalance


def test_a_heartbeat_tells_of_a_rebalance_and_identity_stays(world):
    world.join()
    world.role.take_calls()
    world.script.lines[HeartbeatRequest].append(Code.REBALANCE_IN_PROGRESS)
    world.run(3.0)
    assert world.role.calls == WHOLE
    assert world.member.identity == Identity("g", 2, "m1")
    assert world.sent(JoinGroupRequest)[-1].member_id == "m1"


def test_the_role_can_ask_for_a_rebalance_and_so_can_the_user(world):
    world.join()
    world.role.why = "its topics have changed"
    world.step()
    world.role.why = None
    world.turn()
    assert world.sent(JoinGroupRequest)[-1].reason == "its topics have changed"
    world.member.request_rejoin("the user wants it")
    assert world.member.wake_at(world.now) == world.now
    world.turn()
    assert world.sent(JoinGroupRequest)[-1].reason == "the user wants it"
    assert world.member.identity.generation_id == 3


def test_what_is_asked_for_while_a_join_is_out_follows_when_it_is_over(world):
    world.script.always[JoinGroupRequest] = SILENCE
    world.join()
    world.member.subscribe("more topics")
    world.turn()
    [parked] = world.open
    world.heal()
    world.reply(parked, world.write(parked))
    world.turn()
    assert world.member.identity.generation_id == 2, "the parked one, and the one asked for"
    assert world.sent(JoinGroupRequest)[-1].reason == "more topics"
    world.run(5.0)
    assert world.member.identity.generation_id == 2


def test_what_changes_before_the_join_is_sent_is_in_it(world):
    """The protocols were asked for, then the coordinator was lost, then the user subscribed to more."""
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
    assert world.member.state is S.STABLE and world.member.identity.generation_id == 1, "and that was all of it"


@pytest.mark.parametrize("call", ["prepare", "revoke", "install", "lose"])
def test_a_role_that_is_not_done_is_asked_again_with_steps_in_between(world, call):
    """That is how a commit is waited for before partitions are given up; heartbeats go on."""
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


def test_work_says_whether_it_got_any_further(world):
    """A shell that goes on as long as it does would otherwise spin."""
    world.reach(S.REVOKING_BEFORE_JOIN)
    world.now += 1
    assert world.member.has_work(world.now)
    assert world.member.work(world.now) is False
    assert not world.member.has_work(world.now)
    world.role.says.clear()
    world.now = world.member.wake_at(world.now)
    assert world.member.work(world.now) is True
    world.member.leave("bye", world.now)
    assert world.member.work(world.now) is False


def test_a_rebalance_goes_on_without_users_code_that_fails_to_take_its_share(world):
    world.reach(S.ASSIGNING)
    world.script.lines[HeartbeatRequest].append(Code.REBALANCE_IN_PROGRESS)
    world.run(3.5)
    assert world.member.identity.generation_id == 2


def test_a_rebalance_waits_for_users_code_that_had_no_chance_yet(world):
    """Else assigned would never be heard of partitions that are then revoked."""
    world.working = False
    world.reach_by_hand = None
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
def test_generations_that_do_not_last_for_a_heartbeat_follow_one_by_one(make_world, heartbeat_ms, least, most):
    """Members that come one after the other make such: no join waits longer than that takes, lest everybody waits.

    Where heartbeats are frequent the backoff is what keeps a coordinator's nonsense from going round and round.
    """
    world = make_world({"heartbeat_interval_ms": heartbeat_ms})
    world.script.lines[HeartbeatRequest] += [Code.REBALANCE_IN_PROGRESS] * 500
    world.join().run(60.0, until=lambda: world.member.identity.generation_id > 10)
    joins = world.times(JoinGroupRequest)
    apart = [after - before for before, after in itertools.pairwise(joins)][-5:]
    assert least <= min(apart) and max(apart) <= most


def test_one_line_per_rebalance_says_why_how_long_and_what(world, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group.classic")
    world.join()
    world.run(2.5)
    world.member.request_rejoin("the user wants it")
    world.role.says["prepare"] = deque([False, True])
    caplog.clear()
    world.run(1.0)
    [line] = caplog.messages
    assert line == "group g: rebalanced in 0.010 s, generation 2, because the user wants it: something moved"


def test_it_counts(world):
    world.script.leads = True
    world.join().run(7.0)
    stats = world.member.stats
    assert (stats.joins.count, stats.syncs.count, stats.rebalances.count, stats.failed) == (1, 1, 1, 0)
    assert (stats.heartbeats, stats.heartbeat.count) == (2, 2)
    assert stats.rebalanced_at == 1000.0 and stats.answered_at == stats.heartbeat_at == 1006.0


def test_a_sync_that_fails_asks_the_role_anew(world):
    """What it owns is part of the join, and so is whether it leads."""
    world.script.leads = True
    world.script.lines[SyncGroupRequest] += [Code.REBALANCE_IN_PROGRESS, SILENCE]
    world.join()
    assert world.role.calls.count("protocols") == 2 and world.role.calls.count("prepare") == 1
    world.member.leave("x", world.now)
    assert not world.member.leads


def test_trouble_that_is_over_is_forgotten(world):
    """Expelled now and then for an hour: each time it is back at once."""
    world.join()
    for number in range(2, 12):
        world.run(7.0)
        world.script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
        world.run(3.0, until=lambda: not world.script.lines[HeartbeatRequest])
        assert world.member.state is S.STABLE and world.member.identity == Identity("g", number, f"m{number}")


# -- what can only be wrong


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
def test_a_join_that_makes_no_sense_is_an_error_that_every_poll_raises(world, bad):
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
    assert len(world.sent(JoinGroupRequest)) < 15, "once a second: the longest backoff"
    world.heal()
    world.run(2.0)
    assert world.member.error is None and world.member.state is S.STABLE


@pytest.mark.parametrize("bad", [{"protocol_name": "b"}, {"protocol_type": "consumer"}])
def test_a_sync_of_another_protocol_is_an_error(world, bad):
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


def test_rebalancing_is_from_the_join_to_the_end_of_the_sync(world):
    """A commit() that waits does not run listeners, and need not: who we are is known again by then."""
    seen = {}
    world.role.says["prepare"] = lambda: seen.setdefault("prepare", world.member.rebalancing) in (True, False)
    for call in ("protocols", "take", "revoke", "install"):
        world.role.says[call] = lambda call=call: seen.setdefault(call, world.member.rebalancing) in (True, False)
    world.join()
    assert seen == {"prepare": False, "protocols": True, "take": False, "revoke": False, "install": False}


# -- states


@pytest.mark.parametrize("state", S)
def test_a_restart_forgets_what_is_out_and_goes_on(make_world, state):
    """The engine was built anew after a Ctrl-C: no answer will come."""
    world = make_world().reach(state)
    world.restart()
    world.heal()
    world.run(5.0)
    expected = {S.UNSUBSCRIBED: S.UNSUBSCRIBED, S.LEAVING: S.UNSUBSCRIBED, S.FATAL: S.FATAL}
    assert world.member.state is expected.get(state, S.STABLE)
    if state is S.LEAVING:
        assert len(world.sent(LeaveGroupRequest)) == 2
    if state in (S.COMPLETING_REBALANCE, S.STABLE, S.ASSIGNING):
        assert world.member.identity.generation_id == 1, "a sync can be repeated: the group is spared a rebalance"


@pytest.mark.parametrize("state", S)
def test_answers_of_before_a_restart_do_not_matter(make_world, state):
    world = make_world().reach(state)
    old = list(world.open)
    world.restart()
    for request in old:
        world.open.append(request)
        world.reply(request, KafkaConnectionError("late"))
    assert world.coordinator.node_id == (None if state in (S.UNSUBSCRIBED, S.UNJOINED) else 1)


@pytest.mark.parametrize("state", S)
def test_from_every_state_one_can_leave(make_world, state):
    world = make_world().reach(state)
    world.member.leave("x", world.now)
    world.heal()
    world.run(6.0)
    assert world.member.has_left and world.member.error is None and world.member.identity == Identity("g")
    world.join().run(2.0)
    assert world.member.state is S.STABLE


@pytest.mark.parametrize("state", S)
def test_nothing_spins_in_any_state(make_world, state):
    """Who only drives, with no answer coming and no work being done, is not called more than now and then."""
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
        due = min(world.coordinator.wake_at(world.now), world.member.wake_at(world.now))
        due = min([due, *(request.deadline for request in world.open if request.deadline > world.now)])
        assert due > world.now or world.open, (world.member, due)
        world.now = min(max(due, world.now + 1e-6), end)
    assert turns < 40
