"""A client's socket: queued responses are sent in order, and a close waits for them."""

import socket
from types import SimpleNamespace

import pytest

from thinconsumer_testing.broker.channel import UNSENT_MAX, Channel, ChannelRegistry


class Echo:
    """A connection that writes back what it receives."""

    def __init__(self, channel):
        schedule = SimpleNamespace(call_later=lambda *args: None)
        self.node = SimpleNamespace(schedule=schedule, cluster=SimpleNamespace(bugs=[]))
        self.is_muted = self.is_lost = False
        self.wants_input = True
        self.data_received = lambda data: channel.write(bytes(data))

    def process_frames(self):
        pass

    def connection_lost(self):
        self.is_lost = True


@pytest.fixture
def registry():
    made = ChannelRegistry()
    yield made
    made.close()


@pytest.fixture
def ends(registry):
    """The channel, and the client's socket."""
    client, server = socket.socketpair()
    client.settimeout(5.0)
    server.setblocking(False)
    channel = Channel(registry, server, "/client")
    channel.connection = Echo(channel)
    registry.channels.add(channel)
    channel.update_interest()
    yield channel, client
    client.close()


def pump(registry):
    for key, mask in registry.selector.select(0.02):
        key.data.on_ready(mask)
    registry.flush()


def test_responses_are_sent_by_the_next_flush(registry, ends):
    channel, client = ends
    client.send(b"one")
    pump(registry)
    assert client.recv(100) == b"one"
    channel.write(b"two")
    channel.write(b"three")
    assert registry.has_unflushed
    registry.flush()
    assert client.recv(100) == b"twothree"
    assert not registry.has_unflushed


def test_close_waits_for_unsent_responses(registry, ends):
    channel, client = ends
    channel.write(b"last")
    channel.close()
    client.send(b"ignored")
    registry.flush()
    assert client.recv(100) == b"last"
    assert registry.channels == set()


def test_client_that_does_not_read_mutes_its_connection(registry, ends):
    channel, client = ends
    channel.write(bytes(8 * UNSENT_MAX))
    assert channel.connection.is_muted
    registry.flush()
    left = 8 * UNSENT_MAX
    while left:
        left -= len(client.recv(left))
        pump(registry)
    assert not channel.connection.is_muted


def test_client_that_closes_is_lost(registry, ends):
    channel, client = ends
    client.close()
    pump(registry)
    assert channel.connection.is_lost
    assert registry.channels == set()


def test_exception_of_a_connection_resets_it(registry, ends):
    channel, client = ends
    aborted = []
    channel.connection.abort = lambda: aborted.append(1)
    channel.connection.data_received = lambda data: 1 // 0
    client.send(b"x")
    pump(registry)
    assert aborted
    assert "ZeroDivisionError" in channel.connection.node.cluster.bugs[0]
