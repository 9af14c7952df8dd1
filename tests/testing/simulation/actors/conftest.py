"""Applications in small simulations: a reader of ten records, and members of a group."""

import pytest
from lab.checkers.rebalances import LogVolumeChecker

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Behaviour, Simulation


@pytest.fixture
def sim():
    """A topic with ten records in partition 0."""
    sim = Simulation(1, topics={"a": 2})
    sim.produce("a", 0, [b"%d" % number for number in range(10)])
    return sim


@pytest.fixture
def reader(sim):
    """Return a function that starts an application which reads partitions, by default a-0, from the beginning."""

    def start(*tps, name="ann", **options):
        return sim.consumer(tps or [TopicPartition("a", 0)], name=name, **{"auto_offset_reset": "earliest", **options})

    return start


@pytest.fixture
def start_member(sim):
    """Return a function that starts a group member of a class with these options and this behaviour."""

    def start(kind, name, group, options, behaviour, *, shards=0, **subscription):
        options = {"bootstrap_servers": sim.bootstrap_servers, "partition_assignment_strategy": ["range"], **options}
        actor = kind(
            sim.world, sim.network, name, sim.jury, LogVolumeChecker(sim.world.accuse, lambda tp: None), group=group,
            options=options, behaviour=Behaviour(**behaviour), **subscription,
        )  # fmt: skip
        if shards:
            actor.shards = shards
        actor.start()
        return actor

    return start
