"""One step: carry out commands, send, wait, hand over; and the state after an interruption."""

import io
import math
import os
import selectors
import signal
import socket
import struct
import threading
from collections import deque
from contextlib import suppress

import pytest

from thinconsumer.driver import Address, Driver, Resolve
from thinconsumer.errors import IllegalStateError, KafkaConnectionError
from thinconsumer.sockets import SelectorDriver
from thinconsumer.sockets.selector_driver import COMMANDS_PER_STEP
from thinconsumer.support.agenda import Agenda


def test_it_implements_the_driver_protocol():
    driver: Driver = SelectorDriver()
    driver.close()


def test_constructing_opens_nothing(count_fds):
    before = count_fds()
    driver = SelectorDriver()
    assert count_fds() == before
    assert not driver.woken
    driver.wakeup()
    driver.check_process()
    assert count_fds() == before
    driver.close()


def test_no_thread_is_started(world):
    before = threading.active_count()
    stream, peer = world.connect()
    peer.sendall(b"x")
    world.run(lambda: stream.received)
    assert threading.active_count() == before


def test_bytes_queued_by_connection_made_are_sent_in_the_same_step(world):
    listener = world.listen()
    stream = world.dial(listener)
    stream.on_call = lambda name: stream.outgoing.append(b"hello") if name == "made" else None
    world.run(lambda: stream.made)
    assert stream.sent == 5


def test_bytes_queued_for_another_stream_are_sent_by_send(world):
    """A response read on one connection may be what another's next request waited for."""
    first, first_peer = world.connect()
    second, _ = world.connect()
    first.on_call = lambda name: second.outgoing.append(b"next") if name == "received" else None
    first_peer.sendall(b"x")
    world.run(lambda: first.received)
    world.driver.send(world.orders)
    assert second.sent == 4


def test_step_returns_after_the_first_batch(world):
    stream, peer = world.connect()
    peer.sendall(b"x")
    started = world.driver.now()
    assert world.step(60) is True
    assert stream.received == b"x"
    assert world.driver.now() - started < 30


def test_step_with_a_past_deadline_polls_io_without_waiting(world):
    stream, peer = world.connect()
    assert world.driver.step(world.orders, world.driver.now() - 100) is False
    assert world.driver.step(world.orders, -math.inf) is False
    peer.sendall(b"x")
    world.await_bytes(stream, 1)
    assert world.driver.step(world.orders, world.driver.now() - 100) is True
    assert stream.received == b"x"


def test_send_sends_and_neither_waits_nor_receives(world):
    stream, peer = world.connect()
    world.settle()
    peer.sendall(b"answer")
    world.await_bytes(stream, 6)
    stream.outgoing.append(b"request")
    waits = world.selector.returns
    world.driver.send(world.orders)
    assert peer.recv(7) == b"request"
    assert (stream.received, world.selector.returns) == (b"", waits)
    assert world.step(60) is True
    assert stream.received == b"answer"


def test_send_carries_out_commands(world):
    stream, peer = world.connect()
    world.hang_up(stream)
    world.driver.send(world.orders)
    assert peer.recv(1) == b""


def test_bytes_that_send_could_not_send_leave_later(world):
    stream, peer = world.connect()
    stream.outgoing.append(bytes(50_000_000))
    world.driver.send(world.orders)
    assert 0 < stream.sent < 50_000_000
    peer.setblocking(False)
    received = 0

    def is_all():
        nonlocal received
        with suppress(BlockingIOError):
            received += len(peer.recv(1 << 20))
        return received == 50_000_000

    world.run(is_all)


def test_a_failure_to_send_makes_the_next_step_report_news(world):
    stream, peer = world.connect()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    world.await_reset(stream)
    stream.outgoing.append(b"request")
    world.driver.send(world.orders)
    assert stream.error is not None


def in_parts(world, parts):
    """Connect a stream to a peer that sends each part after the one before was received."""
    stream, peer = world.connect()
    stream.message_bytes = sum(map(len, parts))
    rest = iter(parts)
    peer.sendall(next(rest))

    def received(name):
        part = next(rest, None)
        if name == "received" and part is not None:
            peer.sendall(part)

    stream.on_call = received
    return stream


