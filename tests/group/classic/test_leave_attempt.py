"""Saying goodbye: once, again when nobody heard it, and not for ever."""

from __future__ import annotations

import random

import pytest

from thinconsumer.connection.request import Target
from thinconsumer.errors import IllegalStateError
from thinconsumer.group.classic.leave_attempt import PATIENCE, LeaveGroupAttempt
from thinconsumer.group.coordinator import MEMBERSHIP
from thinconsumer.group.identity import Identity
from thinconsumer.timers import NEVER

WHO = Identity("g", 3, "m")
THERE = Target(1, MEMBERSHIP)


@pytest.fixture
def farewell(options):
    return LeaveGroupAttempt(options, WHO, "done", MEMBERSHIP, 100.0, random.Random(1))


def test_it_is_said_once(farewell):
    request = farewell.step("member", THERE, 100.0)
    assert request.target == THERE and request.deadline == 100.0 + PATIENCE
    assert request.build(5).members[0].member_id == "m"
    assert farewell.step("member", THERE, 100.0) is None and farewell.wake_at(THERE) == NEVER
    farewell.answered(100.1, again=False)
    assert farewell.over and farewell.step("member", THERE, 101.0) is None
    with pytest.raises(IllegalStateError):
        request.build(5)


def test_it_waits_for_a_coordinator_but_not_for_ever(farewell):
    assert farewell.step("member", None, 100.0) is None
    assert farewell.wake_at(None) == 100.0 + PATIENCE
    assert farewell.wake_at(THERE) <= 100.0
    assert farewell.step("member", None, 100.0 + PATIENCE) is None
    assert farewell.over and farewell.wake_at(None) == NEVER


def test_what_nobody_heard_is_said_again_after_a_pause(farewell):
    farewell.step("member", THERE, 100.0)
    farewell.answered(100.0, again=True)
    assert not farewell.over and farewell.step("member", THERE, 100.0) is None
    due = farewell.wake_at(THERE)
    assert 100.07 < due < 100.13
    assert farewell.step("member", THERE, due) is not None
    farewell.answered(100.0 + PATIENCE, again=True)
    assert farewell.over


def test_what_was_lost_with_its_connection_is_said_again(farewell):
    farewell.step("member", THERE, 100.0)
    farewell.restart()
    assert farewell.step("member", THERE, 100.0) is not None


def test_a_short_request_timeout_makes_it_shorter(options):
    options.request_timeout_ms = 1000
    farewell = LeaveGroupAttempt(options, WHO._replace(group_instance_id="i"), "", MEMBERSHIP, 0.0, random.Random(1))
    request = farewell.step("member", THERE, 0.0)
    assert request.deadline == 1.0 and request.min_version == 3
