"""Nodes that listen and record their input, and clients with commands that a test sets."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from lab.chaos import Chaos
from lab.faults import FAULTS
from lab.knobs import Knobs
from lab.request_faults import GROUP_ERRORS

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import NetworkFaults, Simulation, World
from thinconsumer_testing.simulation.driver import SimDriver
from thinconsumer_testing.simulation.network import SimNetwork

PORT = 9092
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here: tests/swarm, which runs the same worlds, uses one interpreter too."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.once)


class Node:
    """Listens, and records all bytes with their connection and time, and connections that ended."""

    def __init__(self, world, echoes=False):
        self.world = world
        self.echoes = echoes
        self.connections = []
        self.heard = []
        self.lost = []

    def connection_made(self, connection):
        self.connections.append(connection)
        return Talk(self, connection)

    @property
    def text(self):
        return b"".join(data for _, data in self.heard)


class Talk:
    """One connection of a node."""

    def __init__(self, node, connection):
        self.node = node
        self.connection = connection

    def data_received(self, data):
        self.node.heard.append((self.node.world.now(), data))
        if self.node.echoes:
            self.connection.send(data)

    def connection_lost(self):
        self.node.lost.append(self.connection)


class Town:
    """Nodes 1 and 2 at their addresses, in one world."""

    def __init__(self, make_stage, seed=1, **faults):
        self.world = World(seed)
        self.network = SimNetwork(self.world, NetworkFaults(**faults))
        self.nodes = {1: Node(self.world), 2: Node(self.world)}
        self._make_stage = make_stage
        for number, node in self.nodes.items():
            self.network.listen(f"kafka{number}", PORT, node)

    def client(self, name="ann"):
        """Return a stage whose driver is this world's."""
        stage = self._make_stage(network=self.network)
        stage.driver = SimDriver(self.world, self.network, name, lambda *event: None)
        return stage

    def dial(self, stage, node=1):
        return stage.dial(f"10.0.0.{node}", PORT, f"kafka{node}")

    def pass_time(self, seconds):
        """Advance the world without stepping a client."""
        self.world.run_until(self.world.now() + seconds)

    def connect(self, stage, node=1):
        """Return a connected stream, and the node's end of it."""
        stream = self.dial(stage, node)
        stage.run(1.0)
        assert stream.calls[0][0] == "made"
        return stream, self.nodes[node].connections[-1]


@pytest.fixture
def make_town(make_stage):
    """Return a function that builds a town with given network faults."""
    return lambda seed=1, **faults: Town(make_stage, seed, **faults)


@pytest.fixture
def town(make_town):
    """A town without random faults."""
    return make_town()


# -- faults

NETWORK_RATES = ("split_rate", "reset_rate", "refuse_rate", "swallow_rate", "dns_failure_rate")
RATES = (*FAULTS, *NETWORK_RATES, "error_rate", "delay_rate", "silence_rate", "disconnect_rate", "corruptions")


def knobs_with(**values):
    """Return knobs without faults, but with these values."""
    knobs = Knobs.draw(1)
    for name, value in {**dict.fromkeys(RATES, 0.0), **values}.items():
        assert hasattr(knobs, name)
        setattr(knobs, name, value)
    return knobs


@pytest.fixture
def make_chaos():
    """Return a function that builds a Chaos in a small world with these knobs and no other faults."""

    def make(readers=2, seed=1, **rates):
        config = {
            "default_replication_factor": 3,
            "unclean_leader_election_enable": True,
            "replica_lag_time_max_ms": 500,
        }
        sim = Simulation(seed, 3, {"a": 2}, config=config)
        calm = {"silent_share": 0.0, "one_way_share": 0.0, "unclean": True, "min_insync_replicas": 1}
        knobs = knobs_with(**{**calm, **rates})
        tps = TopicPartition("a", 0), TopicPartition("a", 1)
        consumers = [sim.consumer(tps, auto_offset_reset="earliest") for _ in range(readers)]
        for tp in tps:
            sim.produce(*tp, [b"x"] * 20)
        sim.run_for(1.0)
        log_writer = SimpleNamespace(write=lambda tp, node, count: None)
        swarm = SimpleNamespace(
            sim=sim,
            knobs=knobs,
            actors=consumers,
            tps=list(tps),
            groups=(),
            log_writer=log_writer,
            logins=None,
            group_errors=GROUP_ERRORS,
        )
        return Chaos(swarm)

    return make


@pytest.fixture
def calm_knobs():
    """The knobs of a small world without faults."""
    ones = ("brokers", "consumers", "topics", "partitions", "replication", "min_insync_replicas", "racks")
    knobs = knobs_with(**dict.fromkeys(ones, 1), producers=0, writes=12)
    knobs.clients = knobs.clients[:1] or Knobs.draw(2).clients[:1]
    knobs.clients[0].auto_offset_reset, knobs.clients[0].odd_rate = "earliest", 0.0
    return knobs
