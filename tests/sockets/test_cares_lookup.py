"""Names looked up with c-ares on the driver's selector, from a name server that the test plays: no call blocks."""

import math
import selectors
import socket
import sys
import time
from pathlib import Path

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.driver import Address, Resolve
from thinconsumer.sockets import SelectorDriver
from thinconsumer.sockets.cares_lookup import CaresLookup
from thinconsumer.sockets.socket_selector import SocketSelector

pytest.importorskip("pycares", reason="the extra 'resolver' (pycares) is not installed")

A, AAAA = 1, 28
NO_SUCH_NAME = 3


class NameServer:
    """A DNS server on loopback, single-threaded: the test calls :meth:`serve`."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.place = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.addresses = {}  #: (name, type) -> addresses.
        self.queries = []

    def serve(self, *, silent=False):
        while True:
            try:
                query, client = self.socket.recvfrom(4096)
            except BlockingIOError:
                return
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode())
                at += 1 + query[at]
            name, kind = ".".join(labels).lower(), int.from_bytes(query[at + 1 : at + 3], "big")
            self.queries.append((name, kind))
            if silent:
                continue
            is_known = any(known == name for known, _ in self.addresses)
            found = self.addresses.get((name, kind), [])
            family = socket.AF_INET if kind == A else socket.AF_INET6
            records = b"".join(
                b"\xc0\x0c" + query[at + 1 : at + 5] + (60).to_bytes(4, "big") + len(raw).to_bytes(2, "big") + raw
                for raw in (socket.inet_pton(family, one) for one in found)
            )
            code = 0 if is_known else NO_SUCH_NAME
            header = query[:2] + (0x8180 | code).to_bytes(2, "big") + b"\0\1" + len(found).to_bytes(2, "big") + bytes(4)
            self.socket.sendto(header + query[12 : at + 5] + records, client)


@pytest.fixture
def server(monkeypatch):
    """A name server. c-ares waits a second for its answer, and asks twice."""
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:2 ndots:1")
    made = NameServer()
    yield made
    made.socket.close()


@pytest.fixture
def driver(server):
    made = SelectorDriver(name_servers=[server.place])
    yield made
    made.close()


def look_up(driver, server, orders, host, *, silent=False, within=10.0):
    orders.commands.append(Resolve(host, 9092))
    deadline = time.monotonic() + within
    while not orders.answers:
        assert time.monotonic() < deadline, "no answer"
        driver.step(orders, driver.now() + 0.01)
        server.serve(silent=silent)
    ((host_answered, port, addresses, error),) = orders.answers
    assert (host_answered, port) == (host, 9092)
    return addresses, error


@pytest.fixture
def orders(make_world):
    return make_world().orders


def test_a_name_has_its_ipv4_and_ipv6_addresses(driver, server, orders):
    server.addresses = {("kafka.example", A): ["10.0.0.1", "10.0.0.2"], ("kafka.example", AAAA): ["fd00::1"]}
    addresses, error = look_up(driver, server, orders, "kafka.example")
    assert error == ""
    assert set(addresses) == {
        Address(socket.AF_INET, ("10.0.0.1", 9092)),
        Address(socket.AF_INET, ("10.0.0.2", 9092)),
        Address(socket.AF_INET6, ("fd00::1", 9092, 0, 0)),
    }
    assert {kind for _, kind in server.queries} == {A, AAAA}
    assert orders.agenda.next() == math.inf


def test_a_name_with_an_ipv4_address_only(driver, server, orders):
    server.addresses = {("kafka.example", A): ["10.0.0.1"]}
    assert look_up(driver, server, orders, "kafka.example") == ([Address(socket.AF_INET, ("10.0.0.1", 9092))], "")


@pytest.mark.skipif(sys.platform == "win32", reason="its hosts file is elsewhere")
def test_the_hosts_file_is_read_before_the_name_server_is_asked(driver, server, orders):
    lines = [line.partition("#")[0].split() for line in Path("/etc/hosts").read_text().splitlines()]
    name = [line[1] for line in lines if len(line) > 1][-1]
    addresses, error = look_up(driver, server, orders, name)
    assert error == ""
    assert {address.sockaddr[0] for address in addresses} <= {line[0] for line in lines if name in line}
    assert server.queries == []


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("nowhere.example", "the name does not resolve"),
        ("a..b", "not a valid host name"),
        ("ü" * 80, "not a valid host name"),
    ],
)
def test_a_lookup_that_fails_has_an_error_text(driver, server, orders, host, error):
    addresses, found = look_up(driver, server, orders, host)
    assert addresses == []
    assert error in found


@pytest.mark.once
def test_no_call_blocks_while_the_name_server_is_silent_and_the_lookup_ends(driver, server, orders):
    """The system's resolver blocks poll(0) for as long as a lookup takes."""
    orders.commands.append(Resolve("kafka.example", 9092))
    began, longest = time.monotonic(), 0.0
    while not orders.answers:
        assert time.monotonic() - began < 20.0
        before = time.monotonic()
        driver.step(orders, driver.now())
        longest = max(longest, time.monotonic() - before)
        server.serve(silent=True)
        time.sleep(0.005)
    assert longest < 0.5
    ((_, _, addresses, error),) = orders.answers
    assert (addresses, error) == ([], "the name server did not answer; temporary")
    assert len(server.queries) > 2, "c-ares has asked again"


