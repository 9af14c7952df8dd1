"""When a heartbeat is due."""

import random

import pytest

from thinconsumer.connection.request import ANY_NODE, Request
from thinconsumer.group.classic.heartbeat import Heartbeats
from thinconsumer.wire.heartbeat import HeartbeatRequest


@pytest.fixture
def heartbeats(options):
    return Heartbeats(options, random.Random(1))


REQUEST = Request("x", HeartbeatRequest, ANY_NODE, lambda version: HeartbeatRequest(group_id="g"), 0.0)


def test_a_join_or_sync_restarts_the_interval(heartbeats):
    heartbeats.sent(REQUEST, 100.0)
    heartbeats.session_restarted(101.0)
    assert heartbeats.in_flight is None and heartbeats.due_at() == 104.0


def test_failed_heartbeats_back_off_up_to_the_maximum(heartbeats):
    now, waits = 100.0, []
    for _ in range(8):
        heartbeats.sent(REQUEST, now)
        heartbeats.failed(now)
        waits.append(heartbeats.due_at() - now)
        now = heartbeats.due_at()
    assert waits[0] < 0.13 and all(0.7 <= wait <= 1.0 for wait in waits[5:])
    heartbeats.sent(REQUEST, now)
    heartbeats.answered()
    assert heartbeats.due_at() == now + 3.0


def test_a_restart_ends_the_backoff_and_abandons_the_heartbeat_in_flight(heartbeats):
    for _ in range(5):
        heartbeats.failed(100.0)
    heartbeats.restart(100.2)
    assert heartbeats.due_at() == 100.2
    heartbeats.sent(REQUEST, 100.2)
    heartbeats.restart(100.3)
    assert heartbeats.due_at() == 100.3 and heartbeats.in_flight is None
