"""The requests that a member may have in flight to its coordinator, on which connection, and when it abandons them."""

import itertools
import random

import pytest

from thinconsumer.connection.request import Answer, Target
from thinconsumer.errors import IllegalStateError, KafkaConnectionError
from thinconsumer.failures import Action
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.classic.rebalance_attempt import RebalanceAttempt
from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupResponse
from thinconsumer.wire.sync_group import SyncGroupRequest

WHO = Identity("g", 3, "m")


class FakeCoordinator:
    """Record what the channel reports to ``Coordinator``."""

    def __init__(self):
        self.node_id = 1
        self.group_id = "g"
        self.watched = []
        self.told = []

    def target(self, channel):
        return None if self.node_id is None else Target(self.node_id, channel)

    def lost(self, node_id, why, now):
        self.told.append(("lost", node_id))

    def loading(self, now):
        self.told.append(("loading",))

    def report(self, action, error, answer, now):
        pass

    def answered(self, node_id):
        self.told.append(("answered", node_id))


@pytest.fixture
def coordinator():
    return FakeCoordinator()


@pytest.fixture
def member(coordinator, options):
    """A member in generation 3, which notes the connections that it drops."""
    member = ClassicMember(options, WHO, None, coordinator, random.Random(1))
    member.dropped = []
    member.drop_connection = member.dropped.append
    return member


def say(member, what, now=100.0):
    """Send a JoinGroup, SyncGroup or Heartbeat, if the member may send it."""
    attempt = RebalanceAttempt("why", now, protocols=[("a", b"")], protocol="a", plan={})
    if what == "join":
        return member._rebalances.join("pool", attempt, now)
    if what == "sync":
        return member._rebalances.sync("pool", attempt, now)
    return member._heartbeat(now)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(["join", "sync"], ["join", "sync", "beat"])))
def test_no_request_follows_an_unanswered_join_or_sync(member, first, second):
    assert member._rebalances.is_open
    assert say(member, first) is not None
    assert not member._rebalances.is_open and say(member, second) is None


@pytest.mark.parametrize("second", ["join", "sync"])
def test_join_or_sync_may_follow_an_unanswered_heartbeat(member, second):
    heartbeat = say(member, "beat")
    assert say(member, "beat") is None and say(member, second) is not None
    assert heartbeat.target == member._rebalances.in_flight.target == (1, MEMBERSHIP)


@pytest.mark.parametrize("what", ["join", "sync", "beat"])
def test_without_a_coordinator_no_request_is_sent(member, coordinator, what):
    coordinator.node_id = None
    assert not member._rebalances.is_open and say(member, what) is None


def test_deadline_and_held_back_time_of_each_request(member):
    join = say(member, "join")
    assert (join.api, join.deadline, join.max_wait) == (JoinGroupRequest, 165.0, 60.0)
    member._rebalances.in_flight = None
    sync = say(member, "sync")
    assert (sync.api, sync.deadline, sync.max_wait) == (SyncGroupRequest, 130.0, 30.0)
    member._rebalances.in_flight = None
    leader = member._rebalances.sync("pool", RebalanceAttempt("", 0.0, leads=True, plan={}), 100.0)
    assert leader.max_wait == 0.0, "the coordinator does not hold back a leader's response"
    member._rebalances.in_flight = None
    heartbeat = say(member, "beat")
    assert (heartbeat.api, heartbeat.deadline, heartbeat.max_wait) == (HeartbeatRequest, 110.0, 0.0)


def test_an_abandoned_request_is_not_written(member):
    member.state = ClassicMemberState.PREPARING_REBALANCE
    join = say(member, "join")
    assert join.build(9).member_id == "m"
    member.leave("done", 100.0)
    assert member.dropped == [join.target] and not member._rebalances.take(Answer(join, 1))
    with pytest.raises(IllegalStateError):
        join.build(9)


def test_a_message_carries_the_identity_at_the_time_of_writing(member):
    member.identity = Identity("g")
    join = say(member, "join")
    member.identity = WHO
    assert join.build(9).member_id == "m"


def test_leave_group_uses_its_own_connection_while_a_join_is_unanswered(member):
    member._start_leave("done", 100.0)
    request = member._leave_request(100.0)
    assert request.target == (1, MEMBERSHIP)
    member.handle(Answer(request, 1, 5, LeaveGroupResponse()), 100.0)
    assert member.has_sent_leave and member._leave_attempt is None
    say(member, "join")
    member._start_leave("done", 100.0)
    member._rebalances.in_flight = None
    assert member._leave_request(100.0).target == (1, LEAVING_CONNECTION)


def test_a_retried_leave_group_does_not_follow_a_newer_join(member):
    member._start_leave("done", 100.0)
    request = member._leave_request(100.0)
    member.handle(Answer(request, 1, error=KafkaConnectionError("reset")), 100.0)
    say(member, "join", 101.0)
    assert member._leave_request(101.0).target == (1, LEAVING_CONNECTION)


def test_leave_group_is_abandoned_at_its_deadline(member, coordinator):
    coordinator.node_id = None
    member._start_leave("done", 100.0)
    assert member._leave_request(104.0) is None and member.wake_at(104.0) == 105.0
    assert member._leave_request(105.0) is None and member._leave_attempt is None


def test_pending_requests_are_watched_but_no_leave_group(member, coordinator):
    """A LeaveGroup waits for a few seconds only, so other brokers are not asked meanwhile."""
    member._start_leave("done", 100.0)
    member._leave_request(100.0)
    assert [requests.in_flight for requests in coordinator.watched] == [None, None]
    heartbeat, join = say(member, "beat", 101.0), say(member, "join", 102.0)
    assert [(one.in_flight, one.sent_at) for one in coordinator.watched] == [(join, 102.0), (heartbeat, 101.0)]


def test_requests_to_a_former_coordinator_are_abandoned(member, coordinator):
    heartbeat, join = say(member, "beat"), say(member, "join")
    coordinator.node_id = None
    member._abandon_if_moved(101.0)
    assert member._rebalances.in_flight is join, "FindCoordinator may name the same node again"
    coordinator.node_id = 2
    member._abandon_if_moved(101.0)
    assert set(member.dropped) == {Target(1, MEMBERSHIP)}
    assert not member._heartbeats.take(Answer(heartbeat, 1)) and not member._rebalances.take(Answer(join, 1))
    assert member._rebalances.is_open


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
def test_responses_are_reported_to_the_coordinator(member, coordinator, action, answered, told):
    answer = Answer(say(member, "beat"), 1, 4, HeartbeatResponse() if answered else None)
    Coordinator.report(coordinator, action, KafkaConnectionError("x"), answer, 100.0)
    assert coordinator.told == ([] if told is None else [told])


def test_a_restart_forgets_requests_in_flight(member):
    say(member, "beat")
    join = say(member, "join")
    member._start_leave("done", 100.0)
    member._leave_request(100.0)
    member.restart(100.0)
    assert not member._rebalances.take(Answer(join, 1)) and member._rebalances.is_open
    assert say(member, "beat") is not None and member._leave_request(100.0) is not None
