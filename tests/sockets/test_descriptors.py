"""No descriptor is leaked, and none is too high."""

import gc
import os
import selectors
import socket
import struct
import warnings
from contextlib import contextmanager

import pytest

from thinconsumer.errors import KafkaConnectionError
from thinconsumer.sockets.socket_selector import SELECT_LIMIT

pytestmark = pytest.mark.once

resource = pytest.importorskip("resource")


@contextmanager
def nothing_leaks(count_fds):
    """Fail when descriptors, uncollectable objects or unclosed sockets are left behind."""
    gc.collect()
    before = count_fds()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert count_fds() == before
    assert [str(w.message) for w in caught if issubclass(w.category, ResourceWarning)] == []
    assert gc.garbage == []


@contextmanager
def many_open_files(count):
    """Hold that many more descriptors, so that the next ones have high numbers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < count + 200:
        pytest.skip("this system does not allow that many open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
    held = []
    try:
        while len(held) < count:
            held.append(os.dup(0))
        yield held
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_drivers_opened_and_closed(make_world, selector_class, count_fds):
    listener = make_world().listen()
    with nothing_leaks(count_fds):
        for _ in range(1000):
            world = make_world(selector_class)
            stream = world.dial(listener)
            world.run(lambda stream=stream: stream.made)
            peer = listener.accept()[0]
            world.close()
            peer.close()


def test_a_thousand_forced_reconnects(world, count_fds):
    """By turns the peer closes, the peer resets, and we hang up."""
    listener = world.listen()
    world.step()
    highest = 0
    with nothing_leaks(count_fds):
        start = count_fds()
        for turn in range(1000):
            stream = world.dial(listener)
            world.run(lambda stream=stream: stream.made)
            peer = listener.accept()[0]
            if turn % 3 == 0:
                peer.close()
            elif turn % 3 == 1:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
            else:
                world.hang_up(stream)
                world.step()
                peer.close()
                continue
            world.run(lambda stream=stream: stream.lost)
            highest = max(highest, count_fds() - start)
    assert highest <= 1


def test_a_thousand_refused_connections_leak_no_descriptor(world, count_fds):
    listener = world.listen()
    address = world.address_of(listener)
    world.step()
    listener.close()
    with nothing_leaks(count_fds):
        for _ in range(1000):
            stream = world.dial(address)
            world.run(lambda stream=stream: stream.lost)


def test_descriptors_above_the_limit_of_select_work(make_world, selector_class):
    if issubclass(selector_class, selectors.SelectSelector):
        pytest.skip("select() has the limit; see below")
    with many_open_files(SELECT_LIMIT + 76):
        world = make_world(selector_class)
        stream, peer = world.connect()
        assert peer.fileno() > SELECT_LIMIT
        assert min(world.driver.sockets._masks) > SELECT_LIMIT
        peer.sendall(b"high")
        world.run(lambda: stream.received == b"high")
        world.driver.wakeup()
        world.step(60)
        world.close()


def test_select_above_its_limit_fails_that_connection_only(make_world):
    world = make_world(selectors.SelectSelector)
    low, low_peer = world.connect()
    listener = world.listen()
    with many_open_files(SELECT_LIMIT):
        high = world.dial(listener)
        world.run(lambda: high.lost)
        assert isinstance(high.error, KafkaConnectionError)
        assert f"limit is {SELECT_LIMIT}" in str(high.error)
        low_peer.sendall(b"fine")
        world.run(lambda: low.received == b"fine")
        world.close()


def test_select_takes_the_last_descriptor_below_its_limit(make_world):
    """One below the limit works, the limit itself does not."""
    world = make_world(selectors.SelectSelector)
    listener = world.listen()
    world.step()
    with many_open_files(SELECT_LIMIT) as held:
        os.close(SELECT_LIMIT - 1)
        held.remove(SELECT_LIMIT - 1)
        last = world.dial(listener)
        world.run(lambda: last.made)
        assert SELECT_LIMIT - 1 in world.selector.get_map()
        os.close(held.pop(held.index(SELECT_LIMIT)))
        over = world.dial(listener)
        world.run(lambda: over.lost)
        assert f"descriptor {SELECT_LIMIT}" in str(over.error)
        world.close()


def test_select_without_a_descriptor_for_the_wake_up_socket_is_an_error(make_world, count_fds):
    world = make_world(selectors.SelectSelector)
    with many_open_files(SELECT_LIMIT):
        before = count_fds()
        with pytest.raises(KafkaConnectionError, match=f"limit is {SELECT_LIMIT}"):
            world.step()
        assert count_fds() == before
    world.close()


def test_connections_beyond_the_limit_of_open_files_name_that_limit(world, count_fds):
    listener = world.listen()
    world.step()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        stream = world.dial(listener)
        world.step()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "too many files open" in str(stream.error)
    again = world.dial(listener)
    world.run(lambda: again.made)
