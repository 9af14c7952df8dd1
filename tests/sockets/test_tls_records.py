"""Several TLS records per receive, and what follows the last of them."""

import ssl

import pytest

from thinconsumer.sockets.socket_connection import BYTES_PER_STEP
from thinconsumer.sockets.tls import RECORD_BYTES, RECORDS_PER_RECEIVE, TlsTransport


class Records:
    """A TLS socket that returns one record per call, then raises an error or ends."""

    def __init__(self, *records):
        self.records = list(records)

    def recv_into(self, buffer):
        first = self.records.pop(0) if self.records else ssl.SSLWantReadError()
        if isinstance(first, Exception):
            raise first
        size = min(len(first), len(buffer))
        buffer[:size] = first[:size]
        if first[size:]:
            self.records.insert(0, first[size:])
        return size

    def pending(self):
        return 0


def receive(*records, room=4 * RECORD_BYTES):
    transport = TlsTransport(Records(*records))
    buffer = memoryview(bytearray(room))
    try:
        return transport, bytes(buffer[: transport.recv_into(buffer)])
    except BlockingIOError:
        return transport, None


def test_one_call_receives_several_records():
    transport, data = receive(b"a" * RECORD_BYTES, b"b" * 10)
    assert data == b"a" * RECORD_BYTES + b"b" * 10
    assert transport.short_read_ends, "nothing more waits: no further call is needed"
    assert not transport.pending()


def test_nothing_has_arrived():
    _, data = receive()
    assert data is None


def test_the_number_of_records_per_call_is_bounded():
    transport, data = receive(*[b"x"] * 100)
    assert len(data) == RECORDS_PER_RECEIVE
    assert not transport.short_read_ends


def test_no_record_is_begun_that_may_not_fit():
    """Its rest would wait inside OpenSSL, where receiving has no limit per step."""
    transport, data = receive(b"a" * 10, b"b", room=RECORD_BYTES)
    assert data == b"a" * 10
    assert not transport.short_read_ends


@pytest.mark.parametrize("ending", [ssl.SSLZeroReturnError(), ssl.SSLEOFError(), b""])
def test_bytes_before_the_end_are_received_before_it(ending):
    transport, data = receive(b"last words", ending)
    assert data == b"last words"
    assert not transport.short_read_ends
    assert transport.pending(), "no selector reports an end that was read already"
    assert transport.recv_into(memoryview(bytearray(9))) == 0


def test_bytes_before_an_error_are_received_before_it():
    alert = ssl.SSLError(1, "alert")
    transport, data = receive(b"last words", alert)
    assert data == b"last words"
    for _ in range(2):
        assert transport.pending()
        with pytest.raises(ssl.SSLError) as caught:
            transport.recv_into(memoryview(bytearray(9)))
        assert caught.value is alert


def test_bytes_before_a_wait_for_sending_are_received():
    transport, data = receive(b"data", ssl.SSLWantWriteError())
    assert data == b"data"
    assert transport.short_read_ends
    assert transport.read_needs != TlsTransport.read_needs


@pytest.mark.parametrize("buffer_bytes", [4096, 20_000, 1 << 20])
def test_a_peer_that_never_pauses_does_not_keep_others_waiting(make_world, make_stream, selector_class, buffer_bytes):
    """Each step ends, though OpenSSL always has another record, and the rest of one that did not fit."""

    class Endless(Records):
        rest = 0

        def __init__(self, sock):
            self.sock = sock

        def do_handshake(self):
            pass

        def recv_into(self, buffer):
            self.rest = self.rest or RECORD_BYTES
            size = min(self.rest, len(buffer))
            self.rest -= size
            return size

        def pending(self):
            return self.rest

        def unwrap(self):
            raise ssl.SSLWantReadError

        def close(self):
            self.sock.close()

    world = make_world(selector_class, transport=lambda sock, host: TlsTransport(Endless(sock)))
    stream = world.dial(world.listen(), make_stream(buffer_bytes))
    world.run(lambda: stream.received)
    assert len(stream.received) <= BYTES_PER_STEP + RECORDS_PER_RECEIVE * RECORD_BYTES
