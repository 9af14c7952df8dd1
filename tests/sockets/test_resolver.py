"""Names to addresses: the system's resolver, a plugged-in one, and their failures in words."""

import logging
import socket

import pytest

from thinconsumer.driver import Address
from thinconsumer.sockets.resolver import look_up, numeric, system_resolver


def clock_of(*readings):
    return iter(readings).__next__


def test_localhost_has_addresses_of_this_machine():
    addresses = system_resolver("localhost", 9092)
    assert addresses
    assert {a.sockaddr[0] for a in addresses} <= {"127.0.0.1", "::1"}
    assert {a.sockaddr[1] for a in addresses} == {9092}
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("10.20.30.40", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_numeric_addresses(host, family):
    (address,) = numeric(host, 9092)
    assert address.family == family
    assert address.sockaddr[:2] == (host, 9092)


@pytest.mark.parametrize(
    "host", ["localhost", "broker.example", "", "a..b", "x" * 70 + ".example", "not numeric", "\0"]
)
def test_names_are_not_numeric(host):
    assert numeric(host, 9092) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "the name does not resolve"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), "the name server did not answer; temporary"),
        (socket.gaierror(socket.EAI_SERVICE, "Servname not supported"), "Servname not supported"),
        (UnicodeError("label empty or too long"), "not a valid host name"),
        (OSError("no route to the name server"), "no route to the name server"),
        (RuntimeError(), "RuntimeError"),
        (KeyError("broker"), "'broker'"),
    ],
)
def test_every_failed_lookup_has_a_text(error, words):
    def resolver(host, port):
        raise error

    assert look_up(resolver, "broker", 9092, clock_of(0.0, 0.0), 1.0) == ([], words)


def test_a_lookup_without_an_address_has_failed():
    assert look_up(lambda host, port: (), "broker", 9092, clock_of(0.0, 0.0), 1.0) == ([], "the name has no address")


def test_an_invalid_host_name_does_not_raise():
    addresses, words = look_up(system_resolver, "a..b", 9092, clock_of(0.0, 0.0), 1.0)
    assert addresses == []
    assert words


def test_addresses_keep_their_order():
    answer = (Address(10, ("::1", 1, 0, 0)), Address(2, ("127.0.0.1", 1)))
    assert look_up(lambda host, port: answer, "b", 1, clock_of(0.0, 0.0), 1.0) == (list(answer), "")


@pytest.mark.parametrize(("took", "warned"), [(0.9, False), (1.0, True), (12.25, True)])
def test_a_slow_lookup_is_logged_with_its_duration(caplog, took, warned):
    with caplog.at_level(logging.WARNING):
        look_up(lambda host, port: [], "broker.example", 9092, clock_of(5.0, 5.0 + took), 1.0)
    assert [f"looking up broker.example took {took:.1f} s" in r.getMessage() for r in caplog.records] == [True] * warned


def test_ctrl_c_during_a_lookup_is_raised():
    def resolver(host, port):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look_up(resolver, "broker", 9092, clock_of(0.0, 0.0), 1.0)
