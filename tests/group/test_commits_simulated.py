"""Commits and committed offsets against the embedded broker's coordinator, with manual assignment and broker failures.

committed() must return the offsets of every commit() that returned, whatever happens to brokers in between.
"""

from functools import partial

import pytest

from thinconsumer import Consumer
from thinconsumer.testing import Simulation
from thinconsumer.types import OffsetAndMetadata, TopicPartition

A, B, C = (TopicPartition("orders", n) for n in range(3))
note = partial(OffsetAndMetadata, metadata="note", leader_epoch=0)


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=3, topics={"orders": 3})


@pytest.fixture
def clients(sim):
    options = {"group_id": "g", "bootstrap_servers": sim.bootstrap_servers, "auto_offset_reset": "earliest"}
    with Consumer(driver=sim.driver(), **options) as first, Consumer(driver=sim.driver(), **options) as second:
        yield first, second


def test_committed_offsets_are_found(sim, clients):
    """By the same client, by another one, and as the start position."""
    sim.produce("orders", 0, [b"x"] * 20)
    first, second = clients
    first.commit({A: note(10), B: note(20)})
    first.commit({B: note(5)})
    for client in clients:
        assert client.committed([A, B], metadata=True) == {A: note(10), B: note(5)}
    second.assign([A, C])
    assert [second.position(A), second.position(C)] == [10, 0]


@pytest.mark.parametrize("way", ["kill", "pause"])
def test_commits_outlive_their_coordinator(sim, clients, way):
    """A killed coordinator closes its connections; a paused one never responds."""
    client, _ = clients
    client.commit({A: note(1)})
    coordinator = client._reader.managers.group.coordinator
    node = coordinator.node_id
    getattr(sim, way)(node)
    client.commit({A: note(2), B: note(2)})
    assert coordinator.node_id != node
    assert client.committed([A, B], metadata=True) == {A: note(2), B: note(2)}
