"""The outage of all brokers: its description, and how often it is logged."""

import logging
import random
from collections import deque

import pytest

from thinconsumer.failures import OutageLog
from thinconsumer.network.addresses import AddressBook
from thinconsumer.network.connection import ConnectionSettings
from thinconsumer.network.outage import Outage, causes_of, log_end, log_outage
from thinconsumer.network.route import NO_BROKER, BrokerRoute, RouteContext
from thinconsumer.support.timers import Backoff
from thinconsumer.types import Node

SERVERS = [("seed", 9092)]
NODES = [Node(1, "kafka1", 9092, None)]


@pytest.fixture
def outages(caplog):
    caplog.set_level(logging.INFO)
    return OutageLog(logging.getLogger("thinconsumer.test"))


@pytest.fixture
def routes():
    """A route to the seed that has not been tried, and one to node 1 that has failed."""
    settings = ConnectionSettings("me", 1000, 5, 540.0)
    commands = deque()
    backoffs = Backoff(0.05, 1.0), Backoff(10.0, 30.0)
    shared = RouteContext(settings, *backoffs, random.Random(1), commands, AddressBook(commands))
    seed, node = BrokerRoute(shared, "seed", 9092), BrokerRoute(shared, "kafka1", 9092, 1)
    node.cause = "connection refused"
    return [seed, node]


def test_the_causes_name_bootstrap_servers_and_nodes(routes):
    causes = causes_of(SERVERS, NODES, routes, 0.0, only_bootstrap_answers=False)
    assert causes["kafka1:9092"] == "connection refused"
    assert causes_of(SERVERS, NODES, [], 0.0, only_bootstrap_answers=False)["seed:9092"] == "not tried yet"
    assert str(Outage(0.0, {"a:1": "x", "b:2": "y"})) == "a:1: x; b:2: y"


def test_unreachable_advertised_addresses_are_named(routes):
    causes = causes_of(SERVERS, NODES, routes, 0.0, only_bootstrap_answers=True)
    assert causes["seed:9092"] == "answers, but no address that its metadata names can be reached"
    assert causes["kafka1:9092"].startswith("connection refused (node 1 advertises this address")


def test_an_outage_is_logged_after_its_grace_and_its_end_only_if_a_broker_answers(outages, caplog):
    def failing(now):
        log_outage(outages, now, lambda: Outage(now, {"a:1": "refused"}))

    failing(0.0)
    failing(4.9)
    log_end(outages, 4.9, is_answered=True)
    assert caplog.messages == []
    for now in (10.0, 15.0, 20.0):
        failing(now)
    assert outages.is_logged(NO_BROKER)
    log_end(outages, 21.0, is_answered=False)
    assert caplog.messages == ["no broker can be reached: a:1: refused"]
    for now in (30.0, 35.0):
        failing(now)
    log_end(outages, 40.0, is_answered=True)
    assert caplog.messages[-1] == "a broker answers again after 10.0 s"
    log_end(outages, 41.0, is_answered=True)
    assert len(caplog.messages) == 3
