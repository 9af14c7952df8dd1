"""The accumulator: batches and partitions of records, deadlines, and the count of bytes."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import DefaultPartitioner
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from thinconsumer import TopicPartition
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.partitioning import murmur2
from thinconsumer.produce import ProducerSettings
from thinconsumer.produce.accumulator import Accumulator, StickyPartitioner
from thinconsumer.produce.batch import RECORD_OVERHEAD
from thinconsumer.records.builder import NewRecord
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node, PartitionInfo


class AccumulatorSetup:
    """An accumulator and its metadata."""

    def __init__(self, **options):
        settings = ProducerSettings.from_options(**options)
        self.metadata = Metadata(settings, random.Random(1), Agenda())
        self.metadata.nodes = {1: Node(1, "h", 1)}
        self.accumulator = Accumulator(settings, random.Random(1), Agenda())

    def know(self, topic="t", leaders=(1, 1)):
        infos = {n: PartitionInfo(topic, n, leader, 0, (), (), ()) for n, leader in enumerate(leaders)}
        self.metadata.topics[topic] = TopicMetadata(topic, partitions=infos)
        self.accumulator.update(self.metadata)

    def append(self, topic, partition, size, now=1.0):
        """Append as the producer does, and assign partitions as the sender does."""
        record = NewRecord(b"v" * (size - RECORD_OVERHEAD), timestamp=5)
        future = self.accumulator.append(topic, partition, record, size, now)
        self.accumulator.update(self.metadata)
        return future

    def queues(self):
        return {queue.tp: [len(batch) for batch in queue.batches] for queue in self.accumulator.active}


def test_a_record_larger_than_batch_size_gets_its_own_batch():
    m = AccumulatorSetup(batch_size=100)
    m.know()
    for size in (30, 500, 30):
        m.append("t", 0, size, 1.0)
    assert m.queues() == {TopicPartition("t", 0): [1, 1, 1]}


def test_no_batch_is_larger_than_a_request():
    m = AccumulatorSetup(batch_size=10**6, max_request_size=1024)
    m.know()
    for _ in range(4):
        m.append("t", 0, 500, 1.0)
    m.accumulator.update(m.metadata)
    assert m.queues() == {TopicPartition("t", 0): [2, 2]}


def test_a_batch_of_unassigned_records_has_the_first_ones_deadline():
    m = AccumulatorSetup()
    m.append("t", 0, 30, 1.0)
    m.append("t", 0, 30, 50.0)
    m.know()
    assert [batch.deadline for queue in m.accumulator.active for batch in queue.batches] == [121.0]


def test_records_without_metadata_keep_their_order_and_their_explicit_partitions():
    m = AccumulatorSetup(batch_size=90)
    futures = [m.append("t", partition, 30) for partition in (1, None, 1, 0, 0, 0, 0, None)]
    assert all(queue.tp.partition == -1 for queue in m.accumulator.active)
    m.know(leaders=(1, -1))  # records without a partition go to the one with a leader
    assert m.queues() == {TopicPartition("t", 1): [2], TopicPartition("t", 0): [3, 3]}
    for queue in m.accumulator.active:
        for number, batch in enumerate(queue.batches):
            batch.acknowledge(10 * number, -1)
    assert [(one.result().partition, one.result().offset) for one in futures] == [
        (1, 0), (0, 0), (1, 1), (0, 1), (0, 2), (0, 10), (0, 11), (0, 12),
    ]  # fmt: skip


def test_explicit_and_chosen_partitions_of_an_uncounted_topic_share_batches():
    m = AccumulatorSetup()
    m.know(leaders=(1,))
    for number in range(20):
        m.append("t", 0 if number % 2 else None, 30, 1.0)
    assert m.queues() == {TopicPartition("t", 0): [20]}


def test_a_record_without_metadata_does_not_fail_long_before_its_own_deadline():
    m = AccumulatorSetup()
    for now in (0.0, 0.5, 29.0):
        m.append("t", None, 30, now)
    (queue,) = m.accumulator.active
    first, second = (batch.deadline for batch in queue.batches)
    assert second == first + 29.0


def test_records_without_a_key_go_to_partitions_with_a_leader():
    m = AccumulatorSetup(batch_size=1)
    m.know(leaders=(-1, 1, 7))
    for _ in range(20):
        m.append("t", None, 30, 1.0)
    assert list(m.queues()) == [TopicPartition("t", 1)]


def test_a_queue_moves_to_the_end_while_it_has_batches():
    m = AccumulatorSetup()
    m.know()
    m.append("t", 0, 30, 1.0)
    m.append("t", 1, 30, 1.0)
    first, second = m.accumulator.active
    m.accumulator.move_to_end(first)
    assert list(m.accumulator.active) == [second, first]
    second.batches[0].acknowledge(0, -1)
    m.accumulator.remove_first(second)
    m.accumulator.move_to_end(second)
    assert list(m.accumulator.active) == [first]


def test_repair_restores_counts_after_an_interrupted_call():
    m = AccumulatorSetup(batch_size=60)
    m.know()
    for _ in range(4):
        m.append("t", 0, 30, 1.0)
    m.append("waits", 0, 27, 1.0)
    queue, _ = m.accumulator.active
    queue.batches[0].acknowledge(0, -1)  # settled, and not yet removed
    m.accumulator.active.clear()
    m.accumulator.buffered_bytes = 999
    m.accumulator.repair()
    assert m.queues() == {TopicPartition("t", 0): [2], TopicPartition("waits", -1): [1]}
    assert m.accumulator.buffered_bytes == 87


#: From Kafka's own UtilsTest.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


class Cluster:
    """The cluster metadata that kafka-python's partitioner reads."""

    def __init__(self, partitions):
        self._partitions = partitions

    def topics(self):
        return {"t"}

    def partitions_for_topic(self, topic):
        return set(range(self._partitions))

    available_partitions_for_topic = partitions_for_topic


@pytest.mark.parametrize(("key", "signed"), JAVA.items())
def test_murmur2_equals_javas(key, signed):
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=70))
def test_murmur2_equals_kafka_pythons(key):
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_partitions_of_keys_equal_kafka_pythons(key, partitions):
    expected = DefaultPartitioner().partition("t", key, key, b"", b"", Cluster(partitions))
    buffer = SimpleNamespace(partitions=partitions)
    assert Accumulator._choose_partition(buffer, None, key, 1) == expected


def test_a_partition_is_kept_for_stick_bytes():
    sticky = StickyPartitioner(1000, random.Random(1))
    chosen = [sticky.choose(100, 50, range(50)) for _ in range(100)]
    runs = [chosen[start : start + 10] for start in range(0, 100, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len(set(chosen)) > 5


def test_partitions_get_equal_shares():
    sticky = StickyPartitioner(1000, random.Random(1))
    counts = Counter(sticky.choose(500, 4, [0, 1, 2, 3]) for _ in range(8000))
    assert all(1700 < count < 2300 for count in counts.values())


def test_partitions_with_a_leader_are_preferred():
    sticky = StickyPartitioner(1, random.Random(1))
    assert {sticky.choose(1, 5, [1, 3]) for _ in range(50)} == {1, 3}
    assert {sticky.choose(1, 3, []) for _ in range(100)} == {0, 1, 2}


def test_a_partition_that_lost_its_leader_is_left():
    sticky = StickyPartitioner(10**6, random.Random(1))
    first = sticky.choose(1, 2, [0, 1])
    sticky.keep_to([0, 1])
    assert sticky.choose(1, 2, [0, 1]) == first
    sticky.keep_to([1 - first])
    assert sticky.choose(1, 2, [1 - first]) == 1 - first
