"""Forwarding to the controller, reachable or not."""

from types import SimpleNamespace

import pytest

from thinconsumer.wire.create_topics import CreateTopicsRequest, CreateTopicsResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.forwarding import REQUEST_TIMEOUT_S, to_controller
from thinconsumer_testing.broker.schedule import Schedule

ANSWER = CreateTopicsResponse()


class ForwardingNode:
    """The part of a node that forwarding uses."""

    node_id = 1

    def __init__(self):
        self.schedule = Schedule()
        self.is_reachable = True
        self.cluster = SimpleNamespace(
            reachable=lambda one, other: self.is_reachable, controller=SimpleNamespace(authorizer="the controller's")
        )
        self.handled = 0
        self.answers = []
        self.call = ApiCall(self, CreateTopicsRequest(), 7, self.answers.append)
        self.call_later = self.schedule.call_later
        self.forward = to_controller(self._handle, lambda request, version, code: ("refused", code))

    def _handle(self, call):
        self.handled += 1
        return ANSWER


@pytest.fixture
def waiting():
    """A node with a request that waits for the controller."""
    node = ForwardingNode()
    node.is_reachable = False
    assert node.forward(node.call) is None
    return node


def test_request_is_handled_immediately_if_the_controller_is_reachable():
    node = ForwardingNode()
    assert node.forward(node.call) is ANSWER
    node.schedule.advance(100.0)
    assert (node.handled, node.answers) == (1, [])
    assert node.call.authorizer == "the controller's"


def test_request_waits_for_the_controller(waiting):
    waiting.schedule.advance(10.0)
    assert (waiting.handled, waiting.answers) == (0, [])
    waiting.is_reachable = True
    waiting.schedule.advance(11.0)
    assert (waiting.handled, waiting.answers) == (1, [ANSWER])


def test_request_times_out(waiting):
    waiting.schedule.advance(REQUEST_TIMEOUT_S - 1)
    assert waiting.answers == []
    waiting.schedule.advance(REQUEST_TIMEOUT_S + 1)
    assert waiting.answers == [("refused", Code.REQUEST_TIMED_OUT)]
    waiting.is_reachable = True
    waiting.schedule.advance(200.0)
    assert waiting.handled == 0


def test_disconnected_clients_request_is_dropped(waiting):
    waiting.call.cancel()
    waiting.is_reachable = True
    waiting.schedule.advance(200.0)
    assert (waiting.handled, waiting.answers) == (0, [])
