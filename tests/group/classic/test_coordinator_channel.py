"""The requests that a member may have in flight to its coordinator, on which connection, and when it abandons them."""

import itertools
import random

import pytest

from thinconsumer.connection.request import Answer, Target
from thinconsumer.errors import IllegalStateError, KafkaConnectionError
from thinconsumer.failures import Action
from thinconsumer.group.classic.coordinator_channel import CoordinatorChannel
from thinconsumer.group.classic.rebalance_attempt import RebalanceAttempt
from thinconsumer.group.coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

WHO = Identity("g", 3, "m")


class FakeCoordinator:
    """Record what the channel reports to ``Coordinator``."""

    def __init__(self):
        self.node_id = 1
        self.group_id = "g"
        self.identity = WHO
        self.watched = []
        self.told = []

    def target(self, channel):
        return None if self.node_id is None else Target(self.node_id, channel)

    def lost(self, node_id, why, now):
        self.told.append(("lost", node_id))

    def loading(self, now):
        self.told.append(("loading",))

    def answered(self, node_id):
        self.told.append(("answered", node_id))


@pytest.fixture
def coordinator():
    return FakeCoordinator()


@pytest.fixture
def channel(coordinator, options):
    return CoordinatorChannel("member", options, coordinator, random.Random(1), lambda: coordinator.identity)


def say(channel, what, now=100.0):
    """Send a JoinGroup, SyncGroup or Heartbeat, if the channel allows it."""
    attempt = RebalanceAttempt("why", now, protocols=[("a", b"")], protocol="a", plan={})
    if what == "join":
        return channel.join("pool", attempt, now)
    if what == "sync":
        return channel.sync("pool", attempt, now)
    return channel.heartbeat(now)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(["join", "sync"], ["join", "sync", "beat"])))
def test_no_request_follows_an_unanswered_join_or_sync(channel, first, second):
    assert channel.rebalances.is_open
    assert say(channel, first) is not None
    assert not channel.rebalances.is_open and say(channel, second) is None


@pytest.mark.parametrize("second", ["join", "sync"])
def test_join_or_sync_may_follow_an_unanswered_heartbeat(channel, second):
    heartbeat = say(channel, "beat")
    assert say(channel, "beat") is None and say(channel, second) is not None
    assert heartbeat.target == channel.rebalances.in_flight.target == (1, MEMBERSHIP)


@pytest.mark.parametrize("what", ["join", "sync", "beat"])
def test_without_a_coordinator_no_request_is_sent(channel, coordinator, what):
    coordinator.node_id = None
    assert not channel.rebalances.is_open and say(channel, what) is None


def test_deadline_and_held_back_time_of_each_request(channel):
    join = say(channel, "join")
    assert (join.api, join.deadline, join.held_back) == (JoinGroupRequest, 165.0, 60.0)
    channel.rebalances.in_flight = None
    sync = say(channel, "sync")
    assert (sync.api, sync.deadline, sync.held_back) == (SyncGroupRequest, 130.0, 30.0)
    channel.rebalances.in_flight = None
    leader = channel.sync("pool", RebalanceAttempt("", 0.0, leads=True, plan={}), 100.0)
    assert leader.held_back == 0.0, "the coordinator does not hold back a leader's response"
    channel.rebalances.in_flight = None
    heartbeat = say(channel, "beat")
    assert (heartbeat.api, heartbeat.deadline, heartbeat.held_back) == (HeartbeatRequest, 110.0, 0.0)


def test_an_abandoned_request_is_not_written(channel):
    join = say(channel, "join")
    assert join.build(9).member_id == "m"
    channel.abandon_rebalance_request()
    assert channel.connections_to_drop == [join.target] and not channel.take(Answer(join, 1))
    with pytest.raises(IllegalStateError):
        join.build(9)
    channel.abandon_rebalance_request()
    assert channel.connections_to_drop == [join.target]


def test_a_message_carries_the_identity_at_the_time_of_writing(channel, coordinator):
    coordinator.identity = Identity("g")
    join = say(channel, "join")
    coordinator.identity = WHO
    assert join.build(9).member_id == "m"


def test_leave_group_uses_its_own_connection_while_a_join_is_unanswered(channel):
    channel.start_leave("done", 100.0)
    request = channel.leave_request(100.0)
    assert request.target == (1, MEMBERSHIP) and channel.take(Answer(request, 1))
    channel.leave_answered(100.0, again=False)
    assert channel.leave_attempt is None
    say(channel, "join")
    channel.start_leave("done", 100.0)
    channel.abandon_rebalance_request()
    assert channel.leave_request(100.0).target == (1, LEAVING_CONNECTION)


def test_a_retried_leave_group_does_not_follow_a_newer_join(channel):
    channel.start_leave("done", 100.0)
    assert channel.take(Answer(channel.leave_request(100.0), 1))
    channel.leave_answered(100.0, again=True)
    say(channel, "join", 101.0)
    assert channel.leave_request(101.0).target == (1, LEAVING_CONNECTION)


def test_leave_group_is_abandoned_at_its_deadline(channel, coordinator):
    coordinator.node_id = None
    channel.start_leave("done", 100.0)
    assert channel.leave_request(104.0) is None and channel.leave_attempt.wake_at() == 105.0
    assert channel.leave_request(105.0) is None and channel.leave_attempt is None


def test_pending_requests_are_watched_but_no_leave_group(channel, coordinator):
    """A LeaveGroup waits for a few seconds only, so other brokers are not asked meanwhile."""
    channel.start_leave("done", 100.0)
    channel.leave_request(100.0)
    assert [requests.in_flight for requests in coordinator.watched] == [None, None]
    heartbeat, join = say(channel, "beat", 101.0), say(channel, "join", 102.0)
    assert [(one.in_flight, one.sent_at) for one in coordinator.watched] == [(join, 102.0), (heartbeat, 101.0)]


def test_requests_to_a_former_coordinator_are_abandoned(channel, coordinator):
    heartbeat, join = say(channel, "beat"), say(channel, "join")
    coordinator.node_id = None
    assert not channel.abandon_if_moved(101.0) and channel.rebalances.in_flight is join, (
        "FindCoordinator may name the same node again"
    )
    coordinator.node_id = 2
    assert channel.abandon_if_moved(101.0)
    assert channel.connections_to_drop == [Target(1, MEMBERSHIP)]
    assert not channel.take(Answer(heartbeat, 1)) and not channel.take(Answer(join, 1))
    assert channel.rebalances.is_open


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
def test_responses_are_reported_to_the_coordinator(channel, coordinator, action, answered, told):
    answer = Answer(say(channel, "beat"), 1, 4, HeartbeatResponse() if answered else None)
    Coordinator.report(coordinator, action, KafkaConnectionError("x"), answer, 100.0)
    assert coordinator.told == ([] if told is None else [told])


def test_a_restart_forgets_requests_in_flight(channel):
    say(channel, "beat")
    join = say(channel, "join")
    channel.start_leave("done", 100.0)
    channel.leave_request(100.0)
    channel.connections_to_drop.append(join.target)
    channel.restart()
    assert channel.connections_to_drop == [] and not channel.take(Answer(join, 1)) and channel.rebalances.is_open
    assert say(channel, "beat") is not None and channel.leave_request(100.0) is not None
