"""Users' code around a rebalance: it raises, it is interrupted, it calls us, and it leaves while it is called."""

from __future__ import annotations

from collections import deque

import pytest

from thinconsumer.connection.request import Answer
from thinconsumer.errors import KafkaConnectionError, KafkaProtocolError
from thinconsumer.group.classic.states import MemberState
from thinconsumer.group.identity import Identity
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

S = MemberState
WHOLE = ["prepare", "protocols", "take", "revoke", "install"]
SILENCE, RESET = "silence", "reset"


# -- users' code that raises


@pytest.mark.parametrize("call", ["prepare", "revoke"])
def test_giving_up_counts_as_done_even_if_it_fails(world, call):
    """It runs once, the rejoin goes on, and the error comes out."""
    error = ValueError("users' code")
    world.role.says[call] = deque([error])
    with pytest.raises(ValueError) as caught:
        world.join()
    assert caught.value is error
    world.turn()
    assert world.member.state is S.STABLE and world.role.calls == WHOLE


def test_losing_counts_as_done_even_if_it_fails(world):
    world.join()
    world.role.says["lose"] = ValueError()
    world.script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
    with pytest.raises(ValueError):
        world.run(3.0)
    world.turn()
    assert world.member.state is S.STABLE and world.role.calls.count("lose") == 1


def test_taking_what_is_new_is_tried_again_by_every_call(world):
    world.role.says["install"] = ValueError()
    world.member.subscribe("x")
    for _ in range(3):
        with pytest.raises(ValueError):
            world.turn()
    assert world.member.state is S.ASSIGNING
    world.heal()
    world.turn()
    assert world.member.state is S.STABLE and world.role.calls == [*WHOLE[:-1], *["install"] * 4]


@pytest.mark.parametrize("call", ["ready_to_assign", "perform_assignment"])
def test_a_plan_that_fails_is_made_anew_in_another_round_after_a_pause(world, call):
    world.script.leads = True
    world.role.says[call] = deque([ValueError(), ValueError()])
    with pytest.raises(ValueError):
        world.join()
    assert world.member.state is S.PREPARING_REBALANCE and not world.member.has_work(world.now)
    assert world.now + 0.08 <= world.member.wake_at(world.now) <= world.now + 0.12
    with pytest.raises(ValueError):
        world.run(1.0)
    world.run(1.0)
    assert world.member.state is S.STABLE and world.member.identity.generation_id == 3
    assert world.sent(JoinGroupRequest)[-1].member_id == "m1"


def test_metadata_that_fails_is_asked_for_again_after_a_pause(world):
    world.role.says["protocols"] = deque([ValueError()])
    with pytest.raises(ValueError):
        world.join()
    assert not world.member.has_work(world.now) and world.sent(JoinGroupRequest) == []
    world.run(0.2)
    assert world.member.state is S.STABLE


def test_a_share_that_cannot_be_read_is_not_kept(world):
    """As long as we kept it nobody else would be given it."""
    world.role.says["take"] = deque([KafkaProtocolError("garbage")])
    with pytest.raises(KafkaProtocolError):
        world.join()
    world.run(1.0)
    assert world.member.state is S.STABLE and world.member.identity.generation_id == 2
    assert world.role.calls == ["prepare", "protocols", "take", *WHOLE]


