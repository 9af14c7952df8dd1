"""LeaveGroup: sent once, retried if it was not processed, and ended at its deadline."""

import random
from functools import partial

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.connection.request import Answer, Target
from thinconsumer.errors import IllegalStateError
from thinconsumer.group.classic import requests
from thinconsumer.group.coordinator import MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.group.leave_attempt import LEAVE_TIMEOUT, LeaveAttempt
from thinconsumer.timers import NEVER
from thinconsumer.wire.leave_group import LeaveGroupRequest

WHO = Identity("g", 3, "m")
THERE = Target(1, MEMBERSHIP)


class FakeCoordinator:
    """A coordinator that a test makes known."""

    group_id, node_id = "g", None

    def target(self, channel):
        return None if self.node_id is None else Target(self.node_id, channel)


@pytest.fixture
def coordinator():
    return FakeCoordinator()


def attempt(coordinator, options, now, **more):
    message = partial(requests.leave, WHO, "done")
    source = random.Random(1)
    return LeaveAttempt("member", options, coordinator, source, MEMBERSHIP, LeaveGroupRequest, message, now, **more)


@pytest.fixture
def leave_attempt(coordinator):
    return attempt(coordinator, ConsumerConfig(group_id="g"), 100.0)


def test_leave_group_is_sent_once(coordinator, leave_attempt):
    coordinator.node_id = 1
    request = leave_attempt.step(100.0)
    assert request.target == THERE and request.deadline == 100.0 + LEAVE_TIMEOUT
    assert request.build(5).members[0].member_id == "m" and leave_attempt.is_written
    assert leave_attempt.step(100.0) is None and leave_attempt.wake_at() == NEVER
    assert leave_attempt.take(Answer(request, 1))
    leave_attempt.answered(100.1, again=False)
    assert leave_attempt.is_over and leave_attempt.step(101.0) is None
    with pytest.raises(IllegalStateError):
        request.build(5)


def test_it_waits_for_a_coordinator_until_its_deadline(coordinator, leave_attempt):
    assert leave_attempt.step(100.0) is None
    assert leave_attempt.wake_at() == 100.0 + LEAVE_TIMEOUT
    coordinator.node_id = 1
    assert leave_attempt.wake_at() <= 100.0
    coordinator.node_id = None
    assert leave_attempt.step(100.0 + LEAVE_TIMEOUT) is None
    assert leave_attempt.is_over and leave_attempt.wake_at() == NEVER


def test_an_unprocessed_request_is_retried_after_a_backoff(coordinator, leave_attempt):
    coordinator.node_id = 1
    leave_attempt.take(Answer(leave_attempt.step(100.0), 1))
    leave_attempt.answered(100.0, again=True)
    assert not leave_attempt.is_over and leave_attempt.step(100.0) is None
    due = leave_attempt.wake_at()
    assert 100.07 < due < 100.13
    assert leave_attempt.step(due) is not None
    leave_attempt.answered(100.0 + LEAVE_TIMEOUT, again=True)
    assert leave_attempt.is_over


def test_a_shorter_request_timeout_shortens_the_deadline(coordinator):
    coordinator.node_id = 1
    leave_attempt = attempt(coordinator, ConsumerConfig(group_id="g", request_timeout_ms=1000), 0.0, min_version=3)
    request = leave_attempt.step(0.0)
    assert request.deadline == 1.0 and request.min_version == 3
