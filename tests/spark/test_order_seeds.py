"""Random runs of streams and batches over a topic while its partition count changes: the order of each key.

A run is one seed, without a JVM. Tasks are not run: the records of a planned range are those that the run has written
there.
"""

import json
import os
import random

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.0 and 4.1 have no limits to test with")

from thinconsumer import TopicPartition
from thinconsumer.linear_hashing import partition_of
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.spark.source import KafkaBatchReader, KafkaStreamReader
from thinconsumer_testing.broker.ordered.topic import CountChange

#: ``first:last``; CI runs a few.
FIRST, LAST = map(int, os.environ.get("THINCONSUMER_SPARK_ORDER_SEEDS", "1:30").split(":"))
TOPIC = "t"
MAX_PARTITIONS = 9
KEYS = 12


class World:
    """A cluster, the records written so far, and the queries that read them."""

    def __init__(self, cluster, seed, **given):
        self.random = random.Random(seed)
        # In some runs, brokers answer with metadata from before a change for a while.
        self.c = cluster({}, nodes=2, metadata_lag_s=self.random.choice([0, 0.4]))
        self.given = {"kafka.metadata.max.age.ms": "1000", **given}
        self.initial = self.count = self.random.randint(1, 3)
        self.rows = {}  #: (producer, key, sequence) by partition and offset.
        self.written = {}  #: By producer and key: the number of records.
        self.queries = []
        self.create()

    def create(self):
        configs = {"enable.ordered.delivery": "true", "retention.ms": "-1"}
        self.c.kafka.create_topic(TOPIC, self.initial, 2, configs)
        while not self.has_leaders():
            self.run(0.1)

    def run(self, seconds):
        for _ in range(10):
            self.c.kafka.clock.advance(seconds / 10)
            self.c.kafka.network.run_due()

    def write(self, count, producer=0, partitions=None):
        for _ in range(count):
            key = self.random.randrange(KEYS)
            sequence = self.written[producer, key] = self.written.get((producer, key), 0) + 1
            number = partition_of(key, self.initial, partitions or self.count)
            offset = self.c.kafka.append_batch(TopicPartition(TOPIC, number), build_batch([NewRecord(b"v")]))
            self.rows[number, offset] = producer, key, sequence

    def resize(self, count):
        (self.c.kafka.expand if count > self.count else self.c.kafka.shrink)(TOPIC, count)
        self.count = count
        while not self.has_leaders():
            self.run(0.1)

    def has_leaders(self):
        """Return whether the last change is completed, and all partitions have a leader that can be written to."""
        topic = self.c.kafka.controller.image.topics[TOPIC]
        for number, row in enumerate(topic.partitions):
            node = self.c.kafka.nodes.get(row.leader)
            partition = None if node is None else node.partitions.get(TopicPartition(TOPIC, number))
            # A leader that has not applied the last step rejects producers that have.
            if partition is None or not partition.is_leader or partition.leader_epoch != row.leader_epoch:
                return False
        return topic.ordered.change is CountChange.NONE

    def batch(self, **bounds):
        """Return the rows of a batch read."""
        given = {**self.given, **bounds}
        options = self.c.options(**given)
        return self.rows_of(KafkaBatchReader(options, (), self.c.client(**given)).partitions())

    def rows_of(self, tasks):
        """Return (partition, offset, row) of all records in the ranges of a plan."""
        ranges = [task.value for task in tasks]
        return [
            (one.tp.partition, offset, self.rows[one.tp.partition, offset])
            for one in ranges
            for offset in range(one.start, one.until)
            if (one.tp.partition, offset) in self.rows
        ]


