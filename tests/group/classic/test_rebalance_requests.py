"""The requests that a member may have in flight to its coordinator, on which connection, and when it abandons them."""

import itertools
import random

import pytest

from thinconsumer.connection.request import Answer, Target
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.failures import Action
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.classic.rebalance_attempt import RebalanceAttempt
from thinconsumer.group.coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.wire.heartbeat import HeartbeatResponse

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


def test_a_message_carries_the_identity_at_the_time_of_writing(member):
    member.identity = Identity("g")
    join = say(member, "join")
    member.identity = WHO
    assert join.build(9).member_id == "m"


def test_a_retried_leave_group_does_not_follow_a_newer_join(member):
    member._start_leave("done", 100.0)
    request = member._leave_request(100.0)
    member.handle(Answer(request, 1, error=KafkaConnectionError("reset")), 100.0)
    say(member, "join", 101.0)
    assert member._leave_request(101.0).target == (1, LEAVING_CONNECTION)


def test_pending_requests_are_watched_but_no_leave_group(member, coordinator):
    """A LeaveGroup waits for a few seconds only, so other brokers are not asked meanwhile."""
    member._start_leave("done", 100.0)
    member._leave_request(100.0)
    assert [requests.in_flight for requests in coordinator.watched] == [None, None]
    heartbeat, join = say(member, "beat", 101.0), say(member, "join", 102.0)
    assert [(one.in_flight, one.sent_at) for one in coordinator.watched] == [(join, 102.0), (heartbeat, 101.0)]


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