def test_parts_of_a_message_do_not_end_a_step(world):
    stream = in_parts(world, [b"large"] * 20)
    assert world.step(60) is True
    assert stream.received == b"large" * 20
    assert len(stream.sizes) > 1


def test_a_step_that_receives_parts_ends_at_wake_at(world):
    """An engine has deadlines of its own, also while an endless answer trickles in."""
    stream = in_parts(world, [b"."] * 1_000_000)
    at = world.driver.now() + 0.05
    world.orders.agenda.alarm().set(at)
    assert world.step(60) is False
    assert stream.received
    assert world.driver.now() < at + 5


def test_a_step_with_a_past_deadline_ends_although_parts_arrive(world):
    stream = in_parts(world, [b"large", b"large"])
    world.await_bytes(stream, 1)
    assert world.step(-1) is False
    assert stream.received == b"large"


def test_wakeup_ends_a_step_although_parts_arrive(world):
    stream = in_parts(world, [b"large", b""])
    world.step()
    world.driver.wakeup()
    assert world.step(60) is False
    assert world.driver.woken
    assert stream.received == b"large"


def test_a_lost_connection_ends_a_step_that_received_only_parts(world):
    stream, peer = world.connect()
    stream.message_bytes = 100
    peer.sendall(b"large")
    peer.close()
    assert world.step(60) is True
    assert stream.error is None


def test_step_waits_until_the_deadline_and_not_longer(world):
    world.connect()
    started = world.driver.now()
    while world.driver.now() < started + 0.1:
        assert world.driver.step(world.orders, started + 0.1) is False
    assert 0.1 <= world.driver.now() - started < 2
    assert world.selector.returns < 10


def test_step_waits_no_longer_than_wake_at(world):
    at = world.driver.now() + 0.05
    world.orders.agenda.alarm().set(at)
    assert world.driver.step(world.orders, math.inf) is False
    assert world.driver.now() < at + 1


def test_waits_below_a_millisecond_cause_no_busy_loop(make_world, selector_class):
    """epoll and poll count in milliseconds: rounded down, each of these waits would be a poll."""
    world = make_world(selector_class)
    world.step()
    before = world.selector.returns
    end = world.driver.now() + 0.1
    while world.driver.now() < end:
        world.step(0.0009)
    assert world.selector.returns - before <= 112


def test_an_immediate_failure_reaches_the_stream_and_ends_the_wait(world):
    stream = world.dial(Address(int(socket.AF_INET), ("127.0.0.1", 70000)))
    assert world.driver.step(world.orders, math.inf) is True
    assert isinstance(stream.error, KafkaConnectionError)
    assert stream.error.host == "localhost"


def test_commands_are_carried_out_in_order(world, make_stream):
    """Hang up and dial again with the same stream: the new connection is the one that stays."""
    listener = world.listen()
    stream, old_peer = world.connect(listener)
    world.hang_up(stream)
    world.dial(listener, stream)
    world.run(lambda: stream.made == 2)
    new_peer = world.accept(listener)
    assert old_peer.recv(1) == b""
    new_peer.sendall(b"x")
    world.run(lambda: stream.received == b"x")
    assert stream.lost == []


def test_dialling_twice_without_hanging_up_is_an_error_and_leaks_nothing(world, count_fds):
    stream, _ = world.connect()
    before = count_fds()
    world.dial(world.listen(), stream)
    with pytest.raises(IllegalStateError, match="hang up before dialling"):
        world.step()
    assert count_fds() == before + 1  # The listener.


def test_hanging_up_an_unknown_stream_does_nothing(world, make_stream):
    world.hang_up(make_stream())
    assert world.step() is False


def test_hangup_closes_at_once_and_the_stream_gets_no_call(world, count_fds):
    stream, peer = world.connect()
    before = count_fds()
    peer.sendall(b"never heard")
    world.await_bytes(stream, 11)
    world.hang_up(stream)
    world.step()
    assert count_fds() == before - 1
    assert stream.calls == ["made"]


