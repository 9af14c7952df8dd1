"""Commits and committed offsets against the embedded broker's coordinator, with manual assignment and broker failures.

committed() must return the offsets of every commit() that returned, whatever happens to brokers in between.
"""

from typing import Any

import pytest

from thinconsumer.client import Engine, Shell
from thinconsumer.config import ConsumerConfig
from thinconsumer.group.commit_identity import CommitIdentity
from thinconsumer.group.commits import Commits
from thinconsumer.group.committed import Committed
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.metadata import Metadata
from thinconsumer.partitions import Partitions, PositionState
from thinconsumer.testing import Simulation
from thinconsumer.types import OffsetAndMetadata, TopicPartition

A, B = (TopicPartition("orders", n) for n in range(2))


class Committer:
    """The smallest client that commits."""

    def __init__(self, sim: Simulation, **options: Any) -> None:
        driver = sim.driver()
        config = ConsumerConfig.from_options(group_id="g", bootstrap_servers=sim.bootstrap_servers, **options)
        self.metadata = Metadata(config, driver.random)
        self.partitions = Partitions()
        self.coordinator = Coordinator(config, "g", self.metadata, driver.random)
        self.commits = Commits(
            config,
            self.coordinator,
            (),
            self.metadata,
            driver.random,
            read_identity=lambda: CommitIdentity(Identity(self.coordinator.group_id)),
        )
        self.found = Committed(config, self.coordinator, self.partitions, self.metadata, driver.random)
        managers = (self.coordinator, self.commits, self.found)
        self.shell = Shell("committer", Engine(config, driver.random, self.metadata, managers), driver)
        self.metadata.want(["orders"])

    def commit(self, *pairs: tuple[TopicPartition, int]) -> None:
        """Commit, and wait for the result."""
        offsets = {tp: OffsetAndMetadata(offset, "note", 0) for tp, offset in pairs}
        call = self.commits.add(offsets, self.shell.driver.now() + 60)
        assert self.shell.wait_until(lambda: call.done, 61)
        call.result()

    def committed(self, *tps: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets."""
        call = self.found.ask(tps)
        assert self.shell.wait_until(lambda: call.done, 61), call.last_error
        return call.result()

    def start(self, *tps: TopicPartition) -> list[PositionState]:
        """Start at the committed offsets; return the states once they are known."""
        self.partitions.assign(tps, start=PositionState.AWAITING_COMMITTED)
        assert self.shell.wait_until(
            lambda: all(p.state is not PositionState.AWAITING_COMMITTED for p in self.partitions), 61
        )
        return [p.state for p in self.partitions]


@pytest.fixture
def sim() -> Simulation:
    return Simulation(seed=1, brokers=3, topics={"orders": 3})


def test_committed_offsets_are_found(sim):
    """By the same client, by another one, and as the start position."""
    first = Committer(sim)
    first.commit((A, 10), (B, 20))
    first.commit((B, 5))
    expected = {A: OffsetAndMetadata(10, "note", 0), B: OffsetAndMetadata(5, "note", 0)}
    assert first.committed(A, B) == expected
    second = Committer(sim)
    assert second.committed(A, B) == expected
    nothing = TopicPartition("orders", 2)
    assert second.start(A, nothing) == [PositionState.VALIDATING, PositionState.AWAITING_RESET]


@pytest.mark.parametrize("way", ["kill", "pause"])
def test_commits_outlive_their_coordinator(sim, way):
    """A killed coordinator closes its connections; a paused one never responds."""
    client = Committer(sim)
    client.commit((A, 1))
    node = client.coordinator.node_id
    getattr(sim, way)(node)
    client.commit((A, 2), (B, 2))
    assert client.coordinator.node_id != node
    assert client.committed(A, B) == {A: OffsetAndMetadata(2, "note", 0), B: OffsetAndMetadata(2, "note", 0)}
