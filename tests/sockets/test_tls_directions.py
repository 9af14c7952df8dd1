"""TLS calls that want the other direction: TLS 1.3 has no renegotiation, so OpenSSL is played here."""

import selectors
import socket
import ssl
import sys
from contextlib import suppress

import pytest

from thinconsumer.sockets.socket_connection import LARGE_BYTES
from thinconsumer.sockets.tls import TlsTransport
from thinconsumer.sockets.transport import PlainTransport, Transport

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class BusyTls:
    """A TLS socket that first waits for the other direction, as often as the test wants."""

    def __init__(self, sock):
        self.plain = PlainTransport(sock)
        self.waits = {"handshake": [], "recv": [], "send": []}
        self.offered = []

    def _wait(self, call):
        if self.waits[call]:
            raise self.waits[call].pop(0)

    def do_handshake(self):
        self._wait("handshake")

    def recv_into(self, buffer):
        self._wait("recv")
        try:
            return self.plain.recv_into(buffer)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None

    def send(self, data):
        self.offered.append(bytes(data))
        self._wait("send")
        try:
            return self.plain.send([data])
        except BlockingIOError:
            raise ssl.SSLWantWriteError from None

    def pending(self):
        return 0

    def setsockopt(self, level, option, value):
        self.plain._sock.setsockopt(level, option, value)

    def unwrap(self):
        raise ssl.SSLWantReadError

    def close(self):
        self.plain.close()


@pytest.fixture
def busy_world(make_world, selector_class):
    """Return a world, a stream, its peer and the TLS object between them."""
    made = []

    def transport(sock, host):
        made.append(BusyTls(sock))
        return TlsTransport(made[0])

    world = make_world(selector_class, transport=transport)
    stream, peer = world.connect()
    return world, stream, peer, made[0]


def test_want_write_while_reading(busy_world):
    """The peer waits for our bytes: waiting to read would be waiting for ever."""
    world, stream, peer, tls = busy_world
    tls.waits["recv"] = [ssl.SSLWantWriteError()]
    peer.sendall(b"answer")
    world.step(1)
    assert stream.received == b""
    assert world.interest() == [WRITE]
    world.step(1)
    assert stream.received == b"answer"
    assert world.interest() == [READ]


def test_want_write_while_reading_does_not_read_before_the_socket_is_writable(busy_world):
    world, stream, peer, tls = busy_world
    filler = tls.plain
    with suppress(BlockingIOError):
        while True:
            filler.send([bytes(65536)])
    tls.waits["recv"] = [ssl.SSLWantWriteError()]
    peer.sendall(b"answer")
    world.step(1)
    returns = world.selector.returns
    world.step(0.1)
    assert world.selector.returns == returns + 1, "it must wait, not spin"
    assert stream.received == b""
    peer.setblocking(False)
    while not stream.received:
        try:
            peer.recv(1 << 20)
        except BlockingIOError:
            pass
        world.step(0.01)
    assert stream.received == b"answer"


def test_want_read_while_writing(busy_world):
    """The socket is writable all the time: write interest would spin until the peer's bytes come."""
    world, stream, peer, tls = busy_world
    tls.waits["send"] = [ssl.SSLWantReadError() for _ in range(1000)]
    stream.outgoing.append(b"request")
    world.step()
    assert world.interest() == [READ]
    returns = world.selector.returns
    world.step(0.1)
    assert world.selector.returns == returns + 1, "it must wait, not spin"

    tls.waits["send"].clear()
    tls.offered.clear()
    stream.outgoing.append(b" and more")
    peer.sendall(b"key update")
    world.step(1)
    assert stream.received == b"key update"
    assert tls.offered == [b"request", b" and more"], "an unfinished write is repeated as it was"
    assert peer.recv(100) == b"request and more"
    assert world.interest() == [READ]


def test_handshake_bytes_wait_for_a_writable_socket(make_world, selector_class):
    made = []

    def transport(sock, host):
        made.append(BusyTls(sock))
        made[0].waits["handshake"] = [ssl.SSLWantWriteError(), ssl.SSLWantReadError(), ssl.SSLWantWriteError()]
        return TlsTransport(made[0])

    world = make_world(selector_class, transport=transport)
    listener = world.listen()
    stream = world.dial(listener)
    world.step(1)
    peer = world.accept(listener)
    assert world.interest() == [WRITE]
    world.step(1)
    assert world.interest() == [READ]
    returns = world.selector.returns
    world.step(0.05)
    assert world.selector.returns == returns + 1
    peer.sendall(b"server hello")
    world.step(1)
    assert world.interest() == [WRITE]
    assert stream.calls == []
    world.step(1)
    assert stream.calls == ["made", "received"]
    assert world.interest() == [READ]


def test_it_implements_the_transport_protocol():
    transport: Transport = TlsTransport(BusyTls(socket.socket()))
    transport.close()
    transport.abandon()


def test_small_chunks_share_a_record(busy_world):
    world, stream, _, tls = busy_world
    stream.outgoing.extend([b"size", b"header", b"body"])
    world.step()
    assert tls.offered == [b"sizeheaderbody"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is done")
def test_the_low_water_mark_is_set_on_the_tcp_socket(busy_world):
    world, stream, peer, tls = busy_world
    peer.sendall(bytes(LARGE_BYTES))
    world.run(lambda: len(stream.received) == LARGE_BYTES)
    stream.outgoing.append(b"more")
    world.settle()
    assert tls.plain._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == LARGE_BYTES
