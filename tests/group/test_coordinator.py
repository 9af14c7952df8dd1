"""The search for the coordinator: which broker gets FindCoordinator, when, how often, and what its response changes."""

import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.config import ConsumerConfig
from thinconsumer.consumer import Consumer
from thinconsumer.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from thinconsumer.failures import Action
from thinconsumer.group.coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator, CoordinatorState
from thinconsumer.group.coordinator_requests import CoordinatorRequests
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import ANY_NODE, Answer
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER
from thinconsumer.testing import Simulation
from thinconsumer.types import Node, TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FindCoordinatorResult
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse

S = CoordinatorState
RESET = KafkaConnectionError("reset")


class World:
    """A ``Coordinator`` with a manual clock."""

    def __init__(self, *node_ids, seed=1):
        draws = random.Random(seed)
        self.agenda = Agenda()
        self.metadata = Metadata(ConsumerConfig(), draws, self.agenda)
        self.metadata.nodes = {n: Node(n, f"b{n}", 9092, f"r{n}") for n in node_ids or (1, 2, 3)}
        self.coordinator = Coordinator(ConsumerConfig(), "g", self.metadata, draws, self.agenda)
        self.now = 100.0

    def step(self):
        self.agenda.take(self.now)
        return self.coordinator.step(self.now)

    def ask(self):
        [request] = self.step()
        return request

    def due(self):
        return max(self.now, self.agenda.next())

    def wait(self, limit=NEVER):
        """Step when the agenda says so, until a request is sent; return the request and the seconds until then."""
        begun = self.now
        for _ in range(30):
            if self.due() >= begun + limit:
                self.now = begun + limit
                return None
            self.now = self.due()
            requests = self.step()
            if requests:
                return requests[0], self.now - begun
        raise AssertionError("it wakes up without a request")

    def is_quiet(self):
        """Return whether no request is sent within a minute, which passes."""
        return self.wait(60.0) is None

    def load(self):
        """Step when the agenda says so, until the coordinator has loaded the group; return the seconds until then."""
        begun = self.now
        while self.coordinator.target() is None:
            assert self.step() == []
            if self.coordinator.target() is None:
                self.now = self.due()
        assert self.agenda.is_due(self.now), "managers that have stepped before wait for this"
        return self.now - begun

    def answer(self, request, *, node=1, code=0, error=None, version=6, by=2, **more):
        """Give a response, encoded and decoded."""
        message = request.build(version)
        FindCoordinatorRequest.decode(message.encode(version), version)
        if error is not None:
            self.coordinator.handle(Answer(request, by, error=error), self.now)
            return
        found = {"node_id": node, "host": f"b{node}", "port": 9092, "error_code": code} | more
        if version >= 4:
            key = found.pop("key", "g")
            other = FindCoordinatorResult(key="other", node_id=9)
            response = FindCoordinatorResponse(coordinators=[other, FindCoordinatorResult(key=key, **found)])
        else:
            response = FindCoordinatorResponse(**found)
        decoded = FindCoordinatorResponse.decode(response.encode(version), version)
        self.coordinator.handle(Answer(request, by, version, decoded), self.now)

    def pending(self, since=None):
        requests = CoordinatorRequests("x", ConsumerConfig(), self.coordinator, random.Random(0))
        requests.send(HeartbeatRequest, lambda version: HeartbeatRequest(), self.now if since is None else since)
        return requests

    def know(self, node=1, **more):
        self.coordinator.want()
        self.answer(self.ask(), node=node, **more)
        assert self.coordinator.state is S.KNOWN
        return self


@pytest.fixture
def world():
    return World()


# -- finding


def test_no_request_is_sent_before_a_manager_needs_the_coordinator(world):
    assert world.step() == [] and world.agenda.next() == NEVER
    assert world.coordinator.target() is None


def test_any_node_gets_the_request_and_its_response_is_used(world):
    world.coordinator.want()
    assert world.agenda.is_due(world.now)
    request = world.ask()
    assert request.target == ANY_NODE and request.deadline == world.now + 30.0
    world.answer(request, node=3)
    assert world.coordinator.node_id == 3
    assert world.coordinator.target() == (3, MEMBERSHIP)
    assert [world.coordinator.target(channel) for channel in (LEAVING_CONNECTION, "")] == [
        (3, LEAVING_CONNECTION),
        (3, ""),
    ]
    assert world.is_quiet()


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_coordinator_of_the_group(version):
    world = World()
    world.coordinator.want()
    request = world.ask()
    message = request.build(version)
    assert (message.coordinator_keys or [message.key]) == ["g"] and message.key_type == 0
    world.answer(request, node=2, version=version)
    assert world.coordinator.node_id == 2


