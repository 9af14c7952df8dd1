"""Random sequences of events: rules that none may break, and each ends in a stable member or a final error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import KafkaConnectionError, KafkaProtocolError
from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.coordinator import MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.error_codes import Code, to_error
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

pytestmark = pytest.mark.once

S = ClassicMemberState
HELD_BACK = (JoinGroupRequest, SyncGroupRequest)
CODES = [
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.ILLEGAL_GENERATION,
    Code.UNKNOWN_MEMBER_ID,
    Code.REBALANCE_IN_PROGRESS,
    Code.MEMBER_ID_REQUIRED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.UNKNOWN_SERVER_ERROR,
    Code.REQUEST_TIMED_OUT,
    Code.FENCED_INSTANCE_ID,
]
CALLS = ["prepare", "protocols", "ready_to_assign", "perform_assignment", "accept", "revoke", "install", "lose"]
#: The role methods that may be called directly before each, other than itself.
BEFORE = {
    "prepare": {None, "protocols", "ready_to_assign", "perform_assignment", "accept", "revoke", "install", "lose"},
    "protocols": {None, "prepare", "ready_to_assign", "perform_assignment"},
    "ready_to_assign": {"protocols"},
    "perform_assignment": {"protocols", "ready_to_assign"},
    "accept": {"protocols", "perform_assignment"},
    "revoke": {"accept"},
    "install": {"revoke"},
    "lose": {None, *CALLS},
}


class Watch:
    """Check the rules after each step of a world."""

    def __init__(self, world):
        self.world = world
        self.seen = 0

    def step(self):
        world = self.world
        for request in world.step():
            others = [other for other in world.open if other is not request and other.target == request.target]
            if request.target.channel == MEMBERSHIP:
                assert not any(other.api in HELD_BACK for other in others), "behind a held-back request"
            if request.api is HeartbeatRequest:
                assert world.member.identity.is_member
                assert not any(other.api is HeartbeatRequest for other in others)
            if request.api in HELD_BACK:
                assert not world.member.has_work(world.now), "a callback is due, and the join does not wait for it"
        self.look()

    def look(self):
        world, member = self.world, self.world.member
        for _, request, message in world.said[self.seen :]:
            if request.api is HeartbeatRequest:
                assert message.member_id and message.generation_id >= 0
            if request.api is SyncGroupRequest:
                assert message.member_id and message.generation_id >= 0 and message.protocol_name == "a"
        self.seen = len(world.said)
        if member.state is S.FATAL:
            assert member.error is not None
        if member.state in (S.UNSUBSCRIBED, S.LEAVING, S.LOSING, S.FATAL):
            assert not member.identity.is_member
        if member.state in (S.STABLE, S.ASSIGNING, S.REVOKING_AFTER_SYNC, S.COMPLETING_REBALANCE):
            assert member.identity.is_member
        if member.state is S.UNSUBSCRIBED:
            assert member.unconfirmed is None and member.error is None

    def order(self):
        before = None
        for call in self.world.role.calls:
            assert call == before or before in BEFORE[call], (before, call)
            before = call


def act(world, watch, what, which):
    member, role = world.member, world.role
    if what == 0:
        world.now += [0.0, 0.05, 0.5, 3.0, 11.0, 61.0][which % 6]
        member.called(world.now, polls=which % 4 > 0)
    elif what <= 3:
        if world.open:
            request = world.open[which % len(world.open)]
            if what == 2:
                world.script.lines[request.api].append(CODES[which % len(CODES)])
            world.reply(request, KafkaConnectionError("reset") if what == 3 else world.write(request))
    elif what <= 6:
        while member.has_work(world.now):
            if not work(world):
                break
            watch.step()
    elif what == 7:
        says = [False, ValueError("users' code"), KafkaProtocolError("garbage")][which % 3]
        role.says[CALLS[which % len(CALLS)]] = says
    elif what == 8:
        role.says.clear()
    elif what == 9:
        rare(world, which)
    else:
        world.script.leads = which % 2 == 0
        world.script.node_id = 1 + which % 3
        role.why = "a change" if which == 7 else None


def work(world):
    """Run one role method; ignore the exceptions that it was told to raise."""
    try:
        return world.member.work(world.now)
    except (ValueError, KafkaProtocolError):
        return False


def rare(world, which):
    member = world.member
    if which == 0:
        member.leave("x", world.now, leave_group=[None, True, False][which % 3])
    elif which in (1, 2):
        member.subscribe("y")
    elif which == 3:
        member.request_rejoin("z")
    elif which == 4:
        world.restart()
    elif which == 5:
        error = to_error(CODES[int(world.now * 1000) % 10])
        member.expelled(error, member.identity, world.now)
    elif which == 6:
        member.expelled(to_error(Code.UNKNOWN_MEMBER_ID), Identity("g", 0, "m0"), world.now)
    elif which == 7:
        world.coordinator.lost(world.coordinator.node_id, "x", world.now)
    elif which == 8:
        interrupt(world)


def interrupt(world):
    calls = {call: KeyboardInterrupt() for call in CALLS}
    says, world.role.says = world.role.says, calls
    try:
        if world.member.has_work(world.now):
            world.member.work(world.now)
    except KeyboardInterrupt:
        world.restart()
    finally:
        world.role.says = says


EVENTS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 11)), max_size=120)


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.integers(0, 3), st.booleans())
def test_random_events_break_no_rule_and_end_stable_or_fatal(make_world, events, seed, static):
    world = make_world({"group_instance_id": "i" if static else None}, seed=seed)
    watch = Watch(world)
    world.member.subscribe("the beginning")
    for what, which in events:
        watch.step()
        act(world, watch, what, which)
        watch.look()
    watch.order()
    fatal = world.member.state is S.FATAL or (world.member.error is not None and world.member.state is S.LOSING)
    world.heal()
    world.unheard.clear()
    world.role.why = None
    world.member.subscribe("the end")
    world.run(40.0)
    assert world.member.state is (S.FATAL if fatal and world.member.error is not None else S.STABLE)
    assert (world.member.unconfirmed is None and world.coordinator.node_id is not None) or world.member.state is S.FATAL
    watch.look()
    watch.order()
    assert world.due() < NEVER or world.member.state is S.FATAL
