"""Random faults and operations on clusters: committed and acknowledged records survive, and replicas converge."""

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer_testing.broker.cluster import Cluster
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.controller import CONTROLLER, ControllerError

pytestmark = pytest.mark.once

NODES = (1, 2, 3, 4)


class World:
    """A cluster, a random source, and a record of everything committed and acknowledged."""

    def __init__(self, seed: int, *, unclean: bool = False, wild: bool = False) -> None:
        self.draw = draw = random.Random(seed)
        self.unclean = unclean
        self.wild = wild  #: Whether callbacks perform operations immediately.
        config = BrokerConfig(
            replication_s=draw.choice([0, 0, 0.05, 0.4]),
            metadata_lag_s=draw.choice([0, 0, 0.2, 1.5]),
            min_insync_replicas=draw.choice([1, 2, 2]),
            unclean_leader_election_enable=unclean,
            replica_lag_time_max_ms=draw.choice([800, 5000]),
            broker_session_timeout_ms=500,
        )
        self.cluster = Cluster(len(NODES), {"a": 2, "b": 1}, random=random.Random(seed + 1), config=config)
        self.cluster.controller.ensure_internal_topic("__consumer_offsets")
        self.now = 0.0
        self.number = 0
        self.asked: Counter[bytes] = Counter()
        self.told: Counter[bytes] = Counter()
        self.acked: dict[tuple[bytes, int], list[tuple[int, bytes]]] = {}
        #: By topic id and partition: offset -> batch, once it is committed on any replica.
        self.committed: dict[tuple[bytes, int], dict[int, bytes]] = {}
        self.checked: dict[object, tuple[int, int, bool]] = {}
        self.depth = 0

    # -- steps

    def tp(self) -> TopicPartition:
        topics = list(self.cluster.controller.image.topics.values()) or [None]
        topic = self.draw.choice(topics)
        if topic is None:
            return TopicPartition("a", 0)
        return TopicPartition(topic.name, self.draw.randrange(len(topic.partitions)))

    def kill(self) -> None:
        self.cluster.kill(self.draw.choice(NODES), noticed_after_s=self.draw.choice([None, 0, 0.1, 3.0]))

    def start(self) -> None:
        self.cluster.start(self.draw.choice(NODES))

    def pause(self) -> None:
        self.cluster.pause(self.draw.choice(NODES))

    def resume(self) -> None:
        self.cluster.resume(self.draw.choice(NODES))

    def cut(self) -> None:
        self.cluster.cut(*self.draw.sample([*NODES, CONTROLLER], 2))

    def heal(self) -> None:
        self.cluster.heal()

    def move(self) -> None:
        self.cluster.move_leader(self.tp(), self.draw.choice([None, *NODES]))

    def expand(self) -> None:
        topic = self.cluster.controller.image.topics.get("a")
        if topic is not None and len(topic.partitions) < 5:
            self.cluster.expand("a", len(topic.partitions) + 1)

    def delete(self) -> None:
        self.cluster.delete_topic(self.draw.choice(["a", "b"]))

    def create(self) -> None:
        self.cluster.create_topic(self.draw.choice(["a", "b"]), 2, self.draw.choice([1, 2, 3]))

    def delete_records(self) -> None:
        tp = self.tp()
        if tp.topic in ("a", "b"):
            leader = self.cluster.leader(tp)
            self.cluster.delete_records(tp, self.draw.randrange(leader.log.end_offset + 1))

    def elect_unclean(self) -> None:
        if self.unclean:
            self.cluster.controller.elect_unclean(self.tp(), self.draw.choice(NODES))

    def produce(self) -> None:
        """Write to any broker that acts as leader."""
        for node_id in NODES:
            node = self.cluster.nodes[node_id]
            for partition in list(node.partitions.values()):
                if node.is_running and partition.is_leader and self.draw.random() < 0.5:
                    self.append(partition)

    def append(self, partition) -> None:
        self.number += 1
        value = b"%d" % self.number
        acks = self.draw.choice([0, 1, -1, -1, -1])
        self.asked[value] += 1

        def done(code, appended=None):
            self.told[value] += 1
            if code == 0 and acks == -1:
                key = (partition.topic_id, partition.tp.partition)
                self.acked.setdefault(key, []).append((appended.base_offset, value))
            if self.wild and self.depth < 3 and self.draw.random() < 0.2:
                self.depth += 1
                self.happen()
                self.depth -= 1

        batch = build_batch([NewRecord(value, timestamp=1)])
        partition.append(batch, acks, done, timeout_s=self.draw.choice([0.3, 5.0]))

    EVENTS = (
        (kill, 3), (start, 6), (pause, 3), (resume, 6), (cut, 4), (heal, 4), (move, 5), (expand, 1), (delete, 1),
        (create, 2), (delete_records, 1), (elect_unclean, 1), (produce, 45),
    )  # fmt: skip

    def happen(self) -> None:
        event = self.draw.choices([e for e, _ in self.EVENTS], [w for _, w in self.EVENTS])[0]
        try:
            event(self)
        except (ControllerError, LookupError):
            pass

    def step(self) -> None:
        self.now += self.draw.choice([0.0, 0.02, 0.3, 1.0]) * self.draw.random()
        self.cluster.advance(self.now)
        self.happen()
        self.look()

    # -- invariants

    def look(self) -> None:
        for node in self.cluster.nodes.values():
            assert node.is_alive or not node.partitions
            for partition in node.partitions.values():
                self.look_at(partition)

    def look_at(self, partition) -> None:
        epoch, before, led = self.checked.get(partition, (-1, 0, False))
        high = partition.high_watermark
        assert high <= partition.log.end_offset
        if led and partition.is_leader:
            assert high >= before, partition
        self.checked[partition] = partition.leader_epoch, high, partition.is_leader
        if self.unclean or high == before == partition.log.high_watermark:
            return
        known = self.committed.setdefault((partition.topic_id, partition.tp.partition), {})
        for batch in partition.log.batches_from(before if epoch >= 0 else 0):
            if batch.next_offset <= high:
                assert known.setdefault(batch.base_offset, batch.data) == batch.data, (partition, batch.base_offset)

    # -- final checks

    def finish(self) -> None:
        cluster = self.cluster
        self.wild = False
        for node_id in NODES:
            cluster.resume(node_id)
            cluster.start(node_id)
        cluster.heal()
        self.now += 100.0
        cluster.advance(self.now)
        self.look()
        assert self.told == self.asked, "each append is answered once"
        assert cluster.bugs == []
        assert cluster.replication._scheduled_fetches == set()
        assert len([timer for _, _, timer in cluster.schedule._heap if timer.is_pending]) < 40
        for topic in cluster.controller.image.topics.values():
            for row in topic.partitions:
                self.check(row)
        for node in cluster.nodes.values():
            assert node.image == cluster.controller.image
            rows = {r.tp for t in node.image.topics.values() for r in t.partitions if node.node_id in r.replicas}
            assert set(node.partitions) == rows
            assert not node._pending_deltas
        assert set(cluster._logs) == {(n.node_id, tp) for n in cluster.nodes.values() for tp in n.partitions}
        assert cluster.controller._reassignments == {}

    def check(self, row) -> None:
        replicas = [self.cluster.nodes[n].partitions[row.tp] for n in row.replicas]
        leader = self.cluster.leader(row.tp)
        assert set(row.isr) == set(row.replicas)
        assert {r.leader_epoch for r in replicas} == {row.leader_epoch}
        assert {r.high_watermark for r in replicas} == {leader.log.end_offset}
        assert {r.log.end_offset for r in replicas} == {leader.log.end_offset}
        assert [r for r in replicas if r._delayed_produces or r._listeners] == []
        start = max(r.log.start_offset for r in replicas)
        held = [[b.data for b in r.log.batches_from(start)] for r in replicas]
        assert held == [held[0]] * len(held)
        if self.unclean:
            return
        known = self.committed.get((row.topic_id, row.partition), {})
        stored = {b.base_offset: b.data for b in leader.log.batches_from(0)}
        assert [offset for offset, data in known.items() if offset >= start and stored.get(offset) != data] == []
        read = {
            r.offset: r.value
            for b in leader.log.read_batches(start, leader.log.end_offset)
            if not b.is_control
            for r in b.decode(row.topic, row.partition)
        }
        acked = self.acked.get((row.topic_id, row.partition), [])
        assert [pair for pair in acked if pair[0] >= start and read.get(pair[0]) != pair[1]] == []


