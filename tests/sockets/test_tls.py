"""TLS through the transport seam: nothing in the driver knows about it, and no byte waits inside OpenSSL.

The peer is an ``ssl`` object without a socket, so that each test decides which bytes travel when.
"""

import random
import select
import selectors
import socket
import ssl
import struct
import time

import pytest

from thinconsumer.sockets.socket_connection import RECEIVES_PER_STEP
from thinconsumer.sockets.tls import RECORD_BYTES, tls_transport

READ = selectors.EVENT_READ
#: A TLS record with a fatal alert: bad_certificate.
BAD_CERTIFICATE = b"\x15\x03\x03\x00\x02\x02\x2a"


class TlsPeer:
    """A TLS server that sends its bytes only on the test's command."""

    def __init__(self, raw, context):
        raw.setblocking(False)
        self.raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.held = bytearray()
        self.shaken = False
        self.got_close_notify = False

    def take(self):
        """Take what has arrived on the wire, and go on with the handshake as far as it goes."""
        try:
            while data := self.raw.recv(1 << 16):
                self._incoming.write(data)
            self._incoming.write_eof()
        except (BlockingIOError, ConnectionResetError):
            pass
        try:
            if not self.shaken:
                self.tls.do_handshake()
                self.shaken = True
        except ssl.SSLError:
            pass  # More is needed, or it failed and an alert is to be sent.
        self._hold()

    def _hold(self):
        self.held += self._outgoing.read()

    def give(self, count=None):
        """Put the next bytes on the wire, all by default; return how many."""
        count = given = len(self.held) if count is None else count
        while count:
            try:
                sent = self.raw.send(self.held[:count])
            except (BrokenPipeError, ConnectionResetError):
                break
            del self.held[:sent]
            count -= sent
        return given

    def write(self, *records):
        for record in records:
            self.tls.write(record)
        self._hold()

    def read(self):
        """Return what the client sent, as far as it has arrived."""
        self.take()
        result = bytearray()
        try:
            while data := self.tls.read(1 << 16):
                result += data
            self.got_close_notify = True
        except ssl.SSLWantReadError:
            pass
        return bytes(result)

    def hear(self, count):
        """Return that many bytes of what the client sent, or what came before its close_notify."""
        result = self.read()
        while len(result) < count and not self.got_close_notify:
            assert select.select([self.raw], [], [], 10)[0], "the client sent nothing more"
            result += self.read()
        return result

    def send_close_notify(self):
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self._hold()


@pytest.fixture
def tls_world(make_world, selector_class, client_context):
    return make_world(selector_class, transport=tls_transport(lambda: client_context))


@pytest.fixture
def connect(tls_world, server_context):
    def connect(stream=None, context=server_context, host="localhost"):
        listener = tls_world.listen()
        stream = tls_world.dial(listener, stream, host)
        tls_world.step()
        peer = TlsPeer(tls_world.accept(listener), context)
        shake(tls_world, stream, peer)
        tls_world.settle()
        return stream, peer

    return connect


def shake(world, stream, peer):
    """Go on until the client has a result."""

    def going_on():
        peer.take()
        peer.give()
        return (stream.made and peer.shaken) or stream.lost

    world.run(going_on)


def deliver(world, peer, stream):
    """Put everything on the wire and wait until it is in the client's kernel."""
    world.await_bytes(stream, peer.give())


# Bytes


def test_bytes_inside_tls_do_not_wait_for_the_socket(tls_world, connect, make_stream):
    """One record fills the buffer many times: the socket is empty after the first read, the TLS object is not."""
    stream, peer = connect(make_stream(buffer_bytes=100))
    record = random.Random(1).randbytes(RECORD_BYTES)
    peer.write(record)
    deliver(tls_world, peer, stream)
    tls_world.step(1)
    assert len(stream.sizes) > RECEIVES_PER_STEP
    assert stream.received == record


def test_records_of_one_byte(tls_world, connect):
    stream, peer = connect()
    peer.write(*[bytes([n % 256]) for n in range(500)])
    deliver(tls_world, peer, stream)
    tls_world.settle()
    assert stream.received == bytes(n % 256 for n in range(500))
    assert len(stream.sizes) == 500


def test_records_of_16_kb_are_all_read(tls_world, connect, make_stream):
    """A read that ends with its record says nothing about the next one: no trip to the selector for each."""
    stream, peer = connect(make_stream(buffer_bytes=1_000_000))
    data = random.Random(2).randbytes(RECORD_BYTES * 4)
    peer.write(data)
    returns = tls_world.selector.returns
    deliver(tls_world, peer, stream)
    tls_world.step(1)
    assert stream.received == data
    assert tls_world.selector.returns == returns + 1


