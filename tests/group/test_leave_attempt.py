"""LeaveGroup: sent once, retried if it was not processed, and ended at its deadline."""

import random
from functools import partial

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.connection.request import Target
from thinconsumer.errors import IllegalStateError
from thinconsumer.group.classic import requests
from thinconsumer.group.coordinator import MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.group.leave_attempt import LEAVE_TIMEOUT, LeaveAttempt
from thinconsumer.timers import NEVER
from thinconsumer.wire.leave_group import LeaveGroupRequest

WHO = Identity("g", 3, "m")
THERE = Target(1, MEMBERSHIP)


def attempt(options, now, **more):
    message = partial(requests.leave, WHO, "done")
    return LeaveAttempt(options, LeaveGroupRequest, message, MEMBERSHIP, now, random.Random(1), **more)


@pytest.fixture
def leave_attempt():
    return attempt(ConsumerConfig(group_id="g"), 100.0)


def test_leave_group_is_sent_once(leave_attempt):
    request = leave_attempt.step("member", THERE, 100.0)
    assert request.target == THERE and request.deadline == 100.0 + LEAVE_TIMEOUT
    assert request.build(5).members[0].member_id == "m"
    assert leave_attempt.step("member", THERE, 100.0) is None and leave_attempt.wake_at(THERE) == NEVER
    leave_attempt.answered(100.1, again=False)
    assert leave_attempt.is_over and leave_attempt.step("member", THERE, 101.0) is None
    with pytest.raises(IllegalStateError):
        request.build(5)


def test_it_waits_for_a_coordinator_until_its_deadline(leave_attempt):
    assert leave_attempt.step("member", None, 100.0) is None
    assert leave_attempt.wake_at(None) == 100.0 + LEAVE_TIMEOUT
    assert leave_attempt.wake_at(THERE) <= 100.0
    assert leave_attempt.step("member", None, 100.0 + LEAVE_TIMEOUT) is None
    assert leave_attempt.is_over and leave_attempt.wake_at(None) == NEVER


def test_an_unprocessed_request_is_retried_after_a_backoff(leave_attempt):
    leave_attempt.step("member", THERE, 100.0)
    leave_attempt.answered(100.0, again=True)
    assert not leave_attempt.is_over and leave_attempt.step("member", THERE, 100.0) is None
    due = leave_attempt.wake_at(THERE)
    assert 100.07 < due < 100.13
    assert leave_attempt.step("member", THERE, due) is not None
    leave_attempt.answered(100.0 + LEAVE_TIMEOUT, again=True)
    assert leave_attempt.is_over


def test_a_shorter_request_timeout_shortens_the_deadline():
    leave_attempt = attempt(ConsumerConfig(group_id="g", request_timeout_ms=1000), 0.0, min_version=3)
    request = leave_attempt.step("member", THERE, 0.0)
    assert request.deadline == 1.0 and request.min_version == 3