@pytest.mark.parametrize("seed", [*range(16), 34, 314])
def test_committed_records_survive_random_faults(seed):
    world = World(seed)
    for _ in range(150):
        world.step()
    world.finish()
    assert sum(map(len, world.acked.values())) > 0


@pytest.mark.parametrize("seed", [*range(8), 24, 46, 219])
def test_committed_records_survive_operations_in_callbacks(seed):
    """Callbacks kill and move brokers, delete topics, heal cuts and produce."""
    world = World(seed, wild=True)
    for _ in range(150):
        world.step()
    world.finish()


@pytest.mark.parametrize("seed", [*range(8), 103, 149])
def test_replicas_converge_after_unclean_elections(seed):
    world = World(seed, unclean=True)
    for _ in range(150):
        world.step()
    world.finish()


def fate(seed: int) -> str:
    """Return the complete final state of a world."""
    world = World(seed, wild=True)
    for _ in range(150):
        world.step()
    cluster = world.cluster
    logs = {where: [b.data for b in log.batches_from(0)] for where, (_, log) in cluster._logs.items()}
    told = repr((world.now, cluster.controller.image, logs, list(world.told.items()), cluster.wake_at()))
    return hashlib.sha256(told.encode()).hexdigest()


def test_same_seed_gives_the_same_result_in_every_process():
    """Set order of strings and bytes differs between processes; nothing may depend on it."""
    program = "import sys, runpy; print(runpy.run_path(sys.argv[1])['fate'](1))"
    done = subprocess.run(
        [sys.executable, "-c", program, __file__],
        env={**os.environ, "PYTHONHASHSEED": "1234"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fate(1)
