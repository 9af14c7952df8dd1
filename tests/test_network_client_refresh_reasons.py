"""What connections tell beside answers: when metadata may be wrong, and for how long nothing could be reached."""

from __future__ import annotations

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.connection.request import ANY_NODE, Request, Target
from thinconsumer.connection.route import SLOW_ATTEMPT
from thinconsumer.network_client import NetworkClient
from thinconsumer.testing import MemoryCluster
from thinconsumer.types import Node
from thinconsumer.wire.metadata import MetadataRequest


class Watcher:
    """Links to two nodes; keeps every doubt that they have."""

    def __init__(self):
        self.cluster = MemoryCluster(2)
        self.network = self.cluster.network
        self.driver = self.cluster.driver()
        config = ConsumerConfig.from_options(bootstrap_servers=self.cluster.bootstrap_servers)
        self.client = NetworkClient(config, random.Random(1))
        self.doubts = []

    @property
    def now(self):
        return self.driver.now()

    def know(self):
        """Tell the client of the nodes, as metadata does."""
        self.client.update_nodes([Node(b.node_id, b.host, b.port) for b in self.cluster.nodes.values()])

    def ask(self, target):
        self.client.send(Request("t", MetadataRequest, target, lambda _: MetadataRequest(), self.now + 500), self.now)

    def turn(self, deadline):
        self.driver.step(self.client, deadline)
        self.client.step(self.now)
        self.client.take_answers()
        self.doubts += self.client.take_refresh_reasons(self.now)

    def run(self, seconds):
        """Step for so long; return the doubts of that time."""
        before, end = len(self.doubts), self.now + seconds
        while self.now < end:
            self.turn(end)
        return self.doubts[before:]


@pytest.fixture
def watcher():
    """Connected to node 1, and nothing in flight."""
    watcher = Watcher()
    watcher.know()
    watcher.ask(Target(1))
    assert watcher.run(1.0) == [] and watcher.client.is_ready(1)
    return watcher


def test_a_connection_that_breaks_is_a_doubt_once_though_nothing_was_in_flight(watcher):
    watcher.network.kill("kafka1", 9092)
    (doubt,) = watcher.run(5.0)
    assert doubt.startswith("node 1: backing off") and "connection reset" in doubt


@pytest.mark.parametrize("fault", ["kill", "black_hole"])
def test_a_node_that_somebody_waits_for_and_cannot_be_reached_is_a_doubt_all_the_time(watcher, fault):
    """A host that is gone swallows packets: attempts fail every 20 s only, and nobody may wait that long to ask."""
    watcher.network.reset("kafka1", 9092)
    getattr(watcher.network, fault)("kafka1", 9092)
    assert len(watcher.run(0.01)) == 1
    watcher.ask(Target(1))
    assert watcher.run(0.01)
    if fault == "black_hole":
        watcher.run(5.0)
        assert watcher.client.take_refresh_reasons(watcher.now)


def test_a_first_attempt_is_a_doubt_only_once_it_is_slow(watcher):
    watcher.network.black_hole("kafka2", 9092)
    watcher.ask(Target(2))
    assert watcher.run(SLOW_ATTEMPT - 0.01) == []
    assert watcher.run(0.02)


@pytest.mark.parametrize(
    "end",
    [
        lambda watcher: watcher.cluster.clock.advance(700.0),
        lambda watcher: watcher.client.update_nodes([]),
        lambda watcher: watcher.client.rebootstrap(watcher.now),
        lambda watcher: watcher.client.update_nodes([Node(1, "elsewhere", 9092)]),
    ],
    ids=["idle", "gone", "rebootstrap", "moved"],
)
def test_what_we_close_ourselves_is_no_doubt(watcher, end):
    end(watcher)
    assert watcher.run(1.0) == []
    assert not watcher.client.any_ready()


def test_bootstrap_servers_are_never_doubted():
    """Whoever they are, nothing is known of them that could have changed."""
    watcher = Watcher()
    watcher.ask(ANY_NODE)
    watcher.run(1.0)
    assert watcher.client.any_ready()
    for name in ("kafka1", "kafka2"):
        watcher.network.kill(name, 9092)
    watcher.ask(ANY_NODE)
    assert watcher.run(3.0) == []
    assert not watcher.client.any_ready()


def test_an_absence_in_the_middle_of_connecting_counts_only_up_to_when_we_wanted_to_be_called():
    """What comes in at the end of the absence gives the connection new time; that must not be counted backwards."""
    watcher = Watcher()
    watcher.know()
    began = watcher.now
    watcher.ask(Target(1))
    watcher.turn(began)
    watcher.cluster.clock.advance(700.0)
    watcher.turn(watcher.now)  # connected, long ago; what versions the broker speaks is asked now
    assert not watcher.client.any_ready()
    assert watcher.now - watcher.client.outage(watcher.now).since <= SLOW_ATTEMPT
    watcher.run(1.0)
    assert watcher.client.any_ready()


def test_a_connection_that_is_dropped_answers_what_was_parked_on_it_and_is_no_doubt(watcher):
    """A JoinGroup that nobody waits for any more would hold up everything behind it."""
    target = Target(1, "group")
    watcher.ask(target)
    assert watcher.run(1.0) == [] and watcher.client.is_ready(1, "group")
    watcher.network.pause("kafka1", 9092)
    watcher.ask(target)
    watcher.client.step(watcher.now)
    watcher.client.drop(target, "the coordinator is elsewhere")
    (answer,) = watcher.client.take_answers()
    assert "elsewhere" in str(answer.error) and answer.request.target == target
    assert watcher.run(1.0) == [] and not watcher.client.is_ready(1, "group")
    assert watcher.client.is_ready(1), "the node's other connections stay"
    watcher.client.drop(target, "twice")
    watcher.client.drop(Target(7), "never there")
    assert watcher.client.take_answers() == []


def test_what_is_parked_at_a_node_that_metadata_has_forgotten_can_be_dropped(watcher):
    """A coordinator that died is forgotten first; a JoinGroup may be parked there for minutes all the same."""
    target = Target(1, "group")
    watcher.ask(target)
    assert watcher.run(1.0) == [] and watcher.client.is_ready(1, "group")
    watcher.network.pause("kafka1", 9092)
    watcher.ask(target)
    watcher.client.step(watcher.now)
    watcher.client.update_nodes([Node(2, "kafka2", 9092)])
    watcher.client.step(watcher.now)
    assert watcher.client.take_answers() == []
    watcher.client.drop(target, "the coordinator is elsewhere")
    (answer,) = watcher.client.take_answers()
    assert "elsewhere" in str(answer.error) and answer.request.target == target
