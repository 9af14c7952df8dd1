"""The requests that a member may have in flight to its coordinator, on which connection, and when it abandons them."""

import itertools
import random

import pytest

from thinconsumer.connection.request import Answer, Target
from thinconsumer.errors import IllegalStateError, KafkaConnectionError
from thinconsumer.failures import Action
from thinconsumer.group.classic.coordinator_channel import CoordinatorChannel
from thinconsumer.group.classic.rebalance_attempt import RebalanceAttempt
from thinconsumer.group.coordinator import LEAVING_CONNECTION, MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.timers import NEVER
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

WHO = Identity("g", 3, "m")


class Keeper:
    """Record what the channel reports to ``Coordinator``."""

    def __init__(self):
        self.node_id = 1
        self.identity = WHO
        self.told = []

    def target(self, channel):
        return None if self.node_id is None else Target(self.node_id, channel)

    def waiting(self, since, now, who):
        self.told.append(("waiting", since))

    def lost(self, node_id, why, now):
        self.told.append(("lost", node_id))

    def loading(self, now):
        self.told.append(("loading",))

    def answered(self, node_id):
        self.told.append(("answered", node_id))


@pytest.fixture
def keeper():
    return Keeper()


@pytest.fixture
def line(keeper, options):
    return CoordinatorChannel("member", options, keeper, random.Random(1), lambda: keeper.identity)


def say(line, what, now=100.0):
    """Send a JoinGroup, SyncGroup or Heartbeat, if the channel allows it."""
    attempt = RebalanceAttempt("why", now, protocols=[("a", b"")], protocol="a", plan={})
    if what == "join":
        return line.join("pool", attempt, now)
    if what == "sync":
        return line.sync("pool", attempt, now)
    return line.heartbeat(now)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(["join", "sync"], ["join", "sync", "beat"])))
def test_no_request_follows_an_unanswered_join_or_sync(line, first, second):
    assert line.is_open
    assert say(line, first) is not None
    assert not line.is_open and say(line, second) is None


@pytest.mark.parametrize("second", ["join", "sync"])
def test_join_or_sync_may_follow_an_unanswered_heartbeat(line, second):
    heartbeat = say(line, "beat")
    assert say(line, "beat") is None and say(line, second) is not None
    assert heartbeat.target == line.in_flight.target == (1, MEMBERSHIP)


@pytest.mark.parametrize("what", ["join", "sync", "beat"])
def test_without_a_coordinator_no_request_is_sent(line, keeper, what):
    keeper.node_id = None
    assert not line.is_open and say(line, what) is None


def test_deadline_and_held_back_time_of_each_request(line):
    join = say(line, "join")
    assert (join.api, join.deadline, join.held_back) == (JoinGroupRequest, 165.0, 60.0)
    line.in_flight = None
    sync = say(line, "sync")
    assert (sync.api, sync.deadline, sync.held_back) == (SyncGroupRequest, 130.0, 30.0)
    line.in_flight = None
    leader = line.sync("pool", RebalanceAttempt("", 0.0, leads=True, plan={}), 100.0)
    assert leader.held_back == 0.0, "the coordinator does not hold back a leader's response"
    line.in_flight = None
    heartbeat = say(line, "beat")
    assert (heartbeat.api, heartbeat.deadline, heartbeat.held_back) == (HeartbeatRequest, 110.0, 0.0)


def test_an_abandoned_request_is_not_written(line):
    join = say(line, "join")
    assert join.build(9).member_id == "m" and line.awaits(join)
    line.abandon_rebalance_request()
    assert line.connections_to_drop == [join.target] and not line.awaits(join)
    with pytest.raises(IllegalStateError):
        join.build(9)
    line.abandon_rebalance_request()
    assert line.connections_to_drop == [join.target]


def test_a_message_carries_the_identity_at_the_time_of_writing(line, keeper):
    keeper.identity = Identity("g")
    join = say(line, "join")
    keeper.identity = WHO
    assert join.build(9).member_id == "m"


def test_leave_group_uses_its_own_connection_while_a_join_is_unanswered(line):
    line.start_leave("done", 100.0)
    assert line.leave_request(100.0).target == (1, MEMBERSHIP)
    line.leave_answered(100.0, again=False)
    assert line.leave_attempt is None and line.leave_at() == NEVER
    say(line, "join")
    line.start_leave("done", 100.0)
    line.abandon_rebalance_request()
    assert line.leave_request(100.0).target == (1, LEAVING_CONNECTION)


def test_a_retried_leave_group_does_not_follow_a_newer_join(line):
    line.start_leave("done", 100.0)
    line.leave_request(100.0)
    line.leave_answered(100.0, again=True)
    say(line, "join", 101.0)
    assert line.leave_request(101.0).target == (1, LEAVING_CONNECTION)


def test_leave_group_is_abandoned_at_its_deadline(line, keeper):
    keeper.node_id = None
    line.start_leave("done", 100.0)
    assert line.leave_request(104.0) is None and line.leave_at() == 105.0
    assert line.leave_request(105.0) is None and line.leave_attempt is None


def test_the_oldest_pending_request_is_reported(line, keeper):
    line.check_pending(100.0)
    say(line, "beat", 101.0)
    line.check_pending(101.0)
    say(line, "join", 102.0)
    line.check_pending(102.0)
    line.heartbeats.answered()
    line.check_pending(103.0)
    assert keeper.told == [("waiting", None), ("waiting", 101.0), ("waiting", 101.0), ("waiting", 102.0)]


def test_requests_to_a_former_coordinator_are_abandoned(line, keeper):
    heartbeat, join = say(line, "beat"), say(line, "join")
    keeper.node_id = None
    assert not line.check_pending(101.0) and line.in_flight is join, "FindCoordinator may name the same node again"
    keeper.node_id = 2
    assert line.check_pending(101.0)
    assert line.connections_to_drop == [Target(1, MEMBERSHIP)] and not line.awaits(heartbeat) and not line.awaits(join)
    assert line.is_open


@pytest.mark.parametrize(
    ("action", "answered", "told"),
    [
        (Action.ACCEPT, True, ("answered", 1)),
        (Action.RESET_MEMBER_ID, True, ("answered", 1)),
        (Action.RAISE, True, ("answered", 1)),
        (Action.RAISE, False, None),
        (Action.WAIT_FOR_COORDINATOR, True, ("loading",)),
        (Action.FIND_COORDINATOR, True, ("lost", 1)),
        (Action.FIND_COORDINATOR, False, ("lost", 1)),
    ],
)
def test_responses_are_reported_to_the_coordinator(line, keeper, action, answered, told):
    answer = Answer(say(line, "beat"), 1, 4, HeartbeatResponse() if answered else None)
    line.report(action, KafkaConnectionError("x"), answer, 100.0)
    assert keeper.told == ([] if told is None else [told])


def test_a_restart_forgets_requests_in_flight(line):
    say(line, "beat")
    join = say(line, "join")
    line.start_leave("done", 100.0)
    line.leave_request(100.0)
    line.connections_to_drop.append(join.target)
    line.restart(100.0)
    assert line.connections_to_drop == [] and not line.awaits(join) and line.is_open
    assert say(line, "beat") is not None and line.leave_request(100.0) is not None
