"""kafka-python, confluent-kafka and Java write keys while a topic on real Kafka grows, and a barrier keeps their order.

docs/ordered-delivery.md promises: with a barrier, and a grace time that covers the producers' options, the records of
each producer and key are read in the order in which they were written if keys are placed by linear hashing. With
murmur2 % n that is so for every key but those that move between old partitions.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from proving.java import compile_java, run_java
from realkafka import Administration
from realkafka.produce import confluent_producer, kafka_python_producer, writing

from thinconsumer import Consumer, TopicPartition
from thinconsumer.partitioning import ConfluentPartitioner, kafka_python_partitioner, murmur2, partition

EXAMPLES = Path(__file__).parents[2] / "examples"
INITIAL, LATER, KEYS = 2, (3, 6), 24
WRITING_S = 28  #: For how long the producers write.
#: How long each producer uses a partition count, shortened from five minutes. Batches are sent at once, and a response
#: takes milliseconds, so two seconds more are enough for the grace time.
MAX_AGE_MS = 4000
GRACE_MS = MAX_AGE_MS + 2000
REFRESH = {
    "kafka-python": f"metadata_max_age_ms={MAX_AGE_MS}",
    "confluent-kafka": f"ConfluentPartitioner(max_age_s={MAX_AGE_MS / 1000})",
    "Java": f"metadata.max.age.ms={MAX_AGE_MS}",
}


def rounds(stopping: threading.Event) -> Iterator[tuple[bytes, bytes]]:
    """Yield the number of each key and a value that counts up, until told to stop."""
    for number in itertools.count(1):
        for key in range(KEYS):
            yield str(key).encode(), str(number).encode()
        if stopping.wait(0.1):
            return


def modulo(key: bytes, count: int) -> int:
    """Choose a partition as Java's producer and kafka-python do."""
    return (murmur2(key) & 0x7FFFFFFF) % count


class Modulo:
    """Chooses for librdkafka's producer, by a count that is refreshed as metadata are."""

    def __init__(self, producer: Any) -> None:
        self._producer, self._read_at, self._count = producer, 0.0, 0

    def __call__(self, topic: str, key: bytes) -> int:
        if time.monotonic() > self._read_at + MAX_AGE_MS / 1000:
            found = self._producer.list_topics(topic, 10).topics[topic]
            self._read_at, self._count = time.monotonic(), len(found.partitions)
        return modulo(key, self._count)


def with_kafka_python(bootstrap: str, topic: str, is_linear: bool, stopping: threading.Event) -> None:
    options = {"partitioner": kafka_python_partitioner({topic: INITIAL})} if is_linear else {}
    with kafka_python_producer(bootstrap, metadata_max_age_ms=MAX_AGE_MS, acks="all", **options) as to:
        for key, value in rounds(stopping):
            to.send(topic, key=b"kafka-python-" + key, value=value)
        to.flush()


def with_confluent(bootstrap: str, topic: str, is_linear: bool, stopping: threading.Event) -> None:
    producer = confluent_producer(bootstrap, enable_idempotence=True)
    linear = ConfluentPartitioner(producer, {topic: INITIAL}, max_age_s=MAX_AGE_MS / 1000)
    choose = linear if is_linear else Modulo(producer)
    for key, value in rounds(stopping):
        name = b"confluent-" + key
        producer.produce(topic, value, name, partition=choose(topic, name))
        producer.poll(0)
    assert producer.flush(60) == 0


def producers(kafka: Administration, topic: str, classes: Path | None = None) -> AbstractContextManager[None]:
    """Let the three producers write while the block runs, and until they are done; with ``classes`` linearly."""
    stopping = threading.Event()
    about = kafka.bootstrap, topic, classes is not None, stopping
    linear = "partitioner.class=LinearHashingPartitioner", f"linear.hashing.initial={topic}:{INITIAL}"
    java = "ProduceKeys.java", kafka.bootstrap, topic, str(KEYS), str(WRITING_S), str(MAX_AGE_MS)
    return writing(
        stopping,
        partial(with_kafka_python, *about),
        partial(with_confluent, *about),
        partial(run_java, *java, *(linear if classes else ()), classes=classes),
    )


