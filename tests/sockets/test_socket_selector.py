"""The differences between kinds of selectors, and that the driver hides them."""

import io
import math
import os
import select
import selectors
import socket
from contextlib import closing

import pytest

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.sockets.socket_selector import LONGEST_WAIT, EpollSockets, SocketSelector, open_sockets


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def watch(selector_class):
    watch = open_sockets(selector_class)
    yield watch
    watch.close()


class Remembers(selectors.DefaultSelector):
    """Notes what it was asked, and does not wait."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def select(self, timeout=None):
        self.calls.append(timeout)
        return []

    def modify(self, fileobj, events, data=None):
        self.calls.append(events)
        return super().modify(fileobj, events, data)


class Own:
    """A selector of a program's own, which derives from no class of ``selectors``."""

    def __init__(self):
        self._inner = selectors.DefaultSelector()
        self.register, self.modify, self.unregister = self._inner.register, self._inner.modify, self._inner.unregister
        self.select, self.close = self._inner.select, self._inner.close


class OwnWithSet(Own):
    def set(self):
        raise AssertionError("only the methods of a selector are called")


@pytest.mark.parametrize(
    "selector", [Own, lambda: Own(), Own(), OwnWithSet()], ids=["class", "function", "instance", "with-set"]
)
def test_a_selector_needs_only_the_methods_of_one(selector):
    with closing(open_sockets(selector)) as watch, closing(socket.create_server(("127.0.0.1", 0))) as listener:
        watch.set(listener.fileno(), selectors.EVENT_READ, "owner")
        assert watch.wait(0) == []
        with socket.create_connection(listener.getsockname()):
            assert watch.wait(10) == [("owner", selectors.EVENT_READ)]
    for wrong in (lambda: "epoll", "epoll"):
        with pytest.raises(IllegalArgumentError, match="lacks the methods of a selector"):
            open_sockets(wrong)


def test_events_come_with_their_owner(watch, pair):
    left, right = pair
    watch.set(left.fileno(), selectors.EVENT_READ | selectors.EVENT_WRITE, "owner")
    assert watch.wait(0) == [("owner", selectors.EVENT_WRITE)]
    right.send(b"x")
    assert watch.wait(0) == [("owner", selectors.EVENT_READ | selectors.EVENT_WRITE)]
    watch.set(left.fileno(), selectors.EVENT_READ, "owner")
    assert watch.wait(0) == [("owner", selectors.EVENT_READ)]
    watch.forget(left.fileno())
    assert watch.wait(0) == []


def test_an_unchanged_mask_causes_no_system_call(pair):
    selector = Remembers()
    watch = SocketSelector(selector)
    watch.set(pair[0].fileno(), selectors.EVENT_READ, "owner")
    watch.set(pair[0].fileno(), selectors.EVENT_READ, "owner")
    assert selector.calls == []
    watch.close()


def test_forgetting_an_unknown_or_closed_descriptor_does_nothing(watch):
    watch.forget(12345)
    left, right = socket.socketpair()
    fd = left.fileno()
    watch.set(fd, selectors.EVENT_READ, "owner")
    left.close()
    right.close()
    watch.forget(fd)
    assert watch.wait(0) == []


def test_a_registration_that_was_interrupted_can_be_forgotten(selector_class, pair):
    """The selector has it, the watch does not know: its descriptor's successor must not inherit its owner."""
    selector = selector_class()
    watch = open_sockets(lambda: selector)
    if isinstance(selector, EpollSockets):
        selector._epoll.register(pair[0].fileno(), selectors.EVENT_READ)
    else:
        selector.register(pair[0].fileno(), selectors.EVENT_READ, "old")
    watch.forget(pair[0].fileno())
    watch.set(pair[0].fileno(), selectors.EVENT_WRITE, "new")
    assert watch.wait(0) == [("new", selectors.EVENT_WRITE)]
    watch.close()


@pytest.mark.parametrize(
    ("seconds", "asked"), [(-5.0, 0.0), (-math.inf, 0.0), (0.25, 0.25), (1e300, LONGEST_WAIT), (math.inf, LONGEST_WAIT)]
)
def test_waits_are_limited_to_the_longest_of_every_selector(seconds, asked):
    selector = Remembers()
    watch = SocketSelector(selector)
    watch.wait(seconds)
    assert selector.calls == [asked]
    watch.close()


def test_the_selector_takes_the_longest_wait(watch, pair):
    watch.set(pair[0].fileno(), selectors.EVENT_WRITE, "owner")
    assert watch.wait(math.inf) == [("owner", selectors.EVENT_WRITE)]


def test_a_selector_instance_is_used_directly():
    selector = selectors.DefaultSelector()
    watch = SocketSelector(selector)
    if hasattr(selector, "fileno"):
        assert watch.fileno() == selector.fileno()
    watch.close()
    assert selector.get_map() is None


def test_fileno_of_a_selector_without_a_descriptor_is_unsupported():
    watch = open_sockets(selectors.SelectSelector)
    with pytest.raises(io.UnsupportedOperation, match="SelectSelector has no descriptor"):
        watch.fileno()
    watch.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="this system has no epoll")
def test_epoll_is_the_default(pair):
    watch = open_sockets(None)
    assert isinstance(watch, EpollSockets)
    assert os.get_inheritable(watch.fileno()) is False
    watch.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="this system has no epoll")
def test_a_hang_up_counts_as_every_event_that_is_watched(pair):
    """A closed peer or a refused connection must be found, whatever the connection waits for."""
    watch = open_sockets(None)
    left, right = pair
    right.close()
    for mask in (selectors.EVENT_READ, selectors.EVENT_WRITE, selectors.EVENT_READ | selectors.EVENT_WRITE):
        watch.set(left.fileno(), mask, "owner")
        assert watch.wait(0) == [("owner", mask)]
    watch.close()
