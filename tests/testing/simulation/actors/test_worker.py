"""Workers share shards by GroupMember: each shard has one owner, also after a crash, a close and a rejoin."""

import pytest
from lab import WorkerActor
from lab.actors.worker import SHARD

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation import Simulation


@pytest.fixture
def sim():
    return Simulation(seed=1, brokers=2, checkers=())


@pytest.fixture
def start(start_member):
    options = {"session_timeout_ms": 3000, "heartbeat_interval_ms": 1000}

    def start(name, **behaviour):
        return start_member(WorkerActor, name, "workers", options, behaviour, topics=(), pattern="", shards=5)

    return start


def shares(*actors):
    """Return how many shards each actor owns, 0 for all if the shares are not the whole work."""
    owned = [tp for actor in actors for tp in actor.assignment()]
    if sorted(owned) != [TopicPartition(SHARD, number) for number in range(5)]:
        return [0 for _ in actors]
    return [len(actor.assignment()) for actor in actors]


@pytest.mark.parametrize("blocks", [True, False])
def test_shards_are_shared_and_follow_a_crash_and_a_close(sim, start, blocks):
    ann, bob = start("ann", blocks=blocks), start("bob", blocks=blocks)
    sim.run_until(lambda: sorted(shares(ann, bob)) == [2, 3])
    assert ann.positions() == {} and ann.client is ann.worker
    ann.crash()
    assert ann.assignment() == set()
    sim.run_until(lambda: shares(bob) == [5])
    ann.start()
    sim.run_until(lambda: sorted(shares(ann, bob)) == [2, 3])
    with bob.busy():
        bob.close()
    sim.run_until(lambda: shares(ann) == [5], timeout=2.0)
