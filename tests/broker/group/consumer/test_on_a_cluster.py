"""Consumer groups on whole clusters, with this project's own consumers as members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from thinconsumer import BrokerResponseError, Consumer, TopicPartition
from thinconsumer.testing import MemoryCluster
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.group import ClassicGroup

pytestmark = pytest.mark.once  # simulated clusters come out the same on each interpreter

GROUP = "billing"
OPTIONS = {
    "group_id": GROUP,
    "group_protocol": "consumer",
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 200,
}


class World:
    """A cluster in memory, its consumers, and how often each record was read."""

    def __init__(self, nodes: int, partitions: int, **config: Any) -> None:
        settings = {"group_consumer_session_timeout_ms": 6_000, "group_consumer_heartbeat_interval_ms": 200, **config}
        self.cluster = MemoryCluster(nodes, {"t": partitions}, **settings)
        self.partitions = partitions
        self.consumers: list[Consumer[Any, Any]] = []
        self.made = 0
        self.read: Counter[bytes] = Counter()
        self.written: list[bytes] = []

    def consumer(self, **options: Any) -> Consumer[Any, Any]:
        """Return a consumer of topic ``t`` that uses the consumer group protocol."""
        self.made += 1
        driver = self.cluster.driver(self.made)  # with the same seed, two members would have the same id
        settings = {"bootstrap_servers": self.cluster.bootstrap_servers, **OPTIONS, **options}
        found: Consumer[Any, Any] = Consumer("t", driver=driver, **settings)
        self.consumers.append(found)
        return found

    def run(self, seconds: float) -> None:
        """Write records, and let the consumers poll in turn."""
        end = self.cluster.clock.now() + seconds
        while self.cluster.clock.now() < end:
            value = str(len(self.written)).encode()
            with suppress(LookupError):  # while the partition has no leader
                self.cluster.produce("t", [value], partition=len(self.written) % self.partitions)
                self.written.append(value)
            for consumer in self.consumers:
                for records in consumer.poll(50).values():
                    self.read.update(bytes(record.value) for record in records)

    def remove(self, consumer: Consumer[Any, Any]) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    @property
    def group(self) -> ClassicGroup | ConsumerGroup:
        """The group at its present coordinator."""
        shards = (shard for node in self.cluster.nodes.values() for shard in node.group_coordinator.shards.values())
        (found,) = [shard.latest.groups[GROUP] for shard in shards if GROUP in shard.latest.groups]
        return found

    def sizes(self) -> list[int]:
        """Return how many partitions each consumer owns; together they own each partition once."""
        owned = [consumer.assignment() for consumer in self.consumers]
        assert sorted(set().union(*owned)) == [TopicPartition("t", n) for n in range(self.partitions)]
        assert sum(map(len, owned)) == self.partitions
        return sorted(map(len, owned))


@pytest.fixture
def new_cluster_of() -> Iterator[Any]:
    made: list[World] = []

    def make(nodes: int = 1, partitions: int = 4, **config: Any) -> World:
        made.append(World(nodes, partitions, **config))
        return made[-1]

    yield make
    for one in made:
        for consumer in one.consumers:
            consumer.close(timeout_ms=0)
        assert one.cluster.bugs == []


def classic_options(strategy: str) -> dict[str, Any]:
    return {
        "group_protocol": "classic",
        "partition_assignment_strategy": [strategy],
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 200,
    }


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_moves_to_the_other_protocol_and_back_one_member_at_a_time(new_cluster_of: Any, strategy: str) -> None:
    """Each record is read once, and partitions that do not move are read on; eager members revoke all they have."""
    classic = classic_options(strategy)
    world = new_cluster_of()
    for _ in range(2):
        world.consumer(**classic)
    world.run(3)
    for options in ({}, classic):
        for _ in range(2):
            world.consumer(**options)
            world.run(4)
            assert world.sizes() == [1, 1, 2]
            world.remove(world.consumers[0])
            world.run(4)
            assert world.sizes() == [2, 2]
    assert isinstance(world.group, ClassicGroup)
    world.run(0.2)
    assert set(world.read.values()) == {1}
    assert len(world.read) >= len(world.written) - 4


def restart(world: World, name: str, **options: Any) -> None:
    """Restart a static member, with other options."""
    world.remove(next(one for one in world.consumers if one._reader.managers.config.group_instance_id == name))
    world.consumer(group_instance_id=name, **options)
    world.run(4)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_of_static_members_moves_both_ways_after_its_leader_has_restarted(
    new_cluster_of: Any, strategy: str
) -> None:
    """Kafka moves no group with user data in an assignment, so a leader must not need any to know the assignment."""
    classic = classic_options(strategy)
    world = new_cluster_of()
    for name in ("one", "two"):
        world.consumer(group_instance_id=name, **classic)
    world.run(4)
    group = world.group
    assert isinstance(group, ClassicGroup)
    generation = group.generation
    for name in ("one", "two"):
        restart(world, name, **classic)
    assert group.generation == generation, "the leader has found that its assignment is complete"
    for options, is_consumer_group in (({}, True), (classic, False)):
        for name in ("one", "two"):
            restart(world, name, **options)
            assert world.sizes() == [2, 2]
        assert isinstance(world.group, ConsumerGroup) is is_consumer_group
    world.run(0.2)
    assert set(world.read.values()) == {1}
    assert len(world.read) >= len(world.written) - 4


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_that_came_while_a_static_leader_was_down_are_assigned(new_cluster_of: Any, strategy: str) -> None:
    """Java's leader does not notice them (KIP-814)."""
    world = new_cluster_of(1, 2, metadata_lag_s=0.0)
    for name in ("one", "two"):
        world.consumer(group_instance_id=name, **classic_options(strategy))
    world.run(4)
    for consumer in list(world.consumers):
        world.remove(consumer)
    world.cluster.expand("t", 5)
    world.partitions = 5
    for name in ("one", "two"):
        world.consumer(group_instance_id=name, **classic_options(strategy))
    world.run(4)
    assert world.sizes() == [2, 3]


def test_a_group_that_may_not_move_tells_what_to_do(new_cluster_of: Any) -> None:
    """``"consumer"`` raises the ways out in every poll; ``"auto"`` takes one of them."""
    world = new_cluster_of(group_consumer_migration_policy="disabled")
    classic = {"group_protocol": "classic", "partition_assignment_strategy": ["cooperative-sticky"]}
    first = world.consumer(**classic)
    world.run(4)
    stubborn = world.consumer()
    for _ in range(2):
        first.poll(20)
        with pytest.raises(BrokerResponseError, match="online upgrade is disabled") as caught:
            stubborn.poll(1000)
        assert "group_protocol='classic' or 'auto'" in str(caught.value)
        assert "group.consumer.migration.policy" in str(caught.value)
    world.remove(stubborn)
    world.consumer(group_protocol="auto")
    world.run(8)
    assert world.sizes() == [2, 2] and not world.consumers[-1]._reader.managers.group.member.has_epochs


def test_a_member_whose_group_has_become_a_classic_one_joins_again(new_cluster_of: Any) -> None:
    """Its session ended, and only members of the classic protocol were left."""
    world = new_cluster_of()
    asleep = world.consumer()
    world.run(2)
    classic = world.consumer(group_protocol="classic", partition_assignment_strategy=["cooperative-sticky"])
    world.run(4)
    assert world.sizes() == [2, 2]
    world.consumers.remove(asleep)
    world.run(10)
    assert world.sizes() == [4] and isinstance(world.group, ClassicGroup)
    world.consumers.append(asleep)
    world.run(6)
    assert world.sizes() == [2, 2] and world.group.members and classic.assignment()