class Query:
    """A stream with its checkpoint, which outlives the process that plans it."""

    def __init__(self, world, **given):
        self.world = world
        self.given = {"startingOffsets": "earliest", **world.given, **given}
        self.checkpoint = ["{}"]
        self.reached = {}  #: By producer and key: the sequence of the last record that was read.
        self.wrong = []
        self.is_repeatable = False  #: Whether all records of the last batch are still there.
        self.start()
        world.queries.append(self)

    def start(self, available_now=False):
        """Start a new process."""
        clock, options = self.world.c.kafka.clock, self.world.c.options(**self.given)
        client = self.world.c.client(**self.given)
        self.reader = KafkaStreamReader(options, (), client, clock.now, clock.now)
        self.limit = self.reader.getDefaultReadLimit()
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        if self.is_repeatable:  # Spark repeats a batch that was planned and not finished
            assert self.tasks() == self.planned

    def tasks(self):
        start, end = map(json.loads, self.checkpoint[-2:])
        return sorted((task.value for task in self.reader.partitions(start, end)), key=str)

    def trigger(self):
        """Read the next micro-batch, if there is one; return whether there was."""
        start = self.checkpoint[-1]
        end = json.dumps(self.reader.latestOffset(json.loads(start), self.limit))
        if end == start:
            return False
        self.checkpoint.append(end)
        self.planned, self.is_repeatable = self.tasks(), True
        self.take(self.planned)
        return True

    def take(self, ranges):
        """Check that each key's rows are the next ones, and in one partition."""
        by_key = {}
        for one in ranges:
            for offset in range(one.start, one.until):
                if (one.tp.partition, offset) in self.world.rows:
                    producer, key, sequence = self.world.rows[one.tp.partition, offset]
                    by_key.setdefault((producer, key), []).append((one.tp.partition, offset, sequence))
        for key, rows in by_key.items():
            if len({partition for partition, _, _ in rows}) > 1:
                self.wrong.append(f"{key} in several partitions of one micro-batch: {rows}")
            for partition, offset, sequence in sorted(rows):
                if sequence != self.reached.get(key, 0) + 1:
                    self.wrong.append(f"{key}: {sequence} in {partition} at {offset} after {self.reached.get(key, 0)}")
                self.reached[key] = max(sequence, self.reached.get(key, 0))

    def position(self, number):
        return json.loads(self.checkpoint[-1]).get(TOPIC, {}).get(str(number))


def run_seed(cluster, seed, actions=60, **given):
    world = World(cluster, seed, **given)
    draw = world.random
    queries = [Query(world, **draw.choice([{}, {"maxOffsetsPerTrigger": str(draw.randint(1, 8))}])) for _ in range(2)]
    batches = []
    for _ in range(actions):
        act(world, draw, queries, batches)
    world.run(1.0)
    for query in queries:
        query.start()
        while query.trigger():
            pass
        if query.reached != world.written:
            query.wrong.append(f"read {query.reached}, written {world.written}")
    assert world.c.kafka.bugs == []
    return [error for query in queries for error in query.wrong] + batches


def act(world, draw, queries, batches):
    what = draw.choice(
        ["write"] * 3 + ["trigger"] * 4 + ["resize", "restart", "available now", "retention", "batch", "leader"]
    )
    query = draw.choice(queries)
    if what == "write":
        world.write(draw.randint(1, 8))
    elif what == "trigger":
        query.trigger()
    elif what == "resize":
        resize(world, draw)
    elif what == "restart":
        query.start()
    elif what == "available now":
        query.start(available_now=True)
        world.write(draw.randint(0, 2))
        for _ in range(200):
            if not query.trigger():
                break
        else:
            query.wrong.append("AvailableNow does not end")
        query.start()
    elif what == "retention":
        remove_read_partitions(world)
    elif what == "batch":
        batches += wrong_batch(world, draw)
    else:
        tp = TopicPartition(TOPIC, draw.randrange(world.count))
        world.c.kafka.move_leader(tp, draw.choice([1, 2]))
        while not world.has_leaders():
            world.run(0.1)


def resize(world, draw):
    """Change the count; while partitions are marked for deletion, only to a lower one."""
    marked = len(world.c.kafka.controller.image.topics[TOPIC].partitions) > world.count
    counts = range(world.initial, (world.count if marked else MAX_PARTITIONS) + 1)
    count = draw.choice(counts)
    if count != world.count:
        world.resize(count)


def remove_read_partitions(world):
    """Let retention empty the partitions marked for deletion that all queries have read, and remove them."""
    while (existing := len(world.c.kafka.controller.image.topics[TOPIC].partitions)) > world.count:
        number = existing - 1
        end = world.c.kafka.leader(TopicPartition(TOPIC, number)).log.end_offset
        if any((query.position(number) or 0) < end for query in world.queries):
            return
        world.c.kafka.delete_records(TopicPartition(TOPIC, number), end)
        for query in world.queries:
            query.is_repeatable = False
        for tp in [tp for tp in world.rows if tp[0] == number]:
            del world.rows[tp]
        world.c.kafka.controller.counts.remove_emptied()
        world.run(0.5)


