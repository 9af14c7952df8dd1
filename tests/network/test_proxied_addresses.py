"""Addresses behind a proxy: which names are looked up by whom, and what is forgotten after a failure."""

from collections import deque

import pytest

from thinconsumer.config import ClientOptions
from thinconsumer.config.proxy import Proxy
from thinconsumer.driver import Address, Resolve, Via
from thinconsumer.errors import KafkaConnectionError
from thinconsumer.network.addresses import AddressBook
from thinconsumer.network.client import NetworkClient
from thinconsumer.network.proxied_addresses import ProxiedAddressBook

P1, P2 = (Address(2, (f"10.0.0.{n}", 1080)) for n in (1, 2))
B1, B2 = (Address(2, (f"10.9.9.{n}", 9092)) for n in (1, 2))


@pytest.fixture
def make_book():
    def make(url):
        commands = deque()
        return ProxiedAddressBook(commands, Proxy.parse(url)), commands

    return make


def via(address, proxy, name):
    return Address(address.family, address.sockaddr, Via(name, proxy))


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_the_proxy_looks_up_the_names_of_brokers(make_book, scheme):
    book, commands = make_book(f"{scheme}://me:secret@proxy:1080")
    name = f"{scheme}://proxy:1080"
    lookup = book.look_up("b1", 9092)
    assert list(commands) == [Resolve("proxy", 1080)]
    assert (lookup.addresses, lookup.error) == ((), "")
    book.resolved("proxy", 1080, [P1, P2], "")
    target = Address(0, ("b1", 9092))
    assert lookup.addresses == (via(target, P1, name), via(target, P2, name))
    assert [address.where("b1") for address in lookup.addresses] == [
        f"b1:9092 (through proxy {name} at 10.0.0.1:1080)",
        f"b1:9092 (through proxy {name} at 10.0.0.2:1080)",
    ]
    # The next broker needs no lookup, and tries the address first that has worked.
    book.worked("b1", 9092, lookup.addresses[1])
    target = Address(0, ("b2", 9093))
    assert book.known("b2", 9093) == (via(target, P2, name), via(target, P1, name))
    assert len(commands) == 1
    book.failed("b2", 9093)
    assert book.known("b2", 9093) == book.known("b1", 9092) == ()
    book.look_up("b2", 9093)
    assert list(commands) == [Resolve("proxy", 1080)] * 2


def test_with_socks5_this_client_looks_up_both_names(make_book):
    book, commands = make_book("socks5://proxy")
    name = "socks5://proxy:1080"
    lookup = book.look_up("b1", 9092)
    assert list(commands) == [Resolve("proxy", 1080), Resolve("b1", 9092)]
    book.resolved("b1", 9092, [B1, B2], "")
    assert lookup.addresses == ()
    book.resolved("proxy", 1080, [P1, P2], "")
    assert lookup.addresses == tuple(via(b, p, name) for b in (B1, B2) for p in (P1, P2))
    assert lookup.addresses[0].where("b1") == f"b1:9092 (10.9.9.1:9092 through proxy {name} at 10.0.0.1:1080)"
    book.worked("b1", 9092, lookup.addresses[3])
    assert book.known("b1", 9092) == tuple(via(b, p, name) for b in (B2, B1) for p in (P2, P1))
    # The proxy's addresses are known: only the next broker's name is looked up.
    book.look_up("b2", 9092)
    assert list(commands)[2:] == [Resolve("b2", 9092)]
    book.failed("b1", 9092)
    assert book.known("b1", 9092) == ()


def test_numeric_hosts_need_no_lookup(make_book):
    for url in ("socks5://10.0.0.1:1080", "socks5h://10.0.0.1:1080", "http://10.0.0.1:1080"):
        book, commands = make_book(url)
        (address,) = book.look_up("10.9.9.1", 9092).addresses
        assert address.via == Via(url, P1)
        assert address.where("10.9.9.1") == f"10.9.9.1:9092 (through proxy {url})"
        assert not commands


@pytest.mark.parametrize("error", ["the name does not resolve", ""])
def test_a_proxy_without_an_address_is_named(make_book, error):
    book, _ = make_book("socks5h://me:secret@proxy:1080")
    lookup = book.look_up("b1", 9092)
    book.resolved("proxy", 1080, [], error)
    assert lookup.error == f"proxy socks5h://proxy:1080: {error or 'the name has no address'}"
    assert lookup.addresses == ()


def test_a_broker_without_an_address_has_the_error_of_its_own_lookup(make_book):
    book, _ = make_book("socks5://10.0.0.1:1080")
    lookup = book.look_up("b1", 9092)
    book.resolved("b1", 9092, [], "the name does not resolve")
    assert lookup.error == "the name does not resolve"


def test_a_handshake_begins_with_each_connection(make_book):
    book, _ = make_book("http://me:secret@10.0.0.1:1080")
    (address,) = book.look_up("b1", 9092).addresses
    begin = book.tunnel("b1", address)
    assert "secret" not in repr(begin)
    assert begin() is not begin()
    assert begin().out.startswith(b"CONNECT b1:9092 HTTP/1.1\r\n")
    (address,) = book.look_up("b\r\n1", 9092).addresses
    with pytest.raises(KafkaConnectionError, match="cannot be asked for"):
        book.tunnel("b\r\n1", address)()
    assert AddressBook(deque()).tunnel("b1", B1) is None


def test_the_option_decides():
    for url, kind in ((None, AddressBook), ("socks5://h", ProxiedAddressBook)):
        assert type(NetworkClient(ClientOptions.from_options(proxy_url=url), None)._shared.book) is kind
