"""Requests and responses are reported at the client's sockets once the client has read them, in any pieces."""

import struct
from collections import deque

import pytest

from thinconsumer.driver import Address, Dial, Hangup
from thinconsumer.support.agenda import Agenda
from thinconsumer.wire.groups import DescribeGroupsRequest
from thinconsumer.wire.header import encode_request
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer_testing.broker.wire.requests import encode_response
from thinconsumer_testing.simulation import Simulation
from thinconsumer_testing.simulation.client_tap import ClientTap
from thinconsumer_testing.simulation.driver import SimDriver

BEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


def framed(data):
    return struct.pack(">i", len(data)) + data


class FakeStream:
    """A stream with bytes to send, and a buffer."""

    def __init__(self):
        self.out = []
        self.got = b""
        self.ended = []
        self.made = 0
        self._room = bytearray(64)

    def connection_made(self, now):
        self.made += 1

    def get_buffer(self):
        return memoryview(self._room)

    def buffer_updated(self, size, now):
        self.got += bytes(self._room[:size])

    def connection_lost(self, error, now):
        self.ended.append(error)

    def data_to_send(self):
        return self.out

    def data_sent(self, size, now):
        self.out = [b"".join(self.out)[size:]]


@pytest.fixture
def heard():
    return []


@pytest.fixture
def tap(heard):
    stream = FakeStream()
    return ClientTap(
        stream,
        lambda sent, before: heard.append(("written", sent.message, [other.api_key for other in before])),
        lambda sent, response: heard.append(("read", sent.message, response)),
        lambda: heard.append("closed"),
    )


def say(tap, *messages, size=10_000):
    data = b"".join(framed(encode_request(message, 4, n, "me")) for n, message in enumerate(messages))
    tap.inner.out = [data[:7], data[7:]]
    while tap.data_to_send():
        tap.data_sent(min(size, len(tap.data_to_send()[0])), 0.0)
        tap.inner.out = [piece for piece in tap.inner.out if piece]


def hear(tap, data, size=64):
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        tap.get_buffer()[: len(piece)] = piece
        tap.buffer_updated(len(piece), 0.0)


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_requests_that_checkers_need_are_decoded_and_others_only_counted(tap, heard, size):
    say(tap, DescribeGroupsRequest(groups=[]), BEAT, size=size)
    assert heard == [("written", None, []), ("written", BEAT, [15])]


@pytest.mark.parametrize("size", [1, 5, 64])
def test_responses_match_requests_in_order(tap, heard, size):
    say(tap, DescribeGroupsRequest(groups=[]), BEAT)
    heard.clear()
    answer = HeartbeatResponse(error_code=27)
    data = framed(b"whatever that is") + framed(encode_response(answer, 4, 1)) + framed(b"nobody asked for this")
    hear(tap, data, size)
    assert heard == [("read", BEAT, answer)] and tap.inner.got == data


class FakeEndpoint:
    """Returns commands."""

    def __init__(self, *orders):
        self.agenda = Agenda()
        self.commands = deque(orders)

    def resolved(self, host, port, addresses, error, now):
        raise AssertionError


@pytest.fixture
def sim():
    return Simulation(seed=1, topics={"t": 1})


@pytest.fixture
def driver(sim, heard):
    return SimDriver(sim.world, sim.network, "ann", lambda *event: heard.append(event[:2]))


def step(driver, sim, endpoint, seconds=0.1):
    driver.step(endpoint, sim.now() + seconds)


ADDRESS = Address(2, ("10.0.0.1", 9092))


def test_a_driver_reports_responses_after_the_step_in_which_the_client_read_them(sim, driver, heard):
    sim.run_for(1)
    stream = FakeStream()
    step(driver, sim, FakeEndpoint(Dial(stream, "kafka1", ADDRESS)))
    assert stream.made == 1
    stream.out = [framed(encode_request(BEAT, 4, 1, "ann"))]
    taken = []
    stream.buffer_updated = lambda size, now: taken.append(list(heard))
    step(driver, sim, FakeEndpoint())
    assert taken == [[("connection_opened", 1), ("request_written", 1), ("response_received", 1)]]
    assert heard[3:] == [("response_read", 1)], "the client comes first"
    step(driver, sim, FakeEndpoint(Hangup(stream)))
    assert heard[4:] == [("connection_closed", 1)] and driver.streams == []
    step(driver, sim, FakeEndpoint(Hangup(FakeStream())))
    assert len(heard) == 5
