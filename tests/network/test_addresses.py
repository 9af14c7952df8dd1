"""The address book: one lookup of a name, shared, remembered until it fails."""

from collections import deque

import pytest

from thinconsumer.driver import Address, Resolve
from thinconsumer.network.addresses import AddressBook, NameLookup

ONE, TWO = (Address(2, (f"10.0.0.{n}", 9092)) for n in (1, 2))


@pytest.fixture
def commands():
    return deque()


@pytest.fixture
def book(commands):
    return AddressBook(commands)


def test_a_numeric_ipv4_address_needs_no_lookup(book, commands):
    lookup = book.look_up("127.0.0.1", 9092)
    assert lookup.addresses == (Address(2, ("127.0.0.1", 9092)),)
    assert not commands


@pytest.mark.parametrize("host", ["kafka", "::1", "127.1", "fe80::1%eth0", "1.2.3.4.5", "", "256.1.1.1"])
def test_every_other_host_is_looked_up_by_the_driver(book, commands, host):
    assert book.look_up(host, 1) == NameLookup()
    assert list(commands) == [Resolve(host, 1)]


def test_names_are_looked_up_in_order(book, commands):
    first, second = book.look_up("a", 1), book.look_up("b", 1)
    assert list(commands) == [Resolve("a", 1), Resolve("b", 1)]
    book.resolved("a", 1, [ONE], "")
    assert (first, second) == (NameLookup((ONE,)), NameLookup())


def test_two_routes_to_one_host_share_a_lookup(book, commands):
    assert book.look_up("a", 1) is book.look_up("a", 1)
    assert list(commands) == [Resolve("a", 1)]


def test_hosts_with_different_ports_are_looked_up_separately(book, commands):
    book.look_up("a", 1)
    book.look_up("a", 2)
    assert list(commands) == [Resolve("a", 1), Resolve("a", 2)]
    book.resolved("a", 1, [ONE], "")
    assert book.known("a", 1) == (ONE,)
    assert book.known("a", 2) == ()


@pytest.mark.parametrize("error", ["the name does not resolve", ""])
def test_a_failed_lookup_has_an_error_and_is_repeated_next_time(book, error):
    lookup = book.look_up("a", 1)
    book.resolved("a", 1, [], error)
    assert lookup.error == (error or "the name has no address")
    assert book.known("a", 1) == ()
    assert book.look_up("a", 1) == NameLookup()


def test_an_answer_to_a_lookup_that_is_not_under_way_is_dropped(book):
    book.resolved("a", 1, [ONE], "")
    assert book.known("a", 1) == ()
