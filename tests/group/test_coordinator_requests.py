"""One request at a time to the coordinator: when it may be sent, and what a response, a move and a restart do to it."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import IllegalStateError
from thinconsumer.group.coordinator_requests import CoordinatorRequests
from thinconsumer.network.request import Answer, Target
from thinconsumer.support.agenda import Agenda
from thinconsumer.wire.heartbeat import HeartbeatRequest


class FakeCoordinator:
    """A coordinator that a test moves, or makes unknown or loading."""

    def __init__(self):
        self.group_id = "g"
        self.node_id = 1
        self.is_loading = False
        self.watched = []
        self.agenda = Agenda()
        self.ask_another_after = 3.0

    def target(self, channel):
        return None if self.node_id is None or self.is_loading else Target(self.node_id, channel)


@pytest.fixture
def coordinator():
    return FakeCoordinator()


@pytest.fixture
def requests(coordinator):
    return CoordinatorRequests(
        "member", ConsumerConfig(request_timeout_ms=5000), coordinator, random.Random(1), "group"
    )


def send(requests, now=100.0, **more):
    return requests.send(HeartbeatRequest, lambda version: HeartbeatRequest(group_id="g"), now, **more)


def unwritten(requests):
    return send(requests)


def written(requests):
    request = send(requests)
    request.build(4)
    return request


def abandoned(requests):
    request = send(requests)
    requests.in_flight = None
    return request


def answered(requests):
    request = written(requests)
    assert requests.take(Answer(request, 1))
    return request


def moved(requests):
    request = send(requests)
    requests._coordinator.node_id = 2
    assert requests.abandon_if_moved() is request
    requests._coordinator.node_id = 1
    return request


def restarted(requests):
    request = send(requests)
    requests.restart()
    return request


@pytest.mark.parametrize(
    ("bring", "is_open", "may_build"),
    [
        (unwritten, False, True),
        (written, False, True),
        (abandoned, True, False),
        (answered, True, False),
        (moved, True, False),
        (restarted, True, False),
    ],
)
def test_states_of_a_request(requests, bring, is_open, may_build):
    """In flight or over: only a request in flight is written and answered, and only without one another is sent."""
    request = bring(requests)
    assert requests.is_open is requests.may_send(100.0) is is_open
    if may_build:
        assert request.build(4).group_id == "g" and requests.is_written
    else:
        with pytest.raises(IllegalStateError, match="Heartbeat was abandoned"):
            request.build(4)
    if not is_open:
        with pytest.raises(IllegalStateError):
            send(requests)
    assert requests.take(Answer(request, 1)) is not is_open
    newer = send(requests)
    assert not requests.take(Answer(request, 1)) and requests.in_flight is newer


def test_each_request_has_its_deadline_and_connection(requests):
    request = send(requests)
    assert (request.asker, request.target, request.deadline) == ("member", Target(1, "group"), 105.0)
    assert (requests.sent_at, requests.is_written) == (100.0, False)
    assert requests.take(Answer(request, 1))
    again = send(requests, 101.0, deadline=102.0, context="c", min_version=2, max_version=lambda: 3, max_wait=1.0)
    assert (again.deadline, again.context, again.min_version, again.max_version(), again.max_wait) == (
        102.0, "c", 2, 3, 1.0,
    )  # fmt: skip


@pytest.mark.parametrize("state", ["unknown", "loading"])
def test_without_a_coordinator_to_send_to_nothing_is_sent_and_nothing_abandoned(requests, coordinator, state):
    request = send(requests)
    coordinator.node_id, coordinator.is_loading = (None, False) if state == "unknown" else (1, True)
    assert requests.abandon_if_moved() is None and requests.in_flight is request, "it may be the same node again"
    requests.take(Answer(request, 1))
    assert not requests.is_open
    with pytest.raises(IllegalStateError):
        send(requests)


def test_a_failure_delays_the_next_request_and_a_restart_ends_the_backoff(requests, coordinator):
    requests.take(Answer(send(requests), 1))
    requests.retry.failed(100.0)
    assert requests.is_open and not requests.may_send(100.0)
    due = coordinator.agenda.next()
    assert requests.may_send(due) and due > 100.0
    requests.restart()
    assert requests.may_send(100.0)


def test_only_watched_requests_are_told_to_the_coordinator(requests, coordinator):
    CoordinatorRequests("x", ConsumerConfig(), coordinator, random.Random(1), is_watched=False)
    assert coordinator.watched == [requests]