def test_a_stream_hung_up_within_a_batch_of_events_gets_no_call(world):
    """The stream that is read first hangs up the others, although their bytes are in the same batch of events."""
    listener = world.listen()
    pairs = [world.connect(listener) for _ in range(5)]
    streams = [stream for stream, _ in pairs]

    def hang_up_the_others(winner):
        for stream in streams:
            if stream is not winner:
                world.hang_up(stream)

    for stream in streams:
        stream.on_call = lambda name, stream=stream: hang_up_the_others(stream)
    for stream, peer in pairs:
        peer.sendall(b"x")
        world.await_bytes(stream, 1)
    world.step()
    world.settle()
    assert sorted(len(stream.received) for stream in streams) == [0, 0, 0, 0, 1]


def test_a_stream_that_hangs_itself_up_gets_no_further_bytes(world, make_stream):
    """A protocol error in the first bytes: what follows it in the socket is not handed over."""
    stream, peer = world.connect(stream=make_stream(buffer_bytes=1))
    stream.on_call = lambda name: world.hang_up(stream)
    peer.sendall(b"bad!")
    world.await_bytes(stream, 4)
    world.run(lambda: stream.received)
    world.settle()
    assert stream.received == b"b"
    assert stream.lost == []


def test_descriptors_reused_within_a_batch_keep_their_events_apart(world):
    """A connection dialled while a batch is handed over may get the number of one just closed."""
    listener = world.listen()
    first, first_peer = world.connect(listener)
    second, second_peer = world.connect(listener)
    fresh = []

    def replace(stream, other):
        if not fresh:
            world.hang_up(stream)
            world.hang_up(other)
            fresh.extend(world.dial(listener) for _ in range(2))

    first.on_call = lambda name: replace(first, second)
    second.on_call = lambda name: replace(second, first)
    for stream, peer in ((first, first_peer), (second, second_peer)):
        peer.sendall(b"x")
        world.await_bytes(stream, 1)
    world.run(lambda: fresh)
    world.run(lambda: all(stream.made for stream in fresh))
    for _ in fresh:
        world.accept(listener).sendall(b"y")
    world.run(lambda: all(stream.received == b"y" for stream in fresh))


def test_commands_without_end_do_not_block_a_step(world, make_stream):
    """An endpoint that redials at once whatever fails at once: a step must still end."""
    stream = make_stream()
    refused = Address(int(socket.AF_INET), ("127.0.0.1", 70000))

    def redial(name):
        stream.lost.clear()
        world.dial(refused, stream)

    stream.on_call = redial
    world.dial(refused, stream)
    world.step()
    assert len(stream.calls) == COMMANDS_PER_STEP
    stream.on_call = lambda name: None
    world.step()
    assert len(stream.calls) == COMMANDS_PER_STEP + 1


# Names


def test_at_most_one_blocking_lookup_per_step(make_world):
    """Looking up blocks, so three names must not add up within one call of poll."""
    asked = []

    def resolver(host, port):
        asked.append(host)
        return [Address(2, ("127.0.0.9", port))]

    world = make_world(resolver=resolver)
    world.orders.commands += [Resolve("a.example", 1), Resolve("b.example", 2), Resolve("c.example", 3)]
    for count in (1, 2, 3):
        assert world.driver.step(world.orders, math.inf) is True
        assert len(asked) == count == len(world.orders.answers)
    assert asked == ["a.example", "b.example", "c.example"]
    assert world.orders.answers[2] == ("c.example", 3, [Address(2, ("127.0.0.9", 3))], "")


def test_numeric_addresses_bypass_the_resolver(make_world):
    world = make_world(resolver=lambda host, port: pytest.fail("asked the resolver"))
    world.orders.commands += [Resolve("127.0.0.1", 9092), Resolve("10.1.2.3", 9093)]
    assert world.step() is True
    assert [answer[2] for answer in world.orders.answers] == [
        [Address(int(socket.AF_INET), ("127.0.0.1", 9092))],
        [Address(int(socket.AF_INET), ("10.1.2.3", 9093))],
    ]


