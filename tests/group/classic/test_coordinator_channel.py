"""What may be out at a time, on which connection, and when it is given up."""

from __future__ import annotations

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
    """The coordinator's keeper, as far as a line needs one."""

    def __init__(self):
        self.node_id = 1
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
    return CoordinatorChannel("member", options, keeper, random.Random(1))


def say(line, what, now=100.0):
    """Say one of the four things."""
    who = lambda: WHO  # noqa: E731
    attempt = RebalanceAttempt("why", now, protocols=[("a", b"")], protocol="a", plan={})
    if what == "join":
        return line.join(who, "pool", attempt, now)
    if what == "sync":
        return line.sync(who, "pool", attempt, now)
    return line.heartbeat(who, now)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(["join", "sync"], ["join", "sync", "beat"])))
def test_nothing_follows_a_join_or_a_sync(line, first, second):
    assert line.is_open
    assert say(line, first) is not None
    assert not line.is_open and say(line, second) is None


@pytest.mark.parametrize("second", ["join", "sync"])
def test_a_join_may_follow_a_heartbeat_which_is_answered_at_once(line, second):
    heartbeat = say(line, "beat")
    assert say(line, "beat") is None and say(line, second) is not None
    assert heartbeat.target == line.in_flight.target == (1, MEMBERSHIP)


@pytest.mark.parametrize("what", ["join", "sync", "beat"])
def test_without_a_coordinator_nothing_is_said(line, keeper, what):
    keeper.node_id = None
    assert not line.is_open and say(line, what) is None


def test_how_long_each_may_take(line):
    join = say(line, "join")
    assert (join.api, join.deadline, join.held_back) == (JoinGroupRequest, 165.0, 60.0)
    line.in_flight = None
    sync = say(line, "sync")
    assert (sync.api, sync.deadline, sync.held_back) == (SyncGroupRequest, 130.0, 30.0)
    line.in_flight = None
    leader = line.sync(lambda: WHO, "pool", RebalanceAttempt("", 0.0, leads=True, plan={}), 100.0)
    assert leader.held_back == 0.0, "it is the others who wait for a leader"
    line.in_flight = None
    heartbeat = say(line, "beat")
    assert (heartbeat.api, heartbeat.deadline, heartbeat.held_back) == (HeartbeatRequest, 110.0, 0.0)


def test_what_was_abandoned_before_it_was_written_is_not_written(line):
    join = say(line, "join")
    assert join.build(9).member_id == "m" and line.awaits(join)
    line.abandon_rebalance_request()
    assert line.connections_to_drop == [join.target] and not line.awaits(join)
    with pytest.raises(IllegalStateError):
        join.build(9)
    line.abandon_rebalance_request()
    assert line.connections_to_drop == [join.target]


def test_the_message_is_made_from_what_holds_when_it_is_written(line):
    who = [Identity("g")]
    join = line.join(lambda: who[0], "pool", RebalanceAttempt("why", 0.0, protocols=[("a", b"")]), 100.0)
    who[0] = WHO
    assert join.build(9).member_id == "m"


def test_a_goodbye_takes_another_connection_while_something_is_parked(line):
    line.start_leave(WHO, "done", 100.0)
    assert line.leave_request(100.0).target == (1, MEMBERSHIP)
    line.leave_answered(100.0, again=False)
    assert line.leave_attempt is None and line.leave_at() == NEVER
    say(line, "join")
    line.start_leave(WHO, "done", 100.0)
    line.abandon_rebalance_request()
    assert line.leave_request(100.0).target == (1, LEAVING_CONNECTION)


def test_a_goodbye_that_is_said_again_does_not_get_behind_a_join_of_since(line):
    line.start_leave(WHO, "done", 100.0)
    line.leave_request(100.0)
    line.leave_answered(100.0, again=True)
    say(line, "join", 101.0)
    assert line.leave_request(101.0).target == (1, LEAVING_CONNECTION)


def test_a_goodbye_that_takes_too_long_is_over(line, keeper):
    keeper.node_id = None
    line.start_leave(WHO, "done", 100.0)
    assert line.leave_request(104.0) is None and line.leave_at() == 105.0
    assert line.leave_request(105.0) is None and line.leave_attempt is None


def test_doubts_are_told_since_the_oldest_question(line, keeper):
    line.check_pending(100.0)
    say(line, "beat", 101.0)
    line.check_pending(101.0)
    say(line, "join", 102.0)
    line.check_pending(102.0)
    line.heartbeats.answered()
    line.check_pending(103.0)
    assert keeper.told == [("waiting", None), ("waiting", 101.0), ("waiting", 101.0), ("waiting", 102.0)]


def test_a_coordinator_that_has_moved_is_hung_up_on(line, keeper):
    heartbeat, join = say(line, "beat"), say(line, "join")
    keeper.node_id = None
    assert not line.check_pending(101.0) and line.in_flight is join, "it may turn out to be the same"
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
def test_what_an_answer_says_of_the_coordinator_is_told(line, keeper, action, answered, told):
    answer = Answer(say(line, "beat"), 1, 4, HeartbeatResponse() if answered else None)
    line.report(action, KafkaConnectionError("x"), answer, 100.0)
    assert keeper.told == ([] if told is None else [told])


def test_a_restart_forgets_what_is_out(line):
    say(line, "beat")
    join = say(line, "join")
    line.start_leave(WHO, "done", 100.0)
    line.leave_request(100.0)
    line.connections_to_drop.append(join.target)
    line.restart(100.0)
    assert line.connections_to_drop == [] and not line.awaits(join) and line.is_open
    assert say(line, "beat") is not None and line.leave_request(100.0) is not None
