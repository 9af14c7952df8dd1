"""Plain TCP as a transport, and the joining of small buffers that TLS and Windows need."""

import socket
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.sockets.transport import MAX_BUFFERS, MAX_JOINED_BYTES, PlainTransport, Transport, join


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    left.setblocking(False)
    with left, right:
        yield left, right


class WithoutSendmsg:
    def __init__(self, sock):
        self._sock = sock
        self.send = sock.send
        self.recv_into = sock.recv_into


def test_it_implements_the_transport_protocol(pair):
    transport: Transport = PlainTransport(pair[0])
    assert transport.handshake() is True
    assert transport.pending() is False


def test_receiving_no_bytes_some_bytes_and_the_end(pair):
    left, right = pair
    transport = PlainTransport(left)
    buffer = memoryview(bytearray(10))
    with pytest.raises(BlockingIOError):
        transport.recv_into(buffer)
    right.sendall(b"abc")
    assert transport.recv_into(buffer) == 3
    assert bytes(buffer[:3]) == b"abc"
    right.shutdown(socket.SHUT_WR)
    assert transport.recv_into(buffer) == 0


def test_one_write_gathers_no_more_buffers_than_the_system_takes(pair):
    left, right = pair
    transport = PlainTransport(left)
    assert transport.send([b"x"] * 5000) == MAX_BUFFERS
    assert right.recv(5000) == b"x" * MAX_BUFFERS


def test_without_sendmsg_small_buffers_are_joined(pair):
    left, right = pair
    transport = PlainTransport(WithoutSendmsg(left))
    assert transport.send([b"ab", memoryview(b"cd"), b"e"]) == 5
    assert right.recv(100) == b"abcde"
    assert transport.send([b"x" * 40_000] * 3) <= MAX_JOINED_BYTES


@pytest.mark.parametrize("wrap", [lambda sock: sock, WithoutSendmsg], ids=["sendmsg", "send"])
def test_a_full_socket_takes_no_bytes(pair, wrap):
    transport = PlainTransport(wrap(pair[0]))
    with suppress(BlockingIOError):
        while True:
            transport.send([bytes(65536)])
    with pytest.raises(BlockingIOError):
        transport.send([b"x"])


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_closing_frees_the_descriptor_and_may_be_repeated(pair, end):
    transport = PlainTransport(pair[0])
    getattr(transport, end)()
    getattr(transport, end)()
    assert pair[0].fileno() == -1


@settings(deadline=None, max_examples=200)
@given(chunks=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8), limit=st.integers(1, 100))
def test_joining_takes_from_the_front_up_to_the_limit(chunks, limit):
    whole = b"".join(chunks)
    assert bytes(join(chunks, limit)) == whole[:limit]
    assert bytes(join([memoryview(chunk) for chunk in chunks], limit)) == whole[:limit]


def test_joining_copies_neither_large_chunks_nor_a_single_one():
    large = bytes(100)
    assert join([large, b"x"], 50).obj is large
    assert join([large], 100) is large
