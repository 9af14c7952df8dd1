"""A port that accepts connections, refuses them, and stays bound."""

import selectors
import socket

import pytest

from thinconsumer_testing.broker.port_listener import PortListener


@pytest.fixture
def accepted():
    found = []
    yield found
    for sock, _ in found:
        sock.close()


@pytest.fixture
def listener(accepted):
    with selectors.DefaultSelector() as selector:
        made = PortListener(selector, "127.0.0.1", 0, lambda *args: accepted.append(args), lambda *args: None)
        yield made
        made.close()


def test_refused_until_it_is_opened_and_again_afterwards(listener, accepted):
    where = ("127.0.0.1", listener.port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)
    listener.open()
    with socket.create_connection(where):
        listener.on_ready(selectors.EVENT_READ)
    assert [host for _, host in accepted] == ["127.0.0.1"]
    listener.refuse()
    listener.refuse()
    listener.on_ready(selectors.EVENT_READ)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)
    assert listener.address == f"127.0.0.1:{listener.port}"