def test_a_record_that_arrives_byte_by_byte_causes_no_busy_loop(tls_world, connect):
    stream, peer = connect()
    peer.write(b"slow")
    returns, wire = tls_world.selector.returns, len(peer.held)
    for _ in range(wire - 1):
        peer.give(1)
        assert tls_world.step(1) is False
    assert stream.received == b""
    peer.give(1)
    assert tls_world.step(1) is True
    assert stream.received == b"slow"
    assert tls_world.selector.returns - returns == wire


def test_bytes_received_over_tls_per_step_are_bounded(tls_world, connect, make_stream):
    stream, peer = connect(make_stream(buffer_bytes=16))
    peer.write(*[b"x"] * (3 * RECEIVES_PER_STEP))
    deliver(tls_world, peer, stream)
    tls_world.step(1)
    assert len(stream.received) == RECEIVES_PER_STEP
    tls_world.settle()
    assert len(stream.received) == 3 * RECEIVES_PER_STEP


def test_bytes_that_come_with_the_last_handshake_message_are_read_at_once(tls_world, server_context):
    """They may be inside the TLS object already, where no selector sees them."""
    listener = tls_world.listen()
    stream = tls_world.dial(listener)
    tls_world.step()
    peer = TlsPeer(tls_world.accept(listener), server_context)
    tls_world.run(lambda: peer.take() or peer.held)
    peer.give()
    tls_world.run(lambda: stream.made)
    peer.take()
    assert peer.shaken
    peer.write(b"first words")
    deliver(tls_world, peer, stream)
    tls_world.step(1)
    assert stream.received == b"first words"


def test_a_large_upload_survives_partial_writes(make_world, selector_class, client_context, server_context):
    """OpenSSL wants an unfinished write repeated with the very same bytes, whatever was queued behind them since."""
    world = make_world(selector_class, transport=tls_transport(lambda: client_context), send_buffer_bytes=20_000)
    listener = world.listen()
    stream = world.dial(listener)
    world.step()
    peer = TlsPeer(world.accept(listener), server_context)
    shake(world, stream, peer)
    rng = random.Random(3)
    expected, got = bytearray(), bytearray()
    for _ in range(60):
        chunk = rng.randbytes(rng.choice([1, 100, 20_000, 70_000]))
        expected += chunk
        stream.outgoing.append(chunk)
        world.step()
        if rng.random() < 0.2:
            got += peer.read()

    def all_there():
        nonlocal got
        got += peer.read()
        return len(got) >= len(expected)

    world.run(all_there)
    world.settle()
    assert got == expected
    assert world.interest() == [READ]


def test_session_tickets_are_not_handed_over(tls_world, connect, authority):
    """The socket is readable without a byte for the stream: no call, and no busy loop."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 2
    authority.issue_cert("localhost").configure_cert(context)
    stream, peer = connect(context=context)
    peer.write(b"data")
    peer.give()
    tls_world.run(lambda: stream.received)
    assert stream.received == b"data"
    assert stream.calls == ["made", "received"]


# Ends


def test_close_notify_in_the_middle_of_a_frame(tls_world, connect):
    stream, peer = connect()
    peer.write(b"\0\0\1\0half a fra")
    peer.send_close_notify()
    peer.give()
    tls_world.run(lambda: stream.lost)
    assert stream.calls == ["made", "received", "lost"]
    assert stream.received == b"\0\0\1\0half a fra"
    assert stream.error is None


def test_an_end_without_close_notify_is_an_orderly_close(tls_world, connect):
    stream, peer = connect()
    peer.raw.close()
    tls_world.run(lambda: stream.lost)
    assert stream.error is None


def test_bytes_sent_before_the_peer_closed_are_received_after_a_failed_send(tls_world, connect):
    """A wrong password over SASL_SSL: the reason stands in the last record before the end."""
    stream, peer = connect()
    peer.write(b"error 58")
    deliver(tls_world, peer, stream)
    peer.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.raw.close()
    tls_world.await_reset(stream)
    stream.outgoing.append(b"next request")
    tls_world.step()
    assert stream.calls == ["made", "received", "lost"]
    assert stream.received == b"error 58"


def test_hanging_up_sends_close_notify(tls_world, connect):
    stream, peer = connect()
    tls_world.hang_up(stream)
    tls_world.step()
    assert peer.hear(1) == b""
    assert peer.got_close_notify
    assert stream.calls == ["made"]


def test_garbage_fails_that_connection_only(tls_world, connect):
    stream, peer = connect()
    other, other_peer = connect()
    peer.raw.send(b"\x17\x03\x03\x00\x20" + bytes(32))
    tls_world.run(lambda: stream.lost)
    assert "TLS error" in str(stream.error)
    other_peer.write(b"fine")
    other_peer.give()
    tls_world.run(lambda: other.received == b"fine")


# Handshakes


def test_a_slow_handshake_byte_by_byte(tls_world, server_context):
    listener = tls_world.listen()
    stream = tls_world.dial(listener)
    stream.outgoing.append(b"queued")
    tls_world.step()
    peer = TlsPeer(tls_world.accept(listener), server_context)
    tls_world.run(lambda: peer.take() or peer.held)
    while not stream.made:
        peer.give(1)
        tls_world.step(1)
    assert stream.calls[0] == "made"
    assert peer.hear(6) == b"queued"


def test_a_stalled_handshake_with_a_queued_request_causes_no_busy_loop(tls_world):
    listener = tls_world.listen()
    stream = tls_world.dial(listener)
    stream.outgoing.append(b"queued")
    tls_world.run(lambda: tls_world.interest() == [READ])
    returns, cpu = tls_world.selector.returns, time.process_time()
    tls_world.step(0.2)
    assert tls_world.selector.returns == returns + 1
    assert time.process_time() - cpu < 0.05
    assert stream.calls == []


@pytest.mark.parametrize("host", ["localhost", "localhost."])
def test_the_final_dot_of_a_host_name_is_not_compared_with_the_certificate(connect, host):
    stream, _ = connect(host=host)
    assert stream.made


def test_a_numeric_host_is_checked_as_an_address(tls_world, connect, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    stream, _ = connect(context=context, host="127.0.0.1")
    assert stream.made


# TLS 1.2: the server checks the client's certificate within the handshake


@pytest.fixture
def asked(tls_world, authority):
    """Return a stream, and a peer that holds its request for a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)
    listener = tls_world.listen()
    stream = tls_world.dial(listener)
    tls_world.step()
    peer = TlsPeer(tls_world.accept(listener), context)
    tls_world.run(lambda: peer.take() or peer.held)
    return stream, peer


