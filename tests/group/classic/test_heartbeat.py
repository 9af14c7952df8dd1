"""When a heartbeat is due."""

import random

import pytest

from thinconsumer.connection.request import Answer, Target
from thinconsumer.group.classic.heartbeat import Heartbeats
from thinconsumer.wire.heartbeat import HeartbeatRequest


class FakeCoordinator:
    """A coordinator that stays the same."""

    def __init__(self):
        self.watched = []

    def target(self, channel):
        return Target(1, channel)


@pytest.fixture
def heartbeats(options):
    return Heartbeats("x", options, FakeCoordinator(), random.Random(1))


def beat(heartbeats, now):
    return Answer(heartbeats.beat(lambda version: HeartbeatRequest(group_id="g"), now, 0), 1)


def test_a_join_or_sync_restarts_the_interval(heartbeats):
    beat(heartbeats, 100.0)
    heartbeats.session_restarted(101.0)
    assert heartbeats.in_flight is None and heartbeats.due_at() == 104.0


def test_failed_heartbeats_back_off_up_to_the_maximum(heartbeats):
    now, waits = 100.0, []
    for _ in range(8):
        assert heartbeats.take(beat(heartbeats, now))
        heartbeats.failed(now)
        waits.append(heartbeats.due_at() - now)
        now = heartbeats.due_at()
    assert waits[0] < 0.13 and all(0.7 <= wait <= 1.0 for wait in waits[5:])
    assert heartbeats.take(beat(heartbeats, now))
    heartbeats.retry.succeeded()
    assert heartbeats.due_at() == now + 3.0


def test_a_restart_ends_the_backoff_and_abandons_the_heartbeat_in_flight(heartbeats):
    for _ in range(5):
        heartbeats.failed(100.0)
    assert heartbeats.due_at() > 100.2
    heartbeats.restart()
    assert heartbeats.due_at() <= 100.2
    beat(heartbeats, 100.2)
    heartbeats.restart()
    assert heartbeats.due_at() <= 100.3 and heartbeats.in_flight is None
