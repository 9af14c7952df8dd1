"""Between two steps the system receives large responses by itself, and no byte goes unnoticed."""

import os
import select
import selectors
import socket
import sys
from contextlib import suppress

import pytest

from thinconsumer.sockets.socket_connection import LARGE_BYTES, LOW_WATER_MAX_BYTES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is done")

LARGE = 300_000


class Exchange:
    """A stream that asks, and a peer that answers."""

    def __init__(self, world, make_stream):
        self.world = world
        self.stream, self.peer = world.connect(stream=make_stream(buffer_bytes=65536))
        self.peer.setblocking(False)  # the test reads on the same thread: a full buffer must not block it

    def answer(self, size):
        wanted = len(self.stream.received) + size
        left = memoryview(bytes(size))

        def arrived():
            nonlocal left
            if left:  # in pieces: a system receives only part of it before the program reads
                with suppress(BlockingIOError):
                    left = left[self.peer.send(left) :]
            return len(self.stream.received) == wanted

        self.world.run(arrived)

    def ask(self):
        self.stream.outgoing.append(b"more")
        self.world.settle()

    def mark(self):
        """Return how many bytes make the socket readable."""
        with socket.socket(fileno=os.dup(self.world._fd_of(self.stream))) as copy:
            return copy.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


@pytest.fixture
def exchange(world, make_stream):
    """Return an exchange after a large answer, with the next one requested."""
    exchange = Exchange(world, make_stream)
    exchange.ask()
    exchange.answer(LARGE)
    exchange.ask()
    return exchange


def test_the_low_water_mark_is_the_size_of_the_last_response(exchange):
    assert exchange.mark() == LARGE
    exchange.answer(LARGE + 1000)
    assert exchange.mark() == LARGE, "it has sent nothing since"
    exchange.ask()
    assert exchange.mark() == LARGE + 1000


def test_the_low_water_mark_is_bounded(exchange):
    exchange.answer(LOW_WATER_MAX_BYTES + 1)
    exchange.ask()
    assert exchange.mark() <= LOW_WATER_MAX_BYTES


def test_small_responses_do_not_raise_the_low_water_mark(world, make_stream):
    exchange = Exchange(world, make_stream)
    exchange.ask()
    exchange.answer(LARGE_BYTES - 1)
    exchange.ask()
    assert exchange.mark() == 1


def test_a_small_response_is_received_although_the_mark_is_high(exchange):
    exchange.peer.sendall(b"x")
    exchange.world.step(5)
    assert len(exchange.stream.received) == LARGE + 1
    exchange.ask()
    assert exchange.mark() == 1, "nor is a large one to come"


def test_the_low_water_mark_is_reset_within_a_step(exchange):
    marks = []
    exchange.stream.on_call = lambda name: marks.append(exchange.mark())
    exchange.peer.sendall(b"x")
    exchange.world.step(5)
    assert marks == [1]


def test_the_low_water_mark_is_reset_after_an_interruption(exchange, monkeypatch):
    (connection,) = exchange.world.driver._connections.values()
    transport = type(connection._transport)
    set_low_water = transport.set_low_water

    def interrupted(transport, size):
        set_low_water(transport, size)
        if size > 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transport, "set_low_water", interrupted)
        with pytest.raises(KeyboardInterrupt):
            exchange.world.step()
    assert exchange.mark() == LARGE
    exchange.peer.sendall(b"x")
    exchange.world.step(5)
    assert len(exchange.stream.received) == LARGE + 1


def test_a_close_by_the_peer_is_noticed_although_the_mark_is_high(exchange):
    exchange.peer.close()
    exchange.world.run(lambda: exchange.stream.lost)


def test_the_low_water_mark_stays_low_once_fileno_was_called(make_world, make_stream):
    exchange = Exchange(make_world(selectors.EpollSelector), make_stream)
    exchange.ask()
    exchange.answer(LARGE)
    exchange.ask()
    descriptor = exchange.world.driver.fileno()
    assert exchange.mark() == 1
    exchange.answer(LARGE)
    exchange.ask()
    assert exchange.mark() == 1
    exchange.peer.sendall(b"x")
    assert select.select([descriptor], [], [], 5)[0]


def test_closing_a_connection_with_a_raised_mark_is_no_error(exchange):
    exchange.world.hang_up(exchange.stream)
    exchange.world.settle()
    exchange.world.driver.hang_up_all()
    exchange.world.settle()


def test_a_socket_that_rejects_the_option_is_no_error(exchange, monkeypatch):
    (connection,) = exchange.world.driver._connections.values()

    class Refusing:
        def setsockopt(self, *_):
            raise OSError("no")

    monkeypatch.setattr(connection._transport, "_sock", Refusing())
    connection._transport.set_low_water(5)