class Group:
    """One consumer, with a barrier if it has a grace time, and what it has returned: (partition, number) by key."""

    def __init__(self, kafka: Administration, topic: str, grace_ms: int | None) -> None:
        barrier = {"ordered_delivery": "barrier", "ordered_delivery_grace_ms": grace_ms}
        self.read: dict[bytes, list[tuple[int, int]]] = {}
        self.first_read: dict[TopicPartition, float] = {}
        self.consumer = Consumer(
            topic,
            bootstrap_servers=kafka.bootstrap,
            group_id=f"{topic}-{grace_ms}",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=500,
            **({} if grace_ms is None else barrier),
        )

    def poll(self, seconds: float, *, slowly: bool = False) -> None:
        """Poll for this long; ``slowly`` with pauses, so that the group lags behind.

        When a new partition begins, only its records are read for two seconds. Records of other partitions that should
        have come before them then come after them.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assigned = self.consumer.assignment()
            young = {tp for tp in assigned if time.monotonic() < self.first_read.get(tp, 0) + 2}
            others = assigned - young if young else set()
            self.consumer.resume(*(assigned - others))
            self.consumer.pause(*others)
            for tp, records in self.consumer.poll(50, max_records=40).items():
                self.first_read.setdefault(tp, time.monotonic())
                for record in records:
                    self.read.setdefault(bytes(record.key), []).append((tp.partition, int(record.value)))
            if slowly:
                time.sleep(0.05)

    @property
    def count(self) -> int:
        return sum(map(len, self.read.values()))

    def wrong(self) -> dict[bytes, int]:
        """Return by key how many records came after a later one."""
        found = {
            key: sum(b < a for (_, a), (_, b) in itertools.pairwise(records)) for key, records in self.read.items()
        }
        return {key: count for key, count in found.items() if count}


def read_while_growing(
    kafka: Administration, topic: str, groups: tuple[Group, Group], classes: Path | None = None
) -> None:
    """Let both groups read everything that the producers write while partitions are added."""

    def poll(seconds: float, *, slowly: bool = False) -> None:
        for _ in range(round(seconds * 2)):
            for group in groups:
                group.poll(0.25, slowly=slowly)

    first, second = groups
    try:
        with producers(kafka, topic, classes):
            deadline = time.monotonic() + 60
            while len(first.read) < 3 * KEYS:
                assert time.monotonic() < deadline, "a producer does not write"
                poll(0.5)
            for count in LATER:
                poll(WRITING_S / 8, slowly=True)
                kafka.add_partitions(topic, count)
                poll(WRITING_S / 4, slowly=True)
        deadline = time.monotonic() + 90
        while first.count != second.count or first.read.keys() != second.read.keys():
            assert time.monotonic() < deadline, (first.count, second.count, first.consumer.health())
            poll(2)
    finally:
        for group in groups:
            group.consumer.close()
    print(f"{first.count} records; out of order: {first.wrong()}; of the second group: {second.wrong()}")
    assert len(first.read) == 3 * KEYS
    assert second.wrong(), "nothing would have been out of order: the test proves nothing"


def test_each_producers_keys_stay_in_order_while_a_topic_grows_twice(kafka: Administration, tmp_path: Path) -> None:
    """With a grace time of 0, keys are out of order: the check finds what is wrong."""
    compile_java(EXAMPLES / "LinearHashingPartitioner.java", tmp_path)
    topic = kafka.create_topic(f"linear-{time.time_ns()}", INITIAL)
    guarded, hasty = Group(kafka, topic, GRACE_MS), Group(kafka, topic, 0)
    print(f"refresh: {REFRESH}; grace time {GRACE_MS} ms, and 0")
    read_while_growing(kafka, topic, (guarded, hasty), tmp_path)
    for key, records in guarded.read.items():
        places = [partition(key, INITIAL, count) for count in (INITIAL, *LATER)]
        assert {number for number, _ in records} == set(places)
        assert max(records, key=lambda record: record[1])[0] == places[-1]
        assert sorted(value for _, value in records) == list(range(1, len(records) + 1)), "lost or read twice"
    assert guarded.wrong() == {}


def test_with_other_partitioners_keys_that_do_not_move_between_old_partitions_stay_in_order(
    kafka: Administration,
) -> None:
    topic = kafka.create_topic(f"modulo-{time.time_ns()}", INITIAL)
    guarded, plain = Group(kafka, topic, GRACE_MS), Group(kafka, topic, None)
    read_while_growing(kafka, topic, (guarded, plain))
    promised = set()
    for key in guarded.read:
        places = [(modulo(key, count), count) for count in (INITIAL, *LATER)]
        if all(after == before or after >= old for (before, old), (after, _) in itertools.pairwise(places)):
            promised.add(key)
    assert promised and guarded.wrong().keys() & promised == set()


def test_the_example_expands_a_topic_under_load(kafka: Administration) -> None:
    command = [sys.executable, str(EXAMPLES / "growing_topic.py"), kafka.bootstrap, "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 partitions:" in done.stdout and "6 partitions:" in done.stdout and ", 0 out of order" in done.stdout
