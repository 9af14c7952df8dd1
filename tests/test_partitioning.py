"""Linear hashing in producers of other clients: the public function, and both adapters."""

import itertools
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from thinconsumer import IllegalArgumentError
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.partitioning import (
    LOWER_COUNT_AFTER_S,
    ConfluentPartitioner,
    kafka_python_partitioner,
    murmur2,
    partition,
)
from thinconsumer.produce.accumulator import Accumulator

KEYS = [b"", *(b"key-%d" % number for number in range(500))]


def java_default(key, count):
    return (murmur2(key) & 0x7FFFFFFF) % count


def moving_key(before, after, initial):
    return next(key for key in KEYS if partition(key, initial, before) != partition(key, initial, after))


def test_it_places_keys_as_the_projects_own_producer_does():
    for initial, count in itertools.product((1, 2, 3, 6), (6, 7, 12, 13)):
        places = [partition(key, initial, count) for key in KEYS]
        counts = PartitionCounts(initial, count)
        assert places == [Accumulator._choose_partition(None, counts, key, 1) for key in KEYS]
        assert set(places) == set(range(count))


def test_it_begins_where_javas_default_partitioner_ends():
    for count in (1, 5, 6):
        assert [partition(key, count, count) for key in KEYS] == [java_default(key, count) for key in KEYS]


def test_keys_only_move_to_new_partitions():
    for before, after in itertools.combinations((2, 3, 4, 7, 16), 2):
        for key in KEYS:
            new = partition(key, 2, after)
            assert new == partition(key, 2, before) or new >= before


@pytest.mark.parametrize(("initial", "count"), [(0, 1), (-1, 4), (3, 2), (1, 0)])
def test_impossible_counts_are_refused(initial, count):
    with pytest.raises(IllegalArgumentError, match=f"initial={initial} must be between 1 and the partition count"):
        partition(b"k", initial, count)


class Metadata:
    """Metadata of kafka-python's producer, with one topic."""

    def __init__(self, count):
        self.count = count

    def partitions_for_topic(self, topic):
        return set(range(self.count))

    def available_partitions_for_topic(self, topic):
        return {self.count - 1}


def of_kafka_python(initial, count, clock=lambda: 0.0):
    pytest.importorskip("kafka")
    metadata, chosen = Metadata(count), kafka_python_partitioner(initial, clock=clock)
    return metadata, chosen, lambda key, topic="t": chosen.partition(topic, key, key, b"v", b"v", metadata)


def test_kafka_python_chooses_by_the_count_in_its_metadata():
    metadata, chosen, choose = of_kafka_python({"t": 2}, 2)
    from kafka.partitioner import Partitioner

    assert isinstance(chosen, Partitioner)
    assert [choose(key) for key in KEYS] == [partition(key, 2, 2) for key in KEYS]
    metadata.count = 5
    assert [choose(key) for key in KEYS] == [partition(key, 2, 5) for key in KEYS]
    assert [choose(key, "other") for key in KEYS] == [java_default(key, 5) for key in KEYS]
    assert choose(None) == 4


def test_kafka_python_2_passes_partitions_without_a_topic():
    pytest.importorskip("kafka")
    choose = kafka_python_partitioner(2)
    assert [choose(key, [0, 1, 2], [0]) for key in KEYS] == [partition(key, 2, 3) for key in KEYS]
    assert choose(None, [0, 1, 2], [1]) == 1


def test_a_lower_count_is_not_used_before_it_has_lasted():
    """A broker with older metadata must not move a key back, but a topic that was created again has another count."""
    clock = [0.0]
    metadata, _, choose = of_kafka_python(2, 3, lambda: clock[0])
    key = moving_key(2, 3, 2)
    assert choose(key) == 2
    back, lasted = partition(key, 2, 2), LOWER_COUNT_AFTER_S
    for now, count, expected in (
        (1, 2, 2),
        (lasted, 2, 2),
        (lasted + 0.5, 3, 2),
        (lasted + 1, 2, 2),
        (2 * lasted, 2, 2),
        (2 * lasted + 1, 2, back),
    ):
        clock[0], metadata.count = now, count
        assert choose(key) == expected


class Producer:
    """A confluent-kafka producer that only describes topics."""

    def __init__(self, **counts):
        self.counts = counts
        self.asked = []

    def list_topics(self, topic, timeout):
        self.asked.append((topic, timeout))
        count = self.counts.get(topic, 0)
        described = SimpleNamespace(partitions=dict.fromkeys(range(count)), error=None if count else "UNKNOWN_TOPIC")
        return SimpleNamespace(topics={topic: described})


def test_confluents_counts_are_refreshed_when_they_are_max_age_old():
    now = 0.0
    producer = Producer(t=2)
    choose = ConfluentPartitioner(producer, {"t": 2}, max_age_s=60, timeout_s=3, clock=lambda: now)
    key = moving_key(2, 3, 2)
    assert choose("t", key) == choose("t", key.decode()) == partition(key, 2, 2)
    producer.counts["t"] = 3
    now = 59.0
    assert choose("t", key) == partition(key, 2, 2)
    now = 60.0
    assert choose("t", key) == 2
    assert producer.asked == [("t", 3), ("t", 3)]
    assert choose("t", None) == -1


def test_confluent_raises_rather_than_use_an_old_count():
    now = 0.0
    producer = Producer(t=2)
    choose = ConfluentPartitioner(producer, {"t": 2}, max_age_s=60, clock=lambda: now)
    choose("t", b"k")
    with pytest.raises(IllegalArgumentError, match="topic u: no partitions are known: UNKNOWN_TOPIC"):
        choose("u", b"k")

    def fail(topic, timeout):
        raise TimeoutError("no broker")

    producer.list_topics, now = fail, 60.0
    with pytest.raises(TimeoutError):
        choose("t", b"k")


def test_the_page_shows_the_core_of_javas_class():
    root = Path(__file__).parents[1]
    shown = (root / "docs" / "ordered-delivery.md").read_text().split("```java\n")[1].split("```")[0]
    assert textwrap.indent(shown, "    ") in (root / "examples" / "LinearHashingPartitioner.java").read_text()
