"""Where the coordinator is: who is asked, what is believed, when it is doubted, and how often all of that happens."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.connection.request import ANY_NODE, Answer
from thinconsumer.consumer import Consumer
from thinconsumer.errors import (
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from thinconsumer.group.coordinator import (
    LEAVING_CONNECTION,
    MEMBERSHIP,
    TRANSITIONS,
    Coordinator,
    CoordinatorEvent,
    CoordinatorState,
)
from thinconsumer.testing import Simulation
from thinconsumer.timers import NEVER
from thinconsumer.types import Node, TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult

S = CoordinatorState
RESET = KafkaConnectionError("reset")


class Nodes:
    """As much of the metadata as discovery needs."""

    def __init__(self, *node_ids):
        self.nodes = {n: Node(n, f"b{n}", 9092, f"r{n}") for n in node_ids}

    def learn_node(self, node):
        self.nodes[node.node_id] = node


class World:
    """The keeper, a clock, and what it has asked."""

    def __init__(self, *node_ids, seed=1):
        options = {
            "heartbeat_interval_ms": 3000,
            "request_timeout_ms": 30_000,
            "retry_backoff_ms": 100,
            "retry_backoff_max_ms": 1000,
        }
        self.nodes = Nodes(*(node_ids or (1, 2, 3)))
        self.keeper = Coordinator(SimpleNamespace(**options), "g", self.nodes, random.Random(seed))
        self.now = 100.0

    def ask(self):
        """Return the one question due now."""
        [request] = self.keeper.step(self.now)
        return request

    def wait(self):
        """Let time pass until there is a question, and return it and how long that took."""
        begun = self.now
        for _ in range(10):
            self.now = self.keeper.wake_at(self.now)
            assert self.now < NEVER
            requests = self.keeper.step(self.now)
            if requests:
                return requests[0], self.now - begun
        raise AssertionError("it wakes up for nothing")

    def answer(self, request, *, node=1, code=0, error=None, version=6, by=2, **more):
        """Answer through bytes."""
        message = request.build(version)
        FindCoordinatorRequest.decode(message.encode(version), version)
        if error is not None:
            self.keeper.handle(Answer(request, by, error=error), self.now)
            return
        found = {"node_id": node, "host": f"b{node}", "port": 9092, "error_code": code} | more
        if version >= 4:
            key = found.pop("key", "g")
            other = FindCoordinatorResult(key="other", node_id=9)
            response = FindCoordinatorResponse(coordinators=[other, FindCoordinatorResult(key=key, **found)])
        else:
            response = FindCoordinatorResponse(**found)
        decoded = FindCoordinatorResponse.decode(response.encode(version), version)
        self.keeper.handle(Answer(request, by, version, decoded), self.now)

    def know(self, node=1, **more):
        """Find it."""
        self.keeper.want()
        self.answer(self.ask(), node=node, **more)
        assert self.keeper.state is S.KNOWN
        return self


@pytest.fixture
def world():
    return World()


# -- the table


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("event", CoordinatorEvent)
def test_every_pair_is_a_move_or_a_bug(world, state, event):
    world.keeper.state = state
    after = TRANSITIONS[state].get(event)
    if after is None:
        with pytest.raises(IllegalStateError) as caught:
            world.keeper._move(event)
        assert state.value in str(caught.value) and event.value in str(caught.value)
    else:
        world.keeper._move(event)
        assert world.keeper.state is after


def test_the_table_is_total_and_connected():
    assert set(TRANSITIONS) == set(S)
    assert {after for moves in TRANSITIONS.values() for after in moves.values()} == set(S)
    assert {event for moves in TRANSITIONS.values() for event in moves} == set(CoordinatorEvent)


# -- finding


def test_nothing_is_asked_before_somebody_wants_it(world):
    assert world.keeper.step(world.now) == [] and world.keeper.wake_at(world.now) == NEVER
    assert world.keeper.target() is None


def test_any_node_is_asked_and_what_it_says_is_believed(world):
    world.keeper.want()
    assert world.keeper.wake_at(world.now) == world.now
    request = world.ask()
    assert request.target == ANY_NODE and request.deadline == world.now + 30.0
    world.answer(request, node=3)
    assert (world.keeper.node_id, world.keeper.version) == (3, 1)
    assert world.keeper.target() == (3, MEMBERSHIP) and world.keeper.target(LEAVING_CONNECTION) == (
        3,
        LEAVING_CONNECTION,
    )
    assert world.keeper.target("") == (3, "")
    assert world.keeper.wake_at(world.now) == NEVER and world.keeper.step(world.now) == []


@pytest.mark.parametrize("version", range(7))
def test_every_version_asks_for_our_group_and_understands(version):
    world = World()
    world.keeper.want()
    request = world.ask()
    message = request.build(version)
    assert (message.coordinator_keys or [message.key]) == ["g"] and message.key_type == 0
    world.answer(request, node=2, version=version)
    assert world.keeper.node_id == 2


def test_a_node_that_metadata_does_not_know_is_learned_and_one_it_knows_keeps_its_rack(world):
    world.know(node=7)
    assert world.nodes.nodes[7] == Node(7, "b7", 9092, None)
    world.keeper.lost(7, "x", world.now)
    world.answer(world.ask(), node=2, host="moved", port=1)
    assert world.nodes.nodes[2] == Node(2, "moved", 1, "r2")


@pytest.mark.parametrize(
    "bad", [{"node": -1}, {"host": ""}, {"port": 0}, {"port": -5}, {"port": 65_536}, {"key": "another group"}]
)
def test_an_answer_that_names_nobody_is_none(world, bad):
    world.keeper.want()
    world.answer(world.ask(), **bad)
    assert world.keeper.state is S.UNKNOWN and world.keeper.last_error is not None and world.keeper.error is None
    request, waited = world.wait()
    assert 0.08 <= waited <= 0.12
    world.answer(request)
    assert world.keeper.state is S.KNOWN and world.keeper.last_error is None


PASSING = [
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.NOT_COORDINATOR,
    Code.REQUEST_TIMED_OUT,
    Code.UNKNOWN_SERVER_ERROR,
]
FINAL = [Code.GROUP_AUTHORIZATION_FAILED, Code.INVALID_GROUP_ID, Code.INVALID_REQUEST, 999]


@pytest.mark.parametrize("code", [*PASSING, *FINAL])
def test_errors_back_off_exponentially_and_final_ones_are_raised_until_cured(world, code):
    world.keeper.want()
    request = world.ask()
    waits = []
    for _ in range(8):
        world.answer(request, code=code)
        assert (world.keeper.error is not None) is (code in FINAL)
        assert world.keeper.last_error.code == code
        request, waited = world.wait()
        waits.append(waited)
    assert 0.08 <= waits[0] <= 0.12 and all(0.7 <= wait <= 1.0 for wait in waits[4:])
    world.answer(request)
    assert world.keeper.error is None and world.keeper.last_error is None and world.keeper.node_id == 1


def test_an_authorization_error_names_the_group(world):
    world.keeper.want()
    world.answer(world.ask(), code=Code.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(world.keeper.error, GroupAuthorizationFailedError) and world.keeper.error.group_id == "g"
    world.answer(world.wait()[0], error=RESET)
    assert world.keeper.error is not None, "a broken connection has not cured it"


def test_brokers_that_are_too_old_are_a_final_error(world):
    world.keeper.want()
    world.answer(world.ask(), error=UnsupportedVersionError("x", code=35, name="UNSUPPORTED_VERSION"))
    assert isinstance(world.keeper.error, UnsupportedVersionError)


@pytest.mark.parametrize("error", [RESET, KafkaTimeoutError("x")])
def test_no_answer_is_a_passing_error(world, error):
    world.keeper.want()
    world.answer(world.ask(), error=error)
    assert world.keeper.error is None and world.keeper.last_error is error and world.wait()[1] > 0.07


def test_a_broker_that_does_not_answer_is_not_waited_for(world):
    """After a heartbeat interval another one is asked besides, and another; the first that knows is believed."""
    world.keeper.want()
    first = world.ask()
    second, waited = world.wait()
    assert waited == 3.0 and second.target.node_id in (1, 2, 3)
    third, waited = world.wait()
    assert waited == 3.0 and third.target.node_id in {1, 2, 3} - {second.target.node_id}
    world.answer(third, node=2)
    assert world.keeper.node_id == 2
    world.answer(first, node=1)
    world.answer(second, node=1)
    assert world.keeper.node_id == 2, "what was asked before does not matter any more"


def test_with_nobody_else_to_ask_one_is_waited_for():
    world = World(1)
    world.keeper.want()
    world.ask()
    world.wait()
    for _ in range(20):
        world.now = world.keeper.wake_at(world.now)
        assert world.keeper.step(world.now) == []
    assert world.now >= 160.0, "and looked after once an interval, not more"


def test_a_slow_answer_counts_even_after_another_broker_failed_to_answer(world):
    world.keeper.want()
    slow = world.ask()
    fast, _ = world.wait()
    world.answer(fast, code=Code.COORDINATOR_NOT_AVAILABLE)
    assert world.keeper.state is S.UNKNOWN
    world.answer(slow, node=3)
    assert world.keeper.node_id == 3


# -- losing


def test_what_is_said_of_another_node_does_not_matter(world):
    world.know(node=1)
    world.keeper.lost(2, "x", world.now)
    world.keeper.lost(None, "x", world.now)
    assert world.keeper.state is S.KNOWN and world.keeper.version == 1


def test_lost_is_looked_for_at_once(world):
    world.know()
    world.now += 10.0
    world.keeper.answered(1)
    world.keeper.lost(1, "NOT_COORDINATOR", world.now)
    assert world.keeper.node_id is None and world.keeper.target() is None and world.keeper.version == 2
    assert world.keeper.wake_at(world.now) == world.now
    world.answer(world.ask(), node=2)
    assert world.keeper.node_id == 2 and world.keeper.version == 3
    world.keeper.lost(1, "somebody has been waiting for it all the time", world.now)
    assert world.keeper.node_id == 2


def test_brokers_that_go_on_naming_the_wrong_node_are_asked_less_and_less_often(world):
    world.know()
    waits = []
    for _ in range(10):
        world.keeper.lost(1, "NOT_COORDINATOR", world.now)
        request, waited = world.wait()
        waits.append(waited)
        world.answer(request)
        world.now += 0.005
    assert waits[0] == 0.0 and waits[1] > 0.1 and all(wait >= 0.7 for wait in waits[5:])
    world.keeper.answered(1)
    world.keeper.lost(1, "x", world.now)
    assert world.wait()[1] == 0.0, "one that has behaved as a coordinator was one"


def test_one_that_has_lasted_was_one_too(world):
    """Where nobody says that it answered."""
    world.know()
    world.keeper.lost(1, "x", world.now)
    world.answer(world.ask())
    world.now += 100.0
    world.keeper.lost(1, "x", world.now)
    assert world.wait()[1] == 0.0


def test_it_is_looked_for_as_long_as_anybody_wants_it(world):
    world.keeper.want("member")
    world.keeper.want("commits")
    world.answer(world.ask())
    world.keeper.unwant("member")
    world.keeper.lost(1, "x", world.now)
    assert world.keeper.wake_at(world.now) == world.now
    world.keeper.unwant("commits")
    assert world.keeper.wake_at(world.now) == NEVER and world.keeper.step(world.now) == []
    world.keeper.unwant("nobody")
    world.keeper.want("commits")
    world.answer(world.ask())
    world.keeper.unwant("commits")
    assert world.keeper.node_id == 1, "what is known stays known"


# -- loading


def test_one_that_has_to_load_first_is_the_right_one_and_left_alone_for_a_while(world):
    world.know()
    world.keeper.loading(world.now)
    world.keeper.loading(world.now)
    assert world.keeper.target() is None and world.keeper.node_id == 1 and world.keeper.version == 1
    due = world.keeper.wake_at(world.now)
    assert 0.08 <= due - world.now <= 0.12, "two that say so at once are one"
    world.now = due
    assert world.keeper.step(world.now) == [] and world.keeper.target() is not None
    assert world.keeper.wake_at(world.now) == NEVER


def test_one_that_loads_for_long_is_asked_less_and_less_often(world):
    world.know()
    waits = []
    for _ in range(8):
        world.keeper.loading(world.now)
        due = world.keeper.wake_at(world.now)
        waits.append(due - world.now)
        world.now = due
        world.keeper.step(world.now)
    assert waits[0] < 0.13 and all(wait >= 0.7 for wait in waits[5:])
    world.now += 5.0
    world.keeper.loading(world.now)
    assert world.keeper.wake_at(world.now) - world.now < 0.13


def test_another_coordinator_does_not_load_for_the_one_before(world):
    world.know()
    world.keeper.loading(world.now)
    world.keeper.lost(1, "x", world.now)
    world.answer(world.ask(), node=2)
    assert world.keeper.target() == (2, MEMBERSHIP)


# -- doubting


def test_who_keeps_others_waiting_is_asked_after_at_another_broker(world):
    world.know(node=1)
    world.keeper.waiting(world.now, world.now)
    assert world.keeper.wake_at(world.now) == world.now + 3.0
    probe, waited = world.wait()
    assert waited == 3.0 and probe.target.node_id in (2, 3)
    world.answer(probe, node=1)
    assert world.keeper.version == 1, "it is confirmed"
    again, waited = world.wait()
    assert waited == 3.0 and again.target.node_id in (2, 3)
    world.answer(again, node=2)
    assert world.keeper.node_id == 2 and world.keeper.version == 2
    assert world.keeper.wake_at(world.now) == NEVER, "who waited for the one before starts over"


def test_a_dead_broker_does_not_keep_doubts_from_being_resolved(world):
    world.know(node=1)
    world.keeper.waiting(world.now, world.now)
    first, _ = world.wait()
    second, _ = world.wait()
    assert {first.target.node_id, second.target.node_id} == {2, 3}
    world.now = world.keeper.wake_at(world.now)
    assert world.keeper.step(world.now) == [], "both are being asked"
    world.answer(first, error=RESET)
    assert world.keeper.state is S.KNOWN and world.keeper.error is None and world.keeper.last_error is None
    assert world.wait()[0].target == first.target


def test_where_only_the_suspect_is_known_any_node_is_asked():
    """Maybe a bootstrap server knows more."""
    world = World(1).know(node=1)
    world.keeper.waiting(world.now, world.now)
    assert world.wait()[0].target == ANY_NODE


def test_doubts_end_with_the_answer(world):
    world.know(node=1)
    world.keeper.waiting(world.now, world.now, "member")
    world.keeper.waiting(world.now + 1.0, world.now, "commits")
    probe, _ = world.wait()
    world.keeper.waiting(None, world.now, "member")
    assert world.keeper.wake_at(world.now) < NEVER, "commits wait still"
    world.keeper.waiting(None, world.now, "commits")
    world.keeper.waiting(None, world.now, "nobody")
    assert world.keeper.wake_at(world.now) == NEVER
    world.answer(probe, node=3)
    assert world.keeper.node_id == 1, "it has answered: what others say of it is older"


def test_waiting_since_long_ago_asks_at_once_but_only_once(world):
    """A user who was away comes back."""
    world.know(node=1)
    world.keeper.waiting(world.now - 60.0, world.now)
    world.now += 3.0
    world.ask()
    assert world.keeper.step(world.now) == []


# -- starting over


@pytest.mark.parametrize("state", S)
def test_a_restart_forgets_what_is_out_and_keeps_what_is_known(world, state):
    world.keeper.want()
    old = []
    if state is S.FINDING:
        old = [world.ask()]
    elif state is S.KNOWN:
        world.know()
        world.keeper.waiting(world.now, world.now)
        old = [world.wait()[0]]
    world.keeper.restart(world.now)
    for request in old:
        world.answer(request, node=3)
    assert world.keeper.node_id == (1 if state is S.KNOWN else None)
    if state is not S.KNOWN:
        world.answer(world.ask(), node=2)
        assert world.keeper.node_id == 2
    assert world.keeper.wake_at(world.now) == NEVER


# -- lines in the log


def test_a_move_is_two_lines_and_flapping_is_no_more(world, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    world.know()
    world.keeper.answered(1)
    for round_ in range(20):
        world.keeper.lost(world.keeper.node_id, "x", world.now)
        world.answer(world.wait()[0], node=1 + round_ % 2)
    world.keeper.answered(2)
    assert [message.split(":")[1][:24] for message in caplog.messages] == [
        " the coordinator is node", " lost its coordinator, n", " the coordinator is node",
    ]  # fmt: skip


def test_a_final_error_is_one_line_until_it_changes(world, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    world.keeper.want()
    request = world.ask()
    for _ in range(5):
        world.answer(request, code=Code.GROUP_AUTHORIZATION_FAILED)
        request, _ = world.wait()
    assert len(caplog.messages) == 1
    world.answer(request, code=Code.INVALID_GROUP_ID)
    assert len(caplog.messages) == 2


# -- whatever happens


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=60), st.integers(0, 5))
def test_whatever_happens_it_is_legal_bounded_and_ends_well(events, seed):
    world = World(seed=seed)
    keeper = world.keeper
    out = []
    for what, which in events:
        if what == 0:
            keeper.want(str(which))
        elif what == 1:
            keeper.unwant(str(which))
        elif what == 2 and out:
            world.answer(out.pop(which % len(out)), node=1 + which % 3)
        elif what == 3 and out:
            codes = [*PASSING, *FINAL]
            world.answer(out.pop(which % len(out)), code=codes[which])
        elif what == 4 and out:
            world.answer(out.pop(which % len(out)), error=RESET)
        elif what == 5:
            keeper.lost(1 + which % 3, "x", world.now)
        elif what == 6:
            keeper.loading(world.now)
        elif what == 7:
            keeper.waiting(world.now - which if which else None, world.now, str(which % 2))
        elif what == 8 and which == 0:
            keeper.restart(world.now)
            out.clear()
        else:
            world.now += which
        out += keeper.step(world.now)
        assert keeper.wake_at(world.now) >= world.now
        assert (keeper.node_id is not None) is (keeper.state is S.KNOWN)
        assert len(keeper._in_flight) <= 5
        assert keeper.target() is None or keeper.target().node_id == keeper.node_id
    keeper.want("the end")
    for _ in range(20):
        for request in out:
            world.answer(request, node=2)
        world.now += 1.0
        out = keeper.step(world.now)
    assert keeper.state is S.KNOWN and keeper.error is None and keeper.target() is not None


def test_by_hand_commits_and_committed_offsets_show_that_it_answers_well():
    """Without a member nobody heartbeats, and the backoff of its discovery would never end."""
    sim = Simulation(seed=1, brokers=3, topics={"t": 1})
    tp = TopicPartition("t", 0)
    with Consumer(group_id="g", driver=sim.driver(), bootstrap_servers=sim.bootstrap_servers) as consumer:
        consumer.assign([tp])
        for call in (lambda: consumer.committed(tp), lambda: consumer.commit({tp: 1})):
            coordinator = consumer._reader.managers.group.coordinator
            told = []
            coordinator.answered = told.append
            call()
            assert told == [coordinator.node_id]
            del coordinator.answered
