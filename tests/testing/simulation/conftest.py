"""A town: some nodes that listen and note what they hear, and clients that do what a test tells them."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation import NetworkFaults, World
from thinconsumer.testing.simulation.driver import SimDriver
from thinconsumer.testing.simulation.network import SimNetwork

PORT = 9092


class Node:
    """Listens, and notes everything: what came on which connection and when, and which connections ended."""

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
    """One conversation of a node."""

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
            self.network.settle(number, f"kafka{number}", PORT, node)
            self.network.open(number)

    def client(self, name="ann"):
        """Return a stage whose driver is this world's."""
        stage = self._make_stage(network=self.network)
        stage.driver = SimDriver(self.world, self.network, name)
        return stage

    def dial(self, stage, node=1):
        return stage.dial(f"10.0.0.{node}", PORT, f"kafka{node}")

    def pass_time(self, seconds):
        """Let the world go on without any client being stepped."""
        self.world.run_until(self.world.now() + seconds)

    def connect(self, stage, node=1):
        """Return a stream that is connected, and the node's end of it."""
        stream = self.dial(stage, node)
        stage.run(1.0)
        assert stream.calls[0][0] == "made"
        return stream, self.nodes[node].connections[-1]


@pytest.fixture
def make_town(make_stage):
    """Return a function that makes a town with given network faults."""
    return lambda seed=1, **faults: Town(make_stage, seed, **faults)


@pytest.fixture
def town(make_town):
    """A town where nothing goes wrong by itself."""
    return make_town()