def test_an_unknown_node_is_added_and_a_known_one_keeps_its_rack(world):
    world.know(node=7)
    assert world.metadata.nodes[7] == Node(7, "b7", 9092, None)
    world.coordinator.lost(7, "x", world.now)
    world.answer(world.ask(), node=2, host="moved", port=1)
    assert world.metadata.nodes[2] == Node(2, "moved", 1, "r2")


@pytest.mark.parametrize(
    "bad", [{"node": -1}, {"host": ""}, {"port": 0}, {"port": -5}, {"port": 65_536}, {"key": "another group"}]
)
def test_a_response_without_a_usable_node_is_retried(world, bad):
    world.coordinator.want()
    world.answer(world.ask(), **bad)
    assert (
        world.coordinator.state is S.UNKNOWN
        and world.coordinator.last_error is not None
        and world.coordinator.error is None
    )
    request, waited = world.wait()
    assert 0.08 <= waited <= 0.12
    world.answer(request)
    assert world.coordinator.state is S.KNOWN and world.coordinator.last_error is None


PASSING = [
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.NOT_COORDINATOR,
    Code.REQUEST_TIMED_OUT,
    Code.UNKNOWN_SERVER_ERROR,
]
FINAL = [Code.GROUP_AUTHORIZATION_FAILED, Code.INVALID_GROUP_ID, Code.INVALID_REQUEST, 999]


@pytest.mark.parametrize("code", [*PASSING, *FINAL])
def test_errors_back_off_exponentially_and_final_ones_are_raised(world, code):
    world.coordinator.want()
    request = world.ask()
    waits = []
    for _ in range(8):
        world.answer(request, code=code)
        assert (world.coordinator.error is not None) is (code in FINAL)
        assert world.coordinator.last_error.code == code
        request, waited = world.wait()
        waits.append(waited)
    assert 0.08 <= waits[0] <= 0.12 and all(0.7 <= wait <= 1.0 for wait in waits[4:])
    world.answer(request)
    assert world.coordinator.error is None and world.coordinator.last_error is None and world.coordinator.node_id == 1


def test_an_authorization_error_names_the_group(world):
    world.coordinator.want()
    world.answer(world.ask(), code=Code.GROUP_AUTHORIZATION_FAILED)
    assert (
        isinstance(world.coordinator.error, GroupAuthorizationFailedError) and world.coordinator.error.group_id == "g"
    )
    world.answer(world.wait()[0], error=RESET)
    assert world.coordinator.error is not None, "a broken connection does not end the error"


def test_brokers_that_are_too_old_are_a_final_error(world):
    world.coordinator.want()
    world.answer(world.ask(), error=UnsupportedVersionError("x", code=35, name="UNSUPPORTED_VERSION"))
    assert isinstance(world.coordinator.error, UnsupportedVersionError)


@pytest.mark.parametrize("error", [RESET, KafkaTimeoutError("x")])
def test_a_missing_response_is_retried(world, error):
    world.coordinator.want()
    world.answer(world.ask(), error=error)
    assert world.coordinator.error is None and world.coordinator.last_error is error and world.wait()[1] > 0.07


def test_if_a_broker_does_not_respond_others_are_asked(world):
    """Another broker is asked after each heartbeat interval; the first response that names a node counts."""
    world.coordinator.want()
    first = world.ask()
    second, waited = world.wait()
    assert waited == 3.0 and second.target.node_id in (1, 2, 3)
    third, waited = world.wait()
    assert waited == 3.0 and third.target.node_id in {1, 2, 3} - {second.target.node_id}
    world.answer(third, node=2)
    assert world.coordinator.node_id == 2
    world.answer(first, node=1)
    world.answer(second, node=1)
    assert world.coordinator.node_id == 2, "older requests were dropped"


def test_without_other_brokers_the_request_stays_in_flight():
    world = World(1)
    world.coordinator.want()
    world.ask()
    world.wait()
    for _ in range(20):
        world.now = world.due()
        assert world.step() == []
    assert world.now >= 160.0, "at most one wake-up per interval"


def test_a_slow_answer_counts_even_after_another_broker_failed_to_answer(world):
    world.coordinator.want()
    slow = world.ask()
    fast, _ = world.wait()
    world.answer(fast, code=Code.COORDINATOR_NOT_AVAILABLE)
    assert world.coordinator.state is S.UNKNOWN
    world.answer(slow, node=3)
    assert world.coordinator.node_id == 3


# -- losing


def test_the_loss_of_another_node_is_ignored(world):
    world.know(node=1)
    world.coordinator.lost(2, "x", world.now)
    world.coordinator.lost(None, "x", world.now)
    assert world.coordinator.state is S.KNOWN