@pytest.mark.parametrize("call", WHOLE)
def test_an_interrupt_leaves_everything_to_be_done_again(world, call):
    """Ctrl-C in a callback: neither done nor failed."""
    world.role.says[call] = deque([KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        world.join()
    world.restart()
    world.turn()
    assert world.member.state is S.STABLE
    assert world.role.calls.count(call) == 2 and sorted(set(world.role.calls)) == sorted(WHOLE)


def test_an_interrupt_that_left_work_begun_is_mended_by_a_restart(world):
    """It can strike between any two statements, the last ones of a call included."""
    world.reach(S.ASSIGNING)
    world.heal()
    world.member._in_role_method = True
    world.run(1.0)
    assert world.member.state is S.ASSIGNING
    world.restart()
    world.turn()
    assert world.member.state is S.STABLE


# -- users' code that calls us


def during(world, call, act):
    """Have ``act`` run within a call of the role, once."""

    def run():
        world.role.says.pop(call)
        assert not world.member.has_work(world.now) and not world.member.work(world.now)
        act()
        return True

    world.role.says[call] = run


@pytest.mark.parametrize("call", ["prepare", "revoke", "install"])
def test_steps_within_users_code_beat_and_do_not_move(world, call):
    """A listener that commits for ten seconds."""
    seen = []

    def act():
        before = world.member.state
        for _ in range(10):
            world.now += 1.0
            world.member.called(world.now)
            world.step()
            world.serve()
            seen.append(world.member.state is before)

    world.join()
    world.role.take_calls()
    during(world, call, act)
    world.member.request_rejoin("again")
    heartbeats = len(world.sent(HeartbeatRequest))
    world.turn()
    assert seen == [True] * 10 and len(world.sent(HeartbeatRequest)) >= heartbeats + 3
    assert world.member.state is S.STABLE and world.role.calls == WHOLE


@pytest.mark.parametrize("call", ["prepare", "revoke", "install"])
def test_who_is_expelled_within_users_code_is_nobody_at_once_and_loses_what_it_has_afterwards(world, call):
    states = []

    def act():
        identity = world.member.identity
        error = to_error(Code.UNKNOWN_MEMBER_ID, api="OffsetCommit")
        world.member.expelled(error, identity, world.now)
        states.append((world.member.identity, world.member.state))
        world.step()
        states.append((world.member.identity, world.member.state))

    world.join()
    world.member.request_rejoin("again")
    world.role.take_calls()
    before = {"prepare": S.REVOKING_BEFORE_JOIN, "revoke": S.REVOKING_AFTER_SYNC, "install": S.ASSIGNING}[call]
    during(world, call, act)
    world.turn()
    assert states == [(Identity("g"), before)] * 2
    done = WHOLE[: WHOLE.index(call) + 1]
    assert world.role.calls == [*done, "lose", *WHOLE]
    assert world.member.state is S.STABLE and world.member.identity.member_id == "m2"


def test_an_expulsion_that_an_interrupt_left_behind_is_followed_by_the_next_step(world):
    def act():
        world.member.expelled(to_error(Code.ILLEGAL_GENERATION), world.member.identity, world.now)
        raise KeyboardInterrupt

    world.join()
    during(world, "prepare", act)
    world.member.request_rejoin("again")
    with pytest.raises(KeyboardInterrupt):
        world.turn()
    assert world.member.state is S.REVOKING_BEFORE_JOIN
    world.step()
    assert world.member.state is S.LOSING


@pytest.mark.parametrize("call", WHOLE)
def test_leaving_within_users_code_holds_at_once(world, call):
    """close() in a listener: it has to be able to wait for the goodbye."""
    world.join()
    world.member.request_rejoin("again")

    def act():
        world.member.leave("closing", world.now)
        world.step()
        world.serve()
        world.step()
        assert world.member.has_left

    during(world, call, act)
    world.turn()
    assert world.member.state is S.UNSUBSCRIBED and len(world.sent(LeaveGroupRequest)) == 1


def test_leaving_and_joining_again_within_users_code_is_a_new_round(world):
    """The state is the same again, but what returns belongs to the round before."""

    def act():
        world.member.leave("closing", world.now)
        world.member.subscribe("no, stay")
        for _ in range(3):
            world.step()
            world.serve()

    world.join()
    world.member.request_rejoin("again")
    world.role.take_calls()
    during(world, "prepare", act)
    world.turn()
    assert world.member.state is S.STABLE and world.member.identity.member_id == "m2"
    assert world.role.calls == ["prepare", *WHOLE]


# -- expelled by what others hear


@pytest.mark.parametrize(
    ("code", "identity"),
    [
        (Code.UNKNOWN_MEMBER_ID, Identity("g", 2, "m2")),
        (Code.ILLEGAL_GENERATION, Identity("g", 2, "m1")),
        (Code.REBALANCE_IN_PROGRESS, Identity("g", 2, "m1")),
    ],
)
def test_a_commits_answer_sends_us_back_to_the_group(world, code, identity):
    world.join()
    world.role.take_calls()
    world.member.expelled(to_error(code), world.member.identity, world.now)
    world.turn()
    assert world.role.calls == (WHOLE if code == Code.REBALANCE_IN_PROGRESS else ["lose", *WHOLE])
    assert world.member.identity == identity


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.NONE])
def test_a_heartbeat_that_was_out_then_is_of_somebody_who_is_no_more(world, code):
    """Both are told the same; once is enough."""
    world.script.always[HeartbeatRequest] = SILENCE
    world.join().run(3.0)
    [heartbeat] = world.open
    world.member.expelled(to_error(Code.UNKNOWN_MEMBER_ID), world.member.identity, world.now)
    world.heal()
    world.script.lines[HeartbeatRequest].append(code)
    assert "abandoned" in str(world.write(heartbeat))
    world.reply(heartbeat, Answer(heartbeat, 1, 4, HeartbeatResponse(error_code=code)))
    world.turn()
    assert world.member.state is S.STABLE and world.member.identity == Identity("g", 2, "m2")
    assert world.role.calls.count("lose") == 1