def wrong_batch(world, draw):
    """Read a batch from the log starts to random ends; return what is wrong: each key must have its first rows."""
    world.run(1.0)  # after a leader change, the high watermark is behind the log end for a moment
    existing = range(len(world.c.kafka.controller.image.topics[TOPIC].partitions))
    ends = {str(number): world.c.kafka.leader(TopicPartition(TOPIC, number)).log.end_offset for number in existing}
    starts = {str(number): world.c.kafka.leader(TopicPartition(TOPIC, number)).log.start_offset for number in existing}
    wanted = {number: draw.choice([-1, draw.randint(starts[number], end)]) for number, end in ends.items()}
    found = world.batch(startingOffsets="earliest", endingOffsets=json.dumps({TOPIC: wanted}))
    present = {}
    for row in world.rows.values():
        present.setdefault(row[:2], set()).add(row[2])
    read = {}
    for _, _, row in found:
        read.setdefault(row[:2], set()).add(row[2])
    return [
        f"a batch up to {wanted} has {sorted(rows)} of {key}, and {sorted(present[key])} exist"
        for key, rows in read.items()
        if sorted(rows) != sorted(present[key])[: len(rows)]
    ]


GRACE_S = 60.0
BARRIER = {"kafka.ordered.delivery": "barrier", "kafka.ordered.delivery.grace.ms": "60000"}


class PlainWorld(World):
    """A topic as real Kafka has them, and two producers that use the old count for up to the grace time."""

    def create(self):
        self.c.kafka.create_topic(TOPIC, self.initial, 2)
        self.run(1.0)
        self.counts = [self.count] * 2
        self.changed_at = 0.0

    def expand(self, count):
        self.refresh()
        self.c.kafka.expand(TOPIC, count)
        self.count, self.changed_at = count, self.c.kafka.clock.now()
        self.run(1.0)

    def refresh(self):
        self.counts = [self.count] * 2

    def write_some(self, count):
        if self.c.kafka.clock.now() > self.changed_at + GRACE_S:
            self.refresh()
        producer = self.random.randrange(2)
        self.write(count, producer, self.counts[producer])


def run_barrier_seed(cluster, seed, actions=60, **given):
    """Run one seed on a topic without ordered delivery; return the errors."""
    world = PlainWorld(cluster, seed, **{**BARRIER, **given})
    draw = world.random
    query = Query(world, **draw.choice([{}, {"maxOffsetsPerTrigger": str(draw.randint(1, 8))}]))
    world.write_some(5)
    query.trigger()
    for _ in range(actions):
        what = draw.choice(["write"] * 3 + ["trigger"] * 3 + ["expand", "restart", "refresh", "wait"])
        if what == "write":
            world.write_some(draw.randint(1, 6))
        elif what == "trigger":
            query.trigger()
        elif what == "expand" and world.count < MAX_PARTITIONS:
            world.expand(draw.randint(world.count + 1, MAX_PARTITIONS))
        elif what == "restart":
            query.start(available_now=draw.random() < 0.3)
        elif what == "refresh":
            world.counts[draw.randrange(2)] = world.count
        else:
            world.run(draw.choice([5.0, 20.0, 61.0]))
    query.start()
    for _ in range(3):
        world.run(GRACE_S + 1)
        while query.trigger():
            pass
    return query.wrong + ([] if query.reached == world.written else ["not everything was read"])


@pytest.mark.parametrize("seed", range(FIRST, LAST + 1))
def test_each_key_is_in_order_over_micro_batches_and_batches_have_the_first_records(cluster, seed):
    assert run_seed(cluster, seed) == []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + (LAST - FIRST + 1) // 3))
def test_with_a_barrier_the_order_of_each_producer_and_key_is_kept(cluster, seed):
    assert run_barrier_seed(cluster, seed) == []


@pytest.mark.parametrize("given", [{"kafka.ordered.delivery.grace.ms": "0"}, {"kafka.ordered.delivery": "topic"}])
def test_with_too_short_a_grace_time_or_without_a_barrier_keys_are_out_of_order(cluster, given):
    """The checks find a wrong order where there is one."""
    assert all(run_barrier_seed(cluster, seed, **given) for seed in (7, 16, 20))


def test_without_gates_keys_are_out_of_order(cluster):
    """The checks find a wrong order where there is one."""
    wrong = [run_seed(cluster, seed, **{"kafka.ordered.delivery": "off"}) for seed in range(1, 6)]
    assert sum(map(bool, wrong)) >= 4