def test_a_lookup_interrupted_by_ctrl_c_is_repeated(make_world):
    """Forgotten, the endpoint would wait for its answer for ever."""
    answers = iter([KeyboardInterrupt(), [Address(2, ("127.0.0.9", 1))]])

    def resolver(host, port):
        answer = next(answers)
        if isinstance(answer, KeyboardInterrupt):
            raise answer
        return answer

    world = make_world(resolver=resolver)
    world.orders.commands += [Resolve("a.example", 1)]
    with pytest.raises(KeyboardInterrupt):
        world.step()
    world.step()
    assert world.orders.answers == [("a.example", 1, [Address(2, ("127.0.0.9", 1))], "")]


# Interruptions


def test_ctrl_c_out_of_the_wait_leaves_everything_usable(world):
    stream, peer = world.connect()

    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            world.driver.step(world.orders, world.driver.now() + 60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    peer.sendall(b"still here")
    world.run(lambda: stream.received == b"still here")
    assert stream.lost == []


def test_a_signal_whose_handler_returns_does_not_shorten_the_wait(world):
    """PEP 475."""
    hits = []
    old = signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    world.step()
    before = world.selector.returns
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        started = world.driver.now()
        world.step(0.1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert hits == [1]
    assert world.selector.returns == before + 1
    assert world.driver.now() - started >= 0.099


def test_an_interruption_while_dialling_leaks_nothing(make_world, count_fds):
    world = make_world(transport=lambda sock, host: (_ for _ in ()).throw(KeyboardInterrupt()))
    listener = world.listen()
    world.step()
    before = count_fds()
    stream = world.dial(listener)
    with pytest.raises(KeyboardInterrupt):
        world.run(lambda: stream.made)
    world.driver.hang_up_all()
    assert count_fds() == before
    world.step()


# The descriptor for event loops


def test_fileno_turns_readable_with_io_and_quiet_when_it_is_done(make_world):
    world = make_world()
    stream, peer = world.connect()
    world.settle()
    with selectors.DefaultSelector() as loop:
        loop.register(world.driver.fileno(), selectors.EVENT_READ)
        assert loop.select(0) == []
        peer.sendall(b"x")
        assert loop.select(5)
        world.settle()
        assert stream.received == b"x"
        assert loop.select(0) == []
        world.driver.wakeup()
        assert loop.select(5)
        world.step()
        assert loop.select(0) == []


@pytest.mark.parametrize("name", ["PollSelector", "SelectSelector"])
def test_fileno_without_epoll_or_kqueue_is_unsupported(name):
    if not hasattr(selectors, name):
        pytest.skip(f"no {name} here")
    driver = SelectorDriver(selector=getattr(selectors, name))
    with pytest.raises(io.UnsupportedOperation, match=name):
        driver.fileno()
    driver.close()


# The end


def test_close_frees_all_descriptors_and_calls_no_stream(selector_class, make_world, count_fds):
    before = count_fds()
    world = make_world(selector_class)
    stream, _ = world.connect()
    dialling = world.dial(world.listen())
    world.step()
    calls = list(stream.calls), list(dialling.calls)
    world.close()
    assert count_fds() == before
    assert (stream.calls, dialling.calls) == calls
    world.driver.close()


def test_a_step_of_a_closed_driver_is_an_error(world):
    world.step()
    world.driver.close()
    with pytest.raises(IllegalStateError, match="closed"):
        world.step()
    world.driver.wakeup()
    assert world.driver.woken


def test_closing_an_unused_driver_does_nothing():
    driver = SelectorDriver()
    driver.close()
    driver.close()


def test_no_descriptor_for_the_selector_is_a_typed_error_and_passes(selector_class):
    """EMFILE while opening the selector; the same driver works once there is room."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = os.dup(0)
    os.close(used)
    driver = SelectorDriver(selector=selector_class)
    nothing = {"agenda": Agenda(), "commands": deque(), "unsent": ()}
    orders = type("Nothing", (), nothing)()
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    try:
        with pytest.raises(KafkaConnectionError, match="too many files open"):
            driver.step(orders, 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    driver.step(orders, 0.0)
    driver.close()
