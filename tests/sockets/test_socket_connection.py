"""One connection's life, told to its stream in the right order, whatever the peer does."""

import itertools
import random
import selectors
import socket
import struct
import time

import pytest

from thinconsumer.driver import Address, Dial
from thinconsumer.errors import IllegalStateError, KafkaConnectionError
from thinconsumer.sockets.socket_connection import (
    BYTES_PER_STEP,
    RECEIVES_PER_STEP,
    TRANSITIONS,
    SocketConnection,
    SocketState,
)
from thinconsumer.sockets.transport import PlainTransport

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST.


def close_with_reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    peer.close()


def fill_backlog(world):
    """Return a listener with a full queue of connections: the system drops the packets of another one."""
    listener = world.listen(backlog=0)
    for _ in range(3):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        world.sockets.append(filler)
    return listener


# The machine


@pytest.mark.parametrize(("old", "new"), list(itertools.product(SocketState, SocketState)))
def test_every_other_state_change_raises_and_names_both_states(old, new, make_stream):
    dial = Dial(make_stream(), "h", Address(2, ("127.0.0.1", 1)))
    connection = SocketConnection(None, dial, (), PlainTransport)
    connection.state = old
    if new in TRANSITIONS[old]:
        connection._move(new)
        assert connection.state is new
    else:
        with pytest.raises(IllegalStateError, match=f"{new.value}.*{old.value}"):
            connection._move(new)


def test_repr_names_addresses_and_states(make_stream):
    dial = Dial(make_stream(), "kafka-1", Address(2, ("10.0.0.1", 9092)))
    connection = SocketConnection(None, dial, (), PlainTransport)
    assert repr(connection) == "<SocketConnection kafka-1 10.0.0.1:9092 connecting fd=-1>"


# Connecting


def test_a_refused_connection_names_host_address_and_cause(world):
    listener = world.listen()
    address = world.address_of(listener)
    listener.close()
    stream = world.dial(address, host="broker.example")
    world.run(lambda: stream.lost)
    assert isinstance(stream.error, KafkaConnectionError)
    assert stream.error.host == "broker.example"
    assert stream.error.port == address.sockaddr[1]
    assert f"broker.example:{address.sockaddr[1]} (127.0.0.1:{address.sockaddr[1]}): " in str(stream.error)
    assert "refused" in str(stream.error)
    assert stream.calls == ["lost"]


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(Address(int(socket.AF_INET), ("127.0.0.1", 99999)), id="no such port"),
        pytest.param(Address(int(socket.AF_INET), ("127.0.0.1", -1)), id="negative port"),
        pytest.param(Address(int(socket.AF_INET), ("a..b", 1)), id="not an address"),
        pytest.param(Address(9999, ("127.0.0.1", 1)), id="no such family"),
    ],
)
def test_an_address_that_cannot_be_dialled_ends_the_stream_without_an_exception(world, count_fds, address):
    world.step()
    before = count_fds()
    stream = world.dial(address)
    world.step()
    assert isinstance(stream.error, KafkaConnectionError)
    assert count_fds() == before


def test_ipv6(world):
    try:
        listener = world.listen("::1")
    except OSError:
        pytest.skip("no IPv6 here")
    stream, peer = world.connect(listener)
    peer.sendall(b"six")
    world.run(lambda: stream.received == b"six")


def test_a_listener_that_never_accepts_causes_no_busy_loop(world, count_fds):
    """Its backlog is full, so the kernel repeats SYNs: there is nothing for us to do."""
    listener = fill_backlog(world)
    world.step()
    before = count_fds(), world.selector.returns
    stream = world.dial(listener)
    cpu = time.process_time()
    world.step(0.2)
    assert time.process_time() - cpu < 0.05
    assert world.selector.returns - before[1] == 1
    assert stream.calls == []
    world.hang_up(stream)
    world.step()
    assert count_fds() == before[0]
    assert stream.calls == []