def test_a_commit_that_fences_us_is_the_end(world):
    world.join()
    world.member.expelled(to_error(Code.FENCED_INSTANCE_ID), world.member.identity, world.now)
    world.turn()
    assert world.member.state is S.FATAL and world.member.error is not None


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_INSTANCE_ID])
def test_what_is_said_of_who_we_were_does_not_matter(world, code):
    """D1: a commit's late answer must not cost the new generation."""
    world.join()
    world.member.expelled(to_error(code), Identity("g", 0, "m1"), world.now)
    world.member.expelled(to_error(code), Identity("g"), world.now)
    assert world.member.state is S.STABLE


@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE])
def test_while_a_join_is_running_it_will_tell(world, state):
    """D1: ILLEGAL_GENERATION on a commit during a running join does not start another one."""
    world.join()
    world.member.request_rejoin("again")
    api = JoinGroupRequest if state is S.PREPARING_REBALANCE else SyncGroupRequest
    world.script.always[api] = SILENCE
    world.turn()
    world.member.expelled(to_error(Code.ILLEGAL_GENERATION), world.member.identity, world.now)
    assert world.member.state is state and world.member.rebalancing


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_while_a_join_is_only_due_what_a_commit_is_told_counts(world, code):
    """The coordinator may be out of reach for long, for joins at least; what we have is somebody else's by then."""
    world.join()
    before = world.member.identity
    world.script.always[JoinGroupRequest] = RESET
    world.script.always[FindCoordinatorRequest] = SILENCE
    world.member.request_rejoin("again")
    world.turn()
    assert world.member.state is S.PREPARING_REBALANCE and not world.member.awaits_rebalance_response
    world.role.take_calls()
    world.member.expelled(to_error(Code.REBALANCE_IN_PROGRESS), before, world.now)
    assert world.member.identity == before
    world.member.expelled(to_error(code), before, world.now)
    world.turn()
    assert world.role.calls == ["lose"] and not world.member.identity.is_member
    world.heal()
    world.run(60.0, until=lambda: world.member.state is S.STABLE)
    last = world.sent(JoinGroupRequest)[-1]
    assert last.member_id == ("m2" if code == Code.UNKNOWN_MEMBER_ID else "m1")
    assert world.member.state is S.STABLE


def test_a_join_that_waits_for_its_connection_is_taken_back_by_what_a_commit_is_told(world):
    """It would be said by somebody who is no more."""
    world.join()
    world.member.request_rejoin("again")
    while not world.open:
        world.step()
        world.member.work(world.now)
    [join] = world.open
    assert world.member.state is S.PREPARING_REBALANCE and not world.member.awaits_rebalance_response
    world.member.expelled(to_error(Code.UNKNOWN_MEMBER_ID), world.member.identity, world.now)
    assert "abandoned" in str(world.write(join))
    world.turn()
    assert world.member.state is S.STABLE and world.member.identity == Identity("g", 2, "m2")
    assert [message.member_id for message in world.sent(JoinGroupRequest)][2:] == ["", "m2"]


def test_a_role_is_told_of_a_generation_that_went_by_without_it(world):
    """KIP-345: a static member that is late to join stays in the group, which goes on without it."""
    world.join()
    world.script.generation = 4
    world.script.lines[SyncGroupRequest].append(Code.REBALANCE_IN_PROGRESS)
    world.member.request_rejoin("late")
    world.run(5.0)
    assert world.member.identity.generation_id == 6 and world.role.missed == [False, True]
    world.member.request_rejoin("again")
    world.turn()
    assert world.role.missed == [False, True, False]


@pytest.mark.parametrize("missed", [False, True])
def test_after_a_missed_generation_the_rebalance_is_not_over_before_the_role_has_let_go(world, missed):
    """A member that drives only is not asked; what it commits meanwhile may be another's."""
    world.join()
    world.script.generation += 3 if missed else 0
    world.script.always[SyncGroupRequest] = SILENCE
    world.member.request_rejoin("late")
    world.turn()
    [request] = world.unheard
    world.working = False
    world.script.always.clear()
    world.reply(request, world.write(request))
    world.turn()
    assert world.member.state is S.REVOKING_AFTER_SYNC and world.member.rebalancing is missed
    assert world.member.work(world.now) and not world.member.rebalancing


def test_other_errors_of_commits_say_nothing_of_us(world):
    world.join()
    world.member.expelled(KafkaConnectionError("x"), world.member.identity, world.now)
    world.member.expelled(to_error(Code.OFFSET_METADATA_TOO_LARGE), world.member.identity, world.now)
    assert world.member.state is S.STABLE


def test_pain_B4_a_coordinator_that_expels_us_with_every_commit_is_joined_with_pauses(world):
    world.join()
    for _ in range(100):
        world.member.expelled(to_error(Code.UNKNOWN_MEMBER_ID), world.member.identity, world.now)
        world.run(0.1)
    assert len(world.sent(SyncGroupRequest)) < 20, "ten seconds"
    world.run(5.0)
    assert world.member.state is S.STABLE