def answer_without_certificate(world, stream, peer):
    peer.give()
    world.run(lambda: peer.take() or peer.held)
    assert not stream.lost


def reset(world, stream, peer):
    """Close the connection with a reset, and wait until the client's kernel has it."""
    peer.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.raw.close()
    world.await_reset(stream)


def test_an_alert_before_a_reset_is_the_error(tls_world, asked):
    stream, peer = asked
    answer_without_certificate(tls_world, stream, peer)
    peer.give()
    reset(tls_world, stream, peer)
    tls_world.step(1)
    assert stream.error.is_certificate_rejected
    assert "a missing client certificate (see ssl_certfile" in str(stream.error)


def test_an_alert_is_read_after_a_failed_send(tls_world, asked):
    """The connection is reset before the client answers: the send fails, and OpenSSL does not read the alert."""
    stream, peer = asked
    peer.give()
    peer.raw.send(BAD_CERTIFICATE)
    reset(tls_world, stream, peer)
    tls_world.step(1)
    assert stream.error.is_certificate_rejected
    assert "requires a client certificate, or rejects the one it received (see ssl_certfile" in str(stream.error)


@pytest.mark.parametrize("unread", [b"", b"\x17\x03\x03\x00\x02\x02\x2a", BAD_CERTIFICATE[:6]])
def test_a_failed_send_without_an_alert_is_a_reset(tls_world, asked, unread):
    stream, peer = asked
    peer.give()
    peer.raw.send(unread)
    reset(tls_world, stream, peer)
    tls_world.step(1)
    assert not stream.error.is_certificate_rejected
    assert "reset by the peer: perhaps it requires a client certificate" in str(stream.error)


@pytest.mark.parametrize("is_reset", [True, False])
def test_an_end_after_the_request_for_a_certificate_names_the_option(tls_world, asked, is_reset):
    """The server has answered in TLS, so that the text does not suggest a port without TLS."""
    stream, peer = asked
    answer_without_certificate(tls_world, stream, peer)
    if is_reset:
        reset(tls_world, stream, peer)
    else:
        peer.raw.close()
    tls_world.run(lambda: stream.lost)
    text = str(stream.error)
    assert ("connection reset" if is_reset else "closed the connection") in text
    assert "perhaps it requires a client certificate, or rejects the one it received (see ssl_certfile" in text
    assert "security_protocol" not in text
    assert not stream.error.is_handshake_cut and not stream.error.is_certificate_rejected


def test_tls_1_2_works(connect, tls_world, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert("localhost").configure_cert(context)
    stream, peer = connect(context=context)
    peer.write(b"old")
    peer.give()
    tls_world.run(lambda: stream.received == b"old")


def test_failed_and_ended_connections_leak_nothing(tls_world, server_context, count_fds):
    listener = tls_world.listen()
    tls_world.step()
    before = count_fds()
    for turn in range(60):
        stream = tls_world.dial(listener, host="localhost" if turn % 2 else "wrong.example")
        tls_world.step()
        raw, _ = listener.accept()
        peer = TlsPeer(raw, server_context)

        def going_on(peer=peer, stream=stream):
            peer.take()
            peer.give()
            return stream.made or stream.lost

        tls_world.run(going_on)
        raw.close()
        tls_world.run(lambda stream=stream: stream.lost)
        assert count_fds() == before
