"""Keys are partitioned as by Java; records without a key stick to a partition and spread evenly."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import DefaultPartitioner
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from thinconsumer.partitioning import murmur2
from thinconsumer.produce.partitioner import StickyPartitioner, partition_for_key

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
    assert partition_for_key(key, partitions) == DefaultPartitioner().partition(
        "t", key, key, b"", b"", Cluster(partitions)
    )


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
