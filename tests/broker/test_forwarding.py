"""Forwarding to the controller, reachable or not."""

from types import SimpleNamespace

from thinconsumer.broker.call import ApiCall
from thinconsumer.broker.forwarding import REQUEST_TIMEOUT_S, to_controller
from thinconsumer.broker.schedule import Schedule
from thinconsumer.wire.create_topics import CreateTopicsRequest, CreateTopicsResponse
from thinconsumer.wire.error_codes import Code

ANSWER = CreateTopicsResponse()


class ForwardingNode:
    """The part of a node that forwarding uses."""

    node_id = 1

    def __init__(self):
        self.schedule = Schedule()
        self.is_reachable = True
        self.cluster = SimpleNamespace(reachable=lambda one, other: self.is_reachable)
        self.handled = 0
        self.answers = []
        self.call = ApiCall(self, CreateTopicsRequest(), 7, self.answers.append)
        self.forward = to_controller(self._handle, lambda request, version, code: ("refused", code))

    def call_later(self, seconds, callback):
        return self.schedule.call_later(seconds, callback)

    def _handle(self, call):
        self.handled += 1
        return ANSWER


def test_request_is_handled_immediately_if_the_controller_is_reachable():
    host = ForwardingNode()
    assert host.forward(host.call) is ANSWER
    host.schedule.advance(100.0)
    assert (host.handled, host.answers) == (1, [])


def test_request_waits_for_the_controller():
    host = ForwardingNode()
    host.is_reachable = False
    assert host.forward(host.call) is None
    host.schedule.advance(10.0)
    assert (host.handled, host.answers) == (0, [])
    host.is_reachable = True
    host.schedule.advance(11.0)
    assert (host.handled, host.answers) == (1, [ANSWER])


def test_request_times_out():
    host = ForwardingNode()
    host.is_reachable = False
    host.forward(host.call)
    host.schedule.advance(REQUEST_TIMEOUT_S - 1)
    assert host.answers == []
    host.schedule.advance(REQUEST_TIMEOUT_S + 1)
    assert host.answers == [("refused", Code.REQUEST_TIMED_OUT)]
    host.is_reachable = True
    host.schedule.advance(200.0)
    assert host.handled == 0


def test_disconnected_clients_request_is_dropped():
    host = ForwardingNode()
    host.is_reachable = False
    host.forward(host.call)
    host.call.cancel()
    host.is_reachable = True
    host.schedule.advance(200.0)
    assert (host.handled, host.answers) == (0, [])
