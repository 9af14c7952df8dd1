"""When a heartbeat is due, and when a user is late: arithmetic."""

from __future__ import annotations

import random

import pytest

from thinconsumer.connection.request import ANY_NODE, Request
from thinconsumer.group.classic.heartbeat import Heartbeats, PollTimer
from thinconsumer.timers import NEVER
from thinconsumer.wire.heartbeat import HeartbeatRequest


@pytest.fixture
def beats(options):
    return Heartbeats(options, random.Random(1))


REQUEST = Request("x", HeartbeatRequest, ANY_NODE, lambda version: HeartbeatRequest(group_id="g"), 0.0)


def test_one_interval_after_the_last_one_was_sent_not_answered(beats):
    beats.sent(REQUEST, 100.0)
    assert beats.due_at() == NEVER and beats.sent_at == 100.0
    beats.answered()
    assert beats.due_at() == 103.0


def test_a_join_or_a_sync_begins_the_session_anew(beats):
    beats.sent(REQUEST, 100.0)
    beats.heard(101.0)
    assert beats.out is None and beats.due_at() == 104.0


def test_failures_back_off_up_to_the_longest(beats):
    now, waits = 100.0, []
    for _ in range(8):
        beats.sent(REQUEST, now)
        beats.failed(now)
        waits.append(beats.due_at() - now)
        now = beats.due_at()
    assert waits[0] < 0.13 and all(0.7 <= wait <= 1.0 for wait in waits[5:])
    beats.sent(REQUEST, now)
    beats.answered()
    assert beats.due_at() == now + 3.0


def test_a_refusal_is_no_reason_to_hurry(beats):
    beats.sent(REQUEST, 100.0)
    beats.failed(100.0, at_leisure=True)
    assert beats.due_at() == 103.0


def test_a_hurry_overtakes_the_backoff(beats):
    for _ in range(5):
        beats.failed(100.0)
    beats.hurry(100.2)
    assert beats.due_at() == 100.2
    beats.sent(REQUEST, 100.2)
    beats.hurry(100.3)
    assert beats.due_at() == NEVER, "one at a time"
    beats.answered()
    assert beats.due_at() == 100.3
    beats.sent(REQUEST, 100.3)
    beats.forget()
    assert beats.out is None


def test_nobody_waits_longer_for_an_answer_than_the_session_lasts(options):
    assert Heartbeats(options, random.Random(1)).timeout == 10.0
    options.request_timeout_ms = 4000
    assert Heartbeats(options, random.Random(1)).timeout == 4.0


def test_attendance_counts_from_call_to_call_and_poll_to_poll(options):
    attendance = PollTimer(options)
    assert attendance.overdue_at() == NEVER and attendance.away(5.0) == 0.0
    assert [attendance.attended(now) for now in (5.0, 5.0, 17.0)] == [0.0, 0.0, 12.0]
    attendance.polled(20.0)
    assert attendance.polled_at == 20.0 and attendance.overdue_at() == 80.0
    assert attendance.away(23.5) == 3.5