def test_a_lost_coordinator_is_searched_at_once(world):
    world.know()
    world.now += 10.0
    world.coordinator.answered(1)
    world.agenda.take(world.now)
    world.coordinator.lost(1, "NOT_COORDINATOR", world.now)
    assert world.coordinator.node_id is None and world.coordinator.target() is None
    assert world.agenda.is_due(world.now)
    world.answer(world.ask(), node=2)
    assert world.coordinator.node_id == 2
    world.coordinator.lost(1, "a late report about the former node", world.now)
    assert world.coordinator.node_id == 2


def test_a_wrong_node_that_is_named_repeatedly_backs_off(world):
    world.know()
    waits = []
    for _ in range(10):
        world.coordinator.lost(1, "NOT_COORDINATOR", world.now)
        request, waited = world.wait()
        waits.append(waited)
        world.answer(request)
        world.now += 0.005
    assert waits[0] == 0.0 and waits[1] > 0.1 and all(wait >= 0.7 for wait in waits[5:])
    world.coordinator.answered(1)
    world.coordinator.lost(1, "x", world.now)
    assert world.wait()[1] == 0.0, "a node that acted as the coordinator ends the backoff"


def test_a_coordinator_that_lasted_ends_the_backoff(world):
    """Also if no manager reported a successful response."""
    world.know()
    world.coordinator.lost(1, "x", world.now)
    world.answer(world.ask())
    world.now += 100.0
    world.coordinator.lost(1, "x", world.now)
    assert world.wait()[1] == 0.0


def test_the_search_lasts_as_long_as_a_manager_needs_it(world):
    world.coordinator.want("member")
    world.coordinator.want("commits")
    world.answer(world.ask())
    world.coordinator.unwant("member")
    world.agenda.take(world.now)
    world.coordinator.lost(1, "x", world.now)
    assert world.agenda.is_due(world.now)
    world.coordinator.unwant("commits")
    assert world.is_quiet()
    world.coordinator.unwant("nobody")
    world.coordinator.want("commits")
    world.answer(world.ask())
    world.coordinator.unwant("commits")
    assert world.coordinator.node_id == 1, "a known coordinator stays known"


# -- loading


def test_a_loading_coordinator_stays_known_and_gets_no_requests(world):
    world.know()
    world.coordinator.loading(world.now)
    world.coordinator.loading(world.now)
    assert world.coordinator.target() is None and world.coordinator.node_id == 1
    assert 0.08 <= world.load() <= 0.12, "two reports at once count once"
    assert world.is_quiet()


def test_a_coordinator_that_keeps_loading_backs_off(world):
    world.know()
    waits = []
    for _ in range(8):
        world.coordinator.loading(world.now)
        waits.append(world.load())
    assert waits[0] < 0.13 and all(wait >= 0.7 for wait in waits[5:])
    world.now += 5.0
    world.coordinator.loading(world.now)
    assert world.load() < 0.13


def test_a_new_coordinator_is_not_loading(world):
    world.know()
    world.coordinator.loading(world.now)
    world.coordinator.lost(1, "x", world.now)
    world.answer(world.ask(), node=2)
    assert world.coordinator.target() == (2, MEMBERSHIP)


# -- pending responses


def test_while_a_response_is_pending_another_broker_is_asked(world):
    world.know(node=1)
    world.pending()
    probe, waited = world.wait()
    assert waited == 3.0 and probe.target.node_id in (2, 3)
    world.answer(probe, node=1)
    assert world.coordinator.node_id == 1, "the same node is confirmed"
    again, waited = world.wait()
    assert waited == 3.0 and again.target.node_id in (2, 3)
    world.answer(again, node=2)
    assert world.coordinator.node_id == 2
    assert world.is_quiet(), "requests to the former node are abandoned"


def test_while_a_response_is_pending_a_dead_broker_is_skipped(world):
    world.know(node=1)
    world.pending()
    first, _ = world.wait()
    second, _ = world.wait()
    assert {first.target.node_id, second.target.node_id} == {2, 3}
    assert world.is_quiet(), "both have a request in flight"
    world.answer(first, error=RESET)
    assert (
        world.coordinator.state is S.KNOWN and world.coordinator.error is None and world.coordinator.last_error is None
    )
    assert world.wait()[0].target == first.target


def test_if_only_the_coordinator_is_known_any_node_is_asked():
    """A bootstrap server may know another coordinator."""
    world = World(1).know(node=1)
    world.pending()
    assert world.wait()[0].target == ANY_NODE


def test_a_response_ends_the_search_for_another_coordinator(world):
    world.know(node=1)
    member, commits = world.pending(), world.pending(world.now + 1.0)
    probe, _ = world.wait()
    member.in_flight = None
    assert not world.is_quiet(), "a commit is still pending"
    commits.in_flight = None
    assert world.is_quiet()
    world.answer(probe, node=3)
    assert world.coordinator.node_id == 1, "the coordinator has responded, so the search was dropped"


