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
from thinconsumer_testing.broker.group.consumer.states import ConsumerGroupState

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
        self.dead: list[Consumer[Any, Any]] = []
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

    def remove(self, consumer: Consumer[Any, Any], *, crash: bool = False) -> None:
        self.consumers.remove(consumer)
        if crash:
            self.dead.append(consumer)
        else:
            consumer.close()

    def shards(self) -> Iterator[Any]:
        """Yield the coordinators of all partitions of ``__consumer_offsets``."""
        for node in self.cluster.nodes.values():
            yield from node.group_coordinator.shards.values()

    @property
    def group(self) -> ConsumerGroup:
        """The group at its present coordinator."""
        (found,) = [shard.latest.consumer_group(GROUP) for shard in self.shards() if GROUP in shard.latest.groups]
        assert found is not None
        return found

    @property
    def coordinator(self) -> int:
        return next(
            number
            for number, node in self.cluster.nodes.items()
            for shard in node.group_coordinator.shards.values()
            if GROUP in shard.latest.groups
        )

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
        for consumer in (*one.consumers, *one.dead):
            consumer.close(timeout_ms=0)
        assert one.cluster.bugs == []


def test_members_come_and_go_and_every_record_is_read_once(new_cluster_of: Any) -> None:
    world = new_cluster_of()
    first, second = world.consumer(), world.consumer()
    world.run(3)
    assert world.sizes() == [2, 2]
    third = world.consumer()
    world.run(3)
    assert world.sizes() == [1, 1, 2]
    world.remove(first)
    world.run(3)
    assert world.sizes() == [2, 2]
    world.remove(second)
    world.run(3)
    assert third.assignment() == {TopicPartition("t", n) for n in range(4)}
    world.run(0.2)
    assert set(world.read.values()) == {1}
    assert len(world.read) >= len(world.written) - 4


def test_the_partitions_of_a_dead_member_move_after_its_session(new_cluster_of: Any) -> None:
    world = new_cluster_of()
    world.consumer()
    dead = world.consumer()
    world.run(3)
    world.remove(dead, crash=True)
    world.run(5)
    assert len(world.group.members) == 2
    world.run(3)
    assert len(world.group.members) == 1
    assert world.sizes() == [4]
    assert len(world.read) >= len(world.written) - 4


def test_members_stay_while_their_coordinator_moves(new_cluster_of: Any) -> None:
    world = new_cluster_of(3)
    for _ in range(3):
        world.consumer()
    world.run(4)
    epoch, killed = world.group.epoch, world.coordinator
    world.cluster.kill(killed)
    world.run(8)
    assert world.coordinator != killed
    assert (world.group.epoch, world.group.state) == (epoch, ConsumerGroupState.STABLE)
    assert world.sizes() == [1, 1, 2]
    world.cluster.start(killed)
    world.consumer()
    world.run(8)
    assert world.sizes() == [1, 1, 1, 1]
    assert len(world.read) >= len(world.written) - 8


def test_a_static_member_restarts_without_a_rebalance(new_cluster_of: Any) -> None:
    world = new_cluster_of()
    world.consumer()
    static = world.consumer(group_instance_id="one")
    world.run(3)
    epoch, before = world.group.epoch, static.assignment()
    world.remove(static)
    world.run(1)
    back = world.consumer(group_instance_id="one")
    world.run(2)
    assert (world.group.epoch, back.assignment()) == (epoch, before)
    assert set(world.read.values()) == {1}


def test_new_partitions_are_assigned(new_cluster_of: Any) -> None:
    world = new_cluster_of(1, 2, metadata_lag_s=0.0)
    world.consumer(metadata_max_age_ms=1_000)
    world.consumer(metadata_max_age_ms=1_000)
    world.run(2)
    world.cluster.expand("t", 5)
    world.partitions = 5
    world.run(4)
    assert world.sizes() == [2, 3]


def test_offsets_are_committed_with_the_members_epoch(new_cluster_of: Any) -> None:
    world = new_cluster_of()
    consumer = world.consumer(enable_auto_commit=False)
    world.run(2)
    consumer.commit()
    world.consumer()
    consumer.poll(0)
    consumer.commit()
    world.run(2)
    consumer.commit()
    assert world.sizes() == [2, 2]


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
    assert not any(GROUP in shard.latest.groups and shard.latest.consumer_group(GROUP) for shard in world.shards())
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
    (group,) = [shard.latest.groups[GROUP] for shard in world.shards() if GROUP in shard.latest.groups]
    generation = group.generation
    for name in ("one", "two"):
        restart(world, name, **classic)
    assert group.generation == generation, "the leader has found that its assignment is complete"
    for options, is_consumer_group in (({}, True), (classic, False)):
        for name in ("one", "two"):
            restart(world, name, **options)
            assert world.sizes() == [2, 2]
        moved = [shard.latest.consumer_group(GROUP) for shard in world.shards() if GROUP in shard.latest.groups]
        assert [one is not None for one in moved] == [is_consumer_group]
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
    assert world.sizes() == [4] and not any(
        shard.latest.consumer_group(GROUP) for shard in world.shards() if GROUP in shard.latest.groups
    )
    world.consumers.append(asleep)
    world.run(6)
    assert world.sizes() == [2, 2] and world.group.members and classic.assignment()
