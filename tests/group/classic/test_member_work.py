"""User code in a rebalance: it raises, is interrupted, steps the engine, or leaves the group."""

from collections import deque

import pytest

from thinconsumer.errors import KafkaConnectionError, KafkaProtocolError
from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.identity import Identity
from thinconsumer.network.request import Answer
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

S = ClassicMemberState
WHOLE = ["prepare", "protocols", "accept", "revoke", "install"]
SILENCE, RESET = "silence", "reset"


# -- user code that raises


@pytest.mark.parametrize("call", ["prepare", "revoke"])
def test_a_revocation_that_raises_counts_as_done(world, call):
    """It runs once, the rebalance goes on, and the exception propagates."""
    error = ValueError("users' code")
    world.role.says[call] = deque([error])
    with pytest.raises(ValueError) as caught:
        world.join()
    assert caught.value is error
    world.turn()
    assert world.member.state is S.STABLE and world.role.calls == WHOLE


def test_a_loss_that_raises_counts_as_done(world):
    world.join()
    world.role.says["lose"] = ValueError()
    world.script.lines[HeartbeatRequest].append(Code.UNKNOWN_MEMBER_ID)
    with pytest.raises(ValueError):
        world.run(3.0)
    world.turn()
    assert world.member.state is S.STABLE and world.role.calls.count("lose") == 1


def test_an_install_that_raises_is_repeated_by_every_call(world):
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
def test_a_failed_assignment_is_repeated_in_another_generation_after_a_backoff(world, call):
    world.script.leads = True
    world.role.says[call] = deque([ValueError(), ValueError()])
    with pytest.raises(ValueError):
        world.join()
    assert world.member.state is S.PREPARING_REBALANCE and not world.member.has_work(world.now)
    world.step()
    assert world.now + 0.08 <= world.due() <= world.now + 0.12
    with pytest.raises(ValueError):
        world.run(1.0)
    world.run(1.0)
    assert world.member.state is S.STABLE and world.member.identity.generation_id == 3
    assert world.sent(JoinGroupRequest)[-1].member_id == "m1"


def test_protocols_that_raise_are_asked_for_again_after_a_backoff(world):
    world.role.says["protocols"] = deque([ValueError()])
    with pytest.raises(ValueError):
        world.join()
    assert not world.member.has_work(world.now) and world.sent(JoinGroupRequest) == []
    world.run(0.2)
    assert world.member.state is S.STABLE


def test_after_an_undecodable_assignment_the_member_joins_again(world):
    """As long as it kept the assignment, no member would read these partitions."""
    world.role.says["accept"] = deque([KafkaProtocolError("garbage")])
    with pytest.raises(KafkaProtocolError):
        world.join()
    world.run(1.0)
    assert world.member.state is S.STABLE and world.member.identity.generation_id == 2
    assert world.role.calls == ["prepare", "protocols", "accept", *WHOLE]


@pytest.mark.parametrize("call", WHOLE)
def test_an_interrupted_role_method_is_called_again(world, call):
    """Ctrl-C in a callback counts neither as done nor as failed."""
    world.role.says[call] = deque([KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        world.join()
    world.restart()
    world.turn()
    assert world.member.state is S.STABLE
    assert world.role.calls.count(call) == 2 and sorted(set(world.role.calls)) == sorted(WHOLE)


def test_a_restart_ends_an_interrupted_role_method(world):
    """Ctrl-C can strike between any two statements, also at the end of a call."""
    world.reach(S.ASSIGNING)
    world.heal()
    world.member._is_working = True
    world.run(1.0)
    assert world.member.state is S.ASSIGNING
    world.restart()
    world.turn()
    assert world.member.state is S.STABLE


# -- user code that calls the consumer


def during(world, call, act):
    """Have ``act`` run within a call of the role, once."""

    def run():
        world.role.says.pop(call)
        assert not world.member.has_work(world.now) and not world.member.work(world.now)
        act()
        return True

    world.role.says[call] = run


@pytest.mark.parametrize("call", ["prepare", "revoke", "install"])
def test_steps_within_user_code_send_heartbeats_and_keep_the_state(world, call):
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
def test_an_expulsion_within_user_code_drops_the_identity_at_once_and_the_partitions_afterwards(world, call):
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


def test_after_an_interrupt_the_next_step_completes_an_expulsion(world):
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
def test_leaving_within_user_code_takes_effect_at_once(world, call):
    """close() in a listener must be able to wait for the LeaveGroup response."""
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


@pytest.mark.parametrize("interrupted", [False, True])
def test_leaving_and_subscribing_within_user_code_starts_a_new_rebalance(world, interrupted):
    """The state is the same again, but the callback that returns belongs to the former rebalance.

    After an exception that user code has caught in a call of the client, its next call steps the member.
    """

    def act():
        if interrupted:
            world.member.restart(world.now)
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


# -- expelled by responses to commits


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.NONE])
def test_a_heartbeat_in_flight_at_an_expulsion_is_abandoned(world, code):
    """Its response repeats the error, and must not expel the new member id."""
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


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_INSTANCE_ID])
def test_a_commit_error_about_an_older_identity_is_ignored(world, code):
    """A late response to a commit must not end the new generation."""
    world.join()
    world.member.expelled(to_error(code), Identity("g", 0, "m1"), world.now)
    world.member.expelled(to_error(code), Identity("g"), world.now)
    assert world.member.state is S.STABLE


@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE])
def test_a_commit_error_during_a_written_join_or_sync_is_ignored(world, state):
    """ILLEGAL_GENERATION in response to a commit does not start another join."""
    world.join()
    world.rejoin(JoinGroupRequest if state is S.PREPARING_REBALANCE else SyncGroupRequest)
    world.member.expelled(to_error(Code.ILLEGAL_GENERATION), world.member.identity, world.now)
    assert world.member.state is state and world.member.rebalancing


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_a_commit_error_expels_a_member_whose_join_is_not_written(world, code):
    """The join may wait long for its connection; meanwhile other members may own the partitions."""
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


def test_a_commit_error_withdraws_an_unwritten_join(world):
    """The queued JoinGroup carries a member id that the coordinator has dropped."""
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


def test_the_role_learns_of_a_missed_generation(world):
    """KIP-345: a static member that rejoins late stays in the group, and misses generations."""
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
def test_after_a_missed_generation_rebalancing_lasts_until_kept_partitions_are_dropped(world, missed):
    """Meanwhile a commit of these partitions could reset another member's offsets."""
    world.join()
    world.script.generation += 3 if missed else 0
    parked = world.rejoin(SyncGroupRequest)
    world.working = False
    world.respond_late(parked)
    world.turn()
    assert world.member.state is S.REVOKING_AFTER_SYNC and world.member.rebalancing is missed
    assert world.member.work(world.now) and not world.member.rebalancing


def test_other_commit_errors_do_not_concern_the_membership(world):
    world.join()
    world.member.expelled(KafkaConnectionError("x"), world.member.identity, world.now)
    world.member.expelled(to_error(Code.OFFSET_METADATA_TOO_LARGE), world.member.identity, world.now)
    assert world.member.state is S.STABLE


def test_expulsions_by_every_commit_back_off(world):
    world.join()
    for _ in range(100):
        world.member.expelled(to_error(Code.UNKNOWN_MEMBER_ID), world.member.identity, world.now)
        world.run(0.1)
    assert len(world.sent(SyncGroupRequest)) < 20, "ten seconds"
    world.run(5.0)
    assert world.member.state is S.STABLE
