"""An endpoint with commands that a test sets, and streams that record their calls."""

from collections import deque

import pytest

from thinconsumer.driver import Address, Dial, Hangup
from thinconsumer.support.agenda import Agenda
from thinconsumer.testing import MemoryDriver, Network


class RecordingStream:
    """Takes every byte and notes every call."""

    def __init__(self, buffer_bytes=4096):
        self.calls = []
        self.received = bytearray()
        self.sizes = []
        self.lost = []
        self.outgoing = deque()
        self._buffer = memoryview(bytearray(buffer_bytes))

    def connection_made(self, now):
        self.calls.append(("made", now))

    def get_buffer(self):
        return self._buffer

    def buffer_updated(self, size, now):
        self.received += self._buffer[:size]
        self.sizes.append(size)
        self.calls.append(("received", now))

    def connection_lost(self, error, now):
        self.lost.append(error)
        self.calls.append(("lost", now))

    def data_to_send(self):
        return tuple(self.outgoing)

    def data_sent(self, size, now):
        while size:
            chunk = self.outgoing.popleft()
            if len(chunk) > size:
                self.outgoing.appendleft(chunk[size:])
                break
            size -= len(chunk)


class Orders:
    """An endpoint with commands that a test sets."""

    def __init__(self):
        self.agenda = Agenda()
        self.commands = deque()
        self.answers = []

    def resolved(self, host, port, addresses, error, now):
        self.answers.append((host, port, [str(address) for address in addresses], error))


class Stage:
    """A driver in memory, its network, and a bare endpoint."""

    def __init__(self, network=None, **options):
        self.network = network or Network(**options)
        self.driver = MemoryDriver(self.network)
        self.orders = Orders()
        self.began = self.driver.now()

    @property
    def passed(self):
        return self.driver.now() - self.began

    def dial(self, ip="10.0.0.1", port=9092, host="kafka"):
        stream = RecordingStream()
        self.orders.commands.append(Dial(stream, host, Address(2, (ip, port))))
        return stream

    def connect(self, *where):
        stream = self.dial(*where)
        self.run(0.01)
        assert stream.calls[0][0] == "made"
        return stream

    def hang_up(self, stream):
        self.orders.commands.append(Hangup(stream))

    def run(self, seconds):
        self.driver.run(self.orders, seconds)


@pytest.fixture
def make_stage():
    """Return the class of stages."""
    return Stage


@pytest.fixture
def stage():
    """A stage with the usual network."""
    return Stage()