def test_a_step_waits_no_longer_than_the_timeout_of_the_lookup(driver, server, orders):
    orders.commands.append(Resolve("kafka.example", 9092))
    driver.step(orders, driver.now())
    assert driver.now() < orders.agenda.next() <= driver.now() + 5.0
    driver.step(orders, driver.now() + 60.0)
    assert orders.agenda.next() < driver.now() + 5.0, "step() has returned for the timeout"


def test_wake_at_of_a_consumer_includes_the_lookup(driver, server):
    """An event loop that waits for the descriptor or this moment must not miss the next query."""
    with Consumer(driver=driver, bootstrap_servers="kafka.example:9092") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        before = time.monotonic()
        consumer.poll(0)
        consumer.poll(0)
        assert time.monotonic() - before < 0.5
        assert consumer.wake_at() < math.inf


def test_lookups_of_two_names_are_both_answered(driver, server, orders):
    """A client looks up a broker and its token endpoint at the same time; neither must wait for ever."""
    names = ("kafka.example", "idp.example")
    server.addresses = {(name, A): ["10.0.0.1"] for name in names}
    orders.commands += [Resolve(name, 9092) for name in names]
    deadline = time.monotonic() + 10.0
    while len(orders.answers) < 2:
        assert time.monotonic() < deadline, orders.answers
        driver.step(orders, driver.now() + 0.01)
        server.serve()
    assert [answer[0] for answer in orders.answers] == list(names)


@pytest.mark.parametrize("end", ["hang_up_all", "close"])
def test_a_lookup_under_way_is_cancelled(driver, server, orders, count_fds, end):
    orders.commands.append(Resolve("kafka.example", 9092))
    driver.step(orders, driver.now())
    getattr(driver, end)()
    assert orders.agenda.next() == math.inf
    assert orders.answers == []
    if end == "hang_up_all":
        server.addresses = {("kafka.example", A): ["10.0.0.1"]}
        assert look_up(driver, server, orders, "kafka.example")[1] == ""


def test_a_selector_without_room_fails_the_lookup(server):
    class Full(SocketSelector):
        def set(self, fd, mask, owner):
            raise OSError("select() can watch no more")

    selector = Full(selectors.SelectSelector())
    lookup = CaresLookup("kafka.example", 9092, selector, time.monotonic, [server.place])
    assert lookup.is_done
    assert "cannot wait for the name server: select() can watch no more" in lookup.error
    selector.close()


def test_a_resolver_of_the_user_replaces_c_ares(server, orders):
    driver = SelectorDriver(resolver=lambda host, port: [Address(socket.AF_INET, ("10.0.0.9", port))])
    assert look_up(driver, server, orders, "kafka.example")[0] == [Address(socket.AF_INET, ("10.0.0.9", 9092))]
    assert server.queries == []
    driver.close()