def test_a_connection_to_itself_counts_as_refused(make_world):
    """Redialling a dead local port can meet its own simultaneous open, and then squats on the broker's port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    only_this_port = (socket.IPPROTO_IP, 51, struct.pack("I", port << 16 | port))  # IP_LOCAL_PORT_RANGE, Linux 6.3.
    world = make_world(socket_options=[only_this_port])
    stream = world.dial(Address(int(socket.AF_INET), ("127.0.0.1", port)))
    world.run(lambda: stream.calls)
    if "Protocol not available" in str(stream.error):
        pytest.skip("this kernel does not let a socket choose its port range")
    assert stream.calls == ["lost"]
    assert "refused" in str(stream.error)


def test_a_connection_to_itself_is_recognised():
    from thinconsumer.sockets.socket_connection import _is_connected_to_itself

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        assert not _is_connected_to_itself(sock)
        sock.connect(sock.getsockname())
        assert _is_connected_to_itself(sock)


def test_options_are_set_on_every_socket(make_world):
    seen = []

    def transport(sock, host):
        seen.append((sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), host))
        seen.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        seen.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
        return PlainTransport(sock, host)

    world = make_world(transport=transport, receive_buffer_bytes=50_000, send_buffer_bytes=30_000)
    world.connect()
    (no_delay, host), receive, send = seen
    assert no_delay != 0
    assert host == "localhost"
    assert receive in (50_000, 100_000)  # Linux doubles it.
    assert send in (30_000, 60_000)


@pytest.mark.parametrize("size", [None, -1])
def test_buffer_sizes_are_the_systems_own_by_default(make_world, size):
    seen = []

    def transport(sock, host):
        seen.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
        return PlainTransport(sock, host)

    make_world(transport=transport, send_buffer_bytes=size, receive_buffer_bytes=size).connect()
    make_world(transport=transport).connect()
    assert seen[0] == seen[1]


def test_an_option_the_system_refuses_fails_the_connection_only(make_world, count_fds):
    world = make_world(socket_options=[(socket.IPPROTO_TCP, 9999, 1)])
    world.step()
    before = count_fds()
    stream = world.dial(Address(int(socket.AF_INET), ("127.0.0.1", 1)))
    world.step()
    assert isinstance(stream.error, KafkaConnectionError)
    assert count_fds() == before


@pytest.mark.parametrize("error", [OSError("no luck"), ValueError("no such name")])
def test_a_transport_that_cannot_be_made_fails_the_connection_only(make_world, count_fds, error):
    def transport(sock, host):
        raise error

    world = make_world(transport=transport)
    listener = world.listen()
    world.step()
    before = count_fds()
    stream = world.dial(listener)
    world.run(lambda: stream.lost)
    assert str(error) in str(stream.error)
    assert stream.error.__cause__ is error
    assert count_fds() == before


# Receiving


def test_a_large_answer_arrives_whole(world, make_stream):
    stream, peer = world.connect(stream=make_stream(buffer_bytes=1_000_000))
    data = random.Random(1).randbytes(8_000_000)
    peer.setblocking(False)
    left = memoryview(data)
    while left:
        try:
            left = left[peer.send(left) :]
        except BlockingIOError:
            world.step(1)
    world.run(lambda: len(stream.received) == len(data))
    assert stream.received == data


def test_a_fast_peer_cannot_starve_other_connections(world, make_stream):
    """One step takes a bounded bite of each stream, and nothing that is left over is forgotten."""
    firehose, loud = world.connect(stream=make_stream(buffer_bytes=16))
    quiet, soft = world.connect()
    loud.sendall(bytes(100_000))
    soft.sendall(b"x")
    world.await_bytes(quiet, 1)
    world.await_bytes(firehose, 10_000)
    world.step()
    assert quiet.received == b"x"
    assert len(firehose.received) == RECEIVES_PER_STEP * 16
    world.run(lambda: len(firehose.received) == 100_000)


def test_bytes_received_per_step_are_bounded(make_world, make_stream):
    size = BYTES_PER_STEP // 4
    world = make_world(receive_buffer_bytes=4 * BYTES_PER_STEP)
    stream, peer = world.connect(stream=make_stream(buffer_bytes=size))
    peer.setblocking(False)
    for _ in range(5):
        try:
            while True:
                peer.send(bytes(65536))
        except BlockingIOError:
            pass
        already = len(stream.received)
        world.step(1)
        assert len(stream.received) - already <= BYTES_PER_STEP + size
    assert stream.received


def test_a_short_read_on_plain_tcp_is_not_followed_by_another(make_world):
    """It has emptied the socket, so asking again would be a system call for nothing, for every response."""
    looks = []

    class Counting(PlainTransport):
        def __init__(self, sock, host):
            super().__init__(sock)

            def receive(buffer):
                looks.append(sock.recv_into(buffer))
                return looks[-1]

            self.recv_into = receive

    world = make_world(transport=Counting)
    stream, peer = world.connect()
    looks.clear()
    peer.sendall(b"answer")
    world.run(lambda: stream.received)
    assert looks == [6]


def test_an_orderly_close_by_the_peer_is_no_error(world, count_fds):
    stream, peer = world.connect()
    before = count_fds()
    stream.on_call = lambda name: open_then.append(count_fds()) if name == "lost" else None
    open_then = []
    peer.sendall(b"bye")
    peer.shutdown(socket.SHUT_WR)
    world.run(lambda: stream.lost)
    assert stream.received == b"bye"
    assert stream.error is None
    assert open_then == [before - 1], "closed at once, before the stream hears of it"


def test_reset_in_the_middle_of_a_frame(world):
    stream, peer = world.connect()
    peer.sendall(b"\0\0\1\0half a fra")
    close_with_reset(peer)
    world.run(lambda: stream.lost)
    assert stream.received == b"\0\0\1\0half a fra"
    assert "reset" in str(stream.error)
    assert stream.calls == ["made", "received", "lost"]


@pytest.mark.parametrize("hangs_up", [False, True])
def test_bytes_sent_before_the_peer_closed_are_received_after_a_failed_send(world, hangs_up):
    """A broker sends an error (wrong password) and closes; the next request fails before the error is received."""
    stream, peer = world.connect()
    peer.sendall(b"SaslAuthenticate: error 58")
    close_with_reset(peer)
    world.await_reset(stream)
    stream.outgoing.append(b"next request")
    stream.on_call = lambda name: world.hang_up(stream) if hangs_up and name == "received" else None
    world.step()
    assert stream.received == b"SaslAuthenticate: error 58"
    assert stream.calls == (["made", "received"] if hangs_up else ["made", "received", "lost"])
    assert all(isinstance(error, KafkaConnectionError) for error in stream.lost)


# Sending


def test_the_driver_watches_for_writability_only_while_bytes_wait(world):
    stream, peer = world.connect()
    assert world.interest() == [selectors.EVENT_READ]
    stream.outgoing.append(b"small")
    world.step()
    assert world.interest() == [selectors.EVENT_READ]
    stream.outgoing.append(bytes(30_000_000))
    world.step()
    assert world.interest() == [selectors.EVENT_READ | selectors.EVENT_WRITE]

    peer.setblocking(False)
    got = 0
    while got < 30_000_005:
        try:
            got += len(peer.recv(1 << 20))
        except BlockingIOError:
            world.step(0.005)
    world.step()
    assert stream.sent == got
    assert world.interest() == [selectors.EVENT_READ]


def test_a_peer_that_never_reads_causes_no_busy_loop(world):
    stream, _ = world.connect()
    stream.outgoing.append(bytes(30_000_000))
    while (already := stream.sent) == 0 or world.selector.returns == 0:
        world.step()
    while already != stream.sent:
        already = stream.sent
        world.step(0.01)
    returns, cpu = world.selector.returns, time.process_time()
    world.step(0.2)
    assert stream.sent == already
    assert world.selector.returns == returns + 1
    assert time.process_time() - cpu < 0.05


def test_bytes_of_a_peer_that_never_reads_are_received(world):
    stream, peer = world.connect()
    stream.outgoing.append(bytes(30_000_000))
    world.settle()
    peer.sendall(b"throttle yourself")
    world.run(lambda: stream.received == b"throttle yourself")


@pytest.mark.parametrize("seed", range(3))
def test_many_chunks_of_any_size_arrive_in_order(world, seed):
    """More than fit into one gathered write, and partial writes in the middle of chunks."""
    rng = random.Random(seed)
    stream, peer = world.connect()
    chunks = [rng.randbytes(rng.choice([1, 7, 1000, 70_000])) for _ in range(500)]
    expected = b"".join(chunks)
    stream.outgoing.extend(chunks)
    peer.setblocking(False)
    got = bytearray()
    while len(got) < len(expected):
        world.step(0.001)
        try:
            got += peer.recv(100_000)
        except BlockingIOError:
            pass
    assert got == expected
    assert stream.sent == len(expected)


def test_a_stream_that_always_has_bytes_to_send_does_not_block_the_step(world):
    stream, _ = world.connect()
    stream.outgoing.append(b"x")
    stream.on_call = lambda name: stream.outgoing.append(b"x") if name == "sent" else None
    other, other_peer = world.connect()
    other_peer.sendall(b"heard")
    world.await_bytes(other, 5)
    world.step()
    assert other.received == b"heard"


def test_idle_connections_cause_no_work(world):
    """Forty connections, and no byte arrives."""
    listener = world.listen(backlog=64)
    streams = [world.dial(listener) for _ in range(40)]
    world.run(lambda: all(stream.made for stream in streams))
    for _ in streams:
        world.accept(listener)
    world.settle()
    returns, cpu = world.selector.returns, time.process_time()
    for _ in range(2):
        world.step(0.25)
    assert world.selector.returns - returns == 2
    assert time.process_time() - cpu < 0.02
