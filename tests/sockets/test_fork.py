"""A forked child may not use the connections of its parent, nor harm them by closing."""

import os
import sys
import traceback

import pytest

from thinconsumer.errors import ConcurrentAccessError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(work):
    """Run work in a forked child; fail with its traceback."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001  # The parent reports it.
            os.write(writer, traceback.format_exc().encode()[-4000:])
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as words:
        said = words.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, said


def test_a_connected_driver_refuses_to_work_in_a_child(world):
    world.connect()

    def child():
        for use in (world.driver.check_process, world.step):
            with pytest.raises(ConcurrentAccessError, match="fork"):
                use()
        if hasattr(world.selector, "fileno"):
            with pytest.raises(ConcurrentAccessError):
                world.driver.fileno()

    in_child(child)
    world.driver.check_process()


def test_an_unconnected_driver_works_in_a_child(world):
    listener = world.listen()
    world.driver.wakeup()

    def child():
        assert world.driver.woken
        world.driver.check_process()
        stream, peer = world.connect(listener)
        peer.sendall(b"child")
        world.run(lambda: stream.received == b"child")
        world.driver.close()

    in_child(child)
    stream, peer = world.connect(listener)
    peer.sendall(b"parent")
    world.run(lambda: stream.received == b"parent")


def test_closing_in_a_child_does_not_harm_the_parent(world):
    """An epoll set is shared with the child: unregistering there would deafen the parent."""
    stream, peer = world.connect()
    waiting = world.dial(world.listen())
    world.run(lambda: waiting.made)
    in_child(world.driver.close)
    peer.sendall(b"still")
    world.run(lambda: stream.received == b"still")
    stream.outgoing.append(b"here")
    world.step()
    assert peer.recv(10) == b"here"
    assert stream.lost == waiting.lost == []
    world.driver.wakeup()
    before = world.selector.returns
    world.step(60)
    assert world.selector.returns == before + 1


def test_closing_in_a_child_frees_its_copies(world, count_fds):
    world.connect()
    before_open = len(world.sockets)
    fds = count_fds()

    def child():
        now = count_fds()
        world.driver.close()
        has_own = hasattr(world.selector, "fileno")
        assert count_fds() == now - 3 - has_own  # The connection, the wake-up pair, the epoll set.

    in_child(child)
    assert count_fds() == fds
    assert len(world.sockets) == before_open


def test_closing_in_a_child_sends_no_close_notify(make_world, client_context, server_context):
    """close_notify from the child would end the parent's connection."""
    from thinconsumer.sockets.tls import tls_transport

    world = make_world(transport=tls_transport(lambda: client_context))
    listener = world.listen()
    stream = world.dial(listener)
    world.step(1)
    raw = world.accept(listener)
    raw.setblocking(False)
    peer = server_context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
    world.sockets.append(peer)
    while not stream.made:
        try:
            peer.do_handshake()
        except BlockingIOError:
            pass
        except OSError as error:
            assert "read" in str(error)
        world.step(0.01)

    in_child(world.driver.close)
    peer.setblocking(True)
    peer.send(b"still here")
    world.run(lambda: stream.received == b"still here")


def test_waking_in_a_child_does_not_wake_the_parent(world):
    world.step()
    in_child(world.driver.wakeup)
    started = world.driver.now()
    world.step(0.05)
    assert world.driver.now() - started >= 0.049
    assert not world.driver.woken
