"""Order by key on real Kafka while producers of three clients go on writing and partitions are added.

docs/ordered-delivery.md says what the barrier promises: with linear hashing the order of every key, with murmur2 % n
that of every key but those that move between old partitions.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from proving.java import run_java
from realkafka import Administration
from realkafka.produce import confluent_producer, kafka_python_producer, writing

from thinconsumer import Consumer
from thinconsumer.linear_hashing import partition_of
from thinconsumer.partitioning import murmur2

BEFORE, AFTER, KEYS = 2, 5, 12
MAX_AGE_MS = 2000  #: How long a producer keeps its metadata; batches are sent at once.
GRACE_MS = 4000
WRITING = 14  #: Seconds for which the producers write; partitions are added in the middle.

Choose = Callable[[bytes, int], int]


def modulo(key: bytes, count: int) -> int:
    """Choose a partition as Java's producer and kafka-python do."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def linear(key: bytes, count: int) -> int:
    return partition_of(murmur2(key) & 0x7FFFFFFF, BEFORE, count)


def rounds(stopping: threading.Event) -> Iterator[tuple[bytes, int]]:
    """Yield a number of each key and a value that counts up, until told to stop."""
    number = 0
    while not stopping.wait(0.05):
        number += 1
        for key in range(KEYS):
            yield str(key).encode(), number


def with_kafka_python(bootstrap: str, topic: str, choose: Choose, stopping: threading.Event) -> None:
    """Write with kafka-python, which counts the partitions in its own metadata."""

    from kafka.partitioner import Partitioner

    class Chosen(Partitioner):  # type: ignore[misc]
        def partition(self, topic: str, key: object, raw_key: bytes, value: object, raw: bytes, cluster: Any) -> int:
            return choose(raw_key, len(cluster.partitions_for_topic(topic)))

    with kafka_python_producer(bootstrap, metadata_max_age_ms=MAX_AGE_MS, partitioner=Chosen(), acks="all") as to:
        for key, number in rounds(stopping):
            to.send(topic, key=b"kafkapython-" + key, value=b"%d" % number)
        to.flush()


def with_confluent(bootstrap: str, topic: str, choose: Choose, stopping: threading.Event) -> None:
    """Write with librdkafka; a partition is chosen here, by a count that is refreshed as metadata are."""
    producer = confluent_producer(bootstrap, enable_idempotence=True)
    read_at, count = 0.0, 0
    for key, number in rounds(stopping):
        if time.monotonic() > read_at + MAX_AGE_MS / 1000:
            read_at, count = time.monotonic(), len(producer.list_topics(topic, 10).topics[topic].partitions)
        name = b"confluent-" + key
        producer.produce(topic, b"%d" % number, name, choose(name, count))
        producer.poll(0)
    assert producer.flush(60) == 0


def producers(kafka: Administration, topic: str, choose: Choose) -> AbstractContextManager[None]:
    """Let all producers write while the block runs, and until they are done."""
    stopping = threading.Event()
    about = kafka.bootstrap, topic, choose, stopping
    writers: list[Callable[[], object]] = [partial(with_kafka_python, *about), partial(with_confluent, *about)]
    if choose is modulo:
        java = "ProduceKeys.java", kafka.bootstrap, topic, str(KEYS), str(WRITING), str(MAX_AGE_MS)
        writers.append(partial(run_java, *java))
    return writing(stopping, *writers)


class Group:
    def __init__(self, kafka: Administration, topic: str, group: str, **options: Any) -> None:
        self.read: dict[bytes, list[int]] = {}
        self.consumer = Consumer(
            topic,
            bootstrap_servers=kafka.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=1000,
            **options,
        )

    def poll(self, seconds: float, *, slowly: bool = False) -> None:
        """Poll for this long; ``slowly`` returns few records, so that the group lags behind."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for records in self.consumer.poll(100, max_records=20 if slowly else None).values():
                for record in records:
                    self.read.setdefault(bytes(record.key), []).append(int(record.value))
            if slowly:
                time.sleep(0.1)

    def wrong(self) -> dict[bytes, int]:
        """Return for how many records an earlier one of the same key came later, by key."""
        found = {key: sum(b < a for a, b in itertools.pairwise(numbers)) for key, numbers in self.read.items()}
        return {key: count for key, count in found.items() if count}


@pytest.mark.parametrize("choose", [linear, modulo])
def test_the_barrier_keeps_the_order_that_it_promises(kafka: Administration, choose: Choose) -> None:
    topic = kafka.create_topic(f"barrier-{choose.__name__}-{time.time_ns()}", BEFORE)
    guarded = Group(kafka, topic, f"{topic}-1", ordered_delivery="barrier", ordered_delivery_grace_ms=GRACE_MS)
    plain = Group(kafka, topic, f"{topic}-2")
    try:
        with producers(kafka, topic, choose):
            for group in (guarded, plain):
                group.poll(WRITING / 4, slowly=True)
            kafka.add_partitions(topic, AFTER)
            for group in (guarded, plain, guarded, plain):
                group.poll(WRITING / 8, slowly=True)
        deadline = time.monotonic() + 60
        while guarded.read.keys() != plain.read.keys() or count(guarded) != count(plain):
            assert time.monotonic() < deadline, (count(guarded), count(plain), guarded.consumer.health())
            for group in (guarded, plain):
                group.poll(2)
    finally:
        guarded.consumer.close()
        plain.consumer.close()
    promised = {key for key in guarded.read if choose(key, AFTER) in (choose(key, BEFORE), *range(BEFORE, AFTER))}
    print(f"{choose.__name__}: without the barrier {sum(plain.wrong().values())} records out of order", plain.wrong())
    print(f"{choose.__name__}: with the barrier {sum(guarded.wrong().values())}", guarded.wrong())
    assert guarded.wrong().keys() & promised == set()
    if choose is linear:
        assert promised == guarded.read.keys()
    assert plain.wrong(), "nothing would have been out of order: the test proves nothing"


def count(group: Group) -> int:
    return sum(map(len, group.read.values()))