def test_a_long_pending_response_starts_one_search_at_once(world):
    """After a long gap between calls."""
    world.know(node=1)
    world.pending(world.now - 60.0)
    world.now += 3.0
    world.ask()
    assert world.coordinator.step(world.now) == []


@pytest.mark.parametrize(
    ("action", "is_answered", "expected"),
    [
        (Action.ACCEPT, True, [("answered", 1)]),
        (Action.RESET_MEMBER_ID, True, [("answered", 1)]),
        (Action.RAISE, True, [("answered", 1)]),
        (Action.RAISE, False, []),
        (Action.WAIT_FOR_COORDINATOR, True, [("loading", 100.0)]),
        (Action.FIND_COORDINATOR, True, [("lost", 1)]),
        (Action.FIND_COORDINATOR, False, [("lost", 1)]),
    ],
)
def test_what_a_response_shows_about_the_coordinator(world, monkeypatch, action, is_answered, expected):
    told, in_flight = [], world.know().pending().in_flight
    for name in ("answered", "loading", "lost"):
        monkeypatch.setattr(world.coordinator, name, lambda about, *more, name=name: told.append((name, about)))
    answer = Answer(in_flight, 1, 4, HeartbeatResponse() if is_answered else None)
    world.coordinator.report(action, RESET, answer, world.now)
    assert told == expected


# -- restart


@pytest.mark.parametrize("state", S)
def test_a_restart_forgets_requests_in_flight_and_keeps_the_coordinator(world, state):
    world.coordinator.want()
    old = []
    if state is S.FINDING:
        old = [world.ask()]
    elif state is S.KNOWN:
        world.know()
        pending = world.pending()
        old = [world.wait()[0]]
        pending.restart()  # by its user
    world.coordinator.restart(world.now)
    for request in old:
        world.answer(request, node=3)
    assert world.coordinator.node_id == (1 if state is S.KNOWN else None)
    if state is not S.KNOWN:
        world.answer(world.ask(), node=2)
        assert world.coordinator.node_id == 2
    assert world.is_quiet()


# -- log lines


def test_a_new_coordinator_is_two_log_lines_however_often_it_changes(world, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    world.know()
    world.coordinator.answered(1)
    for round_ in range(20):
        world.coordinator.lost(world.coordinator.node_id, "x", world.now)
        world.answer(world.wait()[0], node=1 + round_ % 2)
    world.coordinator.answered(2)
    assert [message.split(":")[1][:24] for message in caplog.messages] == [
        " the coordinator is node", " lost its coordinator, n", " the coordinator is node",
    ]  # fmt: skip


def test_a_final_error_is_logged_once_until_it_changes(world, caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group")
    world.coordinator.want()
    request = world.ask()
    for _ in range(5):
        world.answer(request, code=Code.GROUP_AUTHORIZATION_FAILED)
        request, _ = world.wait()
    assert len(caplog.messages) == 1
    world.answer(request, code=Code.INVALID_GROUP_ID)
    assert len(caplog.messages) == 2


# -- random events


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=60), st.integers(0, 5))
def test_random_events_keep_requests_bounded_and_end_with_a_known_coordinator(events, seed):
    world = World(seed=seed)
    coordinator = world.coordinator
    pending = [CoordinatorRequests(name, ConsumerConfig(), coordinator, random.Random(0)) for name in "ab"]
    out = []
    for what, which in events:
        if what == 0:
            coordinator.want(str(which))
        elif what == 1:
            coordinator.unwant(str(which))
        elif what == 2 and out:
            world.answer(out.pop(which % len(out)), node=1 + which % 3)
        elif what == 3 and out:
            codes = [*PASSING, *FINAL]
            world.answer(out.pop(which % len(out)), code=codes[which])
        elif what == 4 and out:
            world.answer(out.pop(which % len(out)), error=RESET)
        elif what == 5:
            coordinator.lost(1 + which % 3, "x", world.now)
        elif what == 6:
            coordinator.loading(world.now)
        elif what == 7:
            one = pending[which % 2]
            one.in_flight = None
            if which and one.is_open:
                one.send(HeartbeatRequest, lambda version: HeartbeatRequest(), world.now - which)
        elif what == 8 and which == 0:
            coordinator.restart(world.now)
            out.clear()
        else:
            world.now += which
        out += coordinator.step(world.now)
        assert (coordinator.node_id is not None) is (coordinator.state is S.KNOWN)
        assert len(coordinator._in_flight) <= 5
        assert coordinator.target() is None or coordinator.target().node_id == coordinator.node_id
    coordinator.want("the end")
    for _ in range(20):
        for request in out:
            world.answer(request, node=2)
        world.now += 1.0
        out = coordinator.step(world.now)
    assert coordinator.state is S.KNOWN and coordinator.error is None and coordinator.target() is not None


def test_with_manual_assignment_commits_end_the_backoff():
    """Without a member there are no heartbeats, so the backoff of the search would never end."""
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
