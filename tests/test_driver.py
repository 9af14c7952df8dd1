"""The seam: both drivers have all of it, and what crosses it prints as people write it."""

import inspect

import pytest

from thinconsumer.driver import Address, Dial, Driver, Endpoint, Hangup, Resolve, Stream
from thinconsumer.engine import Engine
from thinconsumer.network.connection import Connection
from thinconsumer.sockets import SelectorDriver
from thinconsumer.testing import MemoryDriver


def members(protocol):
    return {
        name
        for name, value in vars(protocol).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }


def arguments(method):
    """Return the names of a method's arguments; a clock of the module time is a built-in function without any."""
    names = [] if inspect.isbuiltin(method) else inspect.signature(method).parameters
    return [name for name in names if name != "self"]


@pytest.mark.parametrize(
    ("protocol", "implementation"),
    [(Driver, SelectorDriver), (Driver, MemoryDriver), (Endpoint, Engine), (Stream, Connection)],
    ids=lambda kind: kind.__name__,
)
def test_every_driver_has_all_methods_with_the_same_arguments(protocol, implementation):
    """mypy sees this where one is passed as the other; this also sees it for what only tests pass."""
    for name in members(protocol):
        wanted = getattr(protocol, name)
        found = None if isinstance(wanted, property) else getattr(implementation, name)
        if found is None or inspect.ismemberdescriptor(found):  # a slot may hold another object's method
            continue
        assert arguments(found) == arguments(wanted), name


@pytest.mark.parametrize(
    ("sockaddr", "words"), [(("127.0.0.1", 9092), "127.0.0.1:9092"), (("::1", 9092, 0, 0), "[::1]:9092")]
)
def test_addresses_print_as_host_and_port(sockaddr, words):
    """With brackets around the colons of IPv6."""
    assert str(Address(2, sockaddr)) == words


def test_commands_are_values():
    """A driver may compare and keep them."""
    assert Resolve("kafka1", 9092) == Resolve("kafka1", 9092)
    stream = object()
    address = Address(2, ("10.0.0.1", 9092))
    assert Dial(stream, "kafka1", address) == Dial(stream, "kafka1", address)
    assert Hangup(stream) != Hangup(object())
