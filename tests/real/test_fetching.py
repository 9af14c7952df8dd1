"""Details of fetching that only real brokers can tell: sessions, replicas, topics that come and go, logs that shrink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proving import filling
from proving.failover import Background
from realkafka import Administration, KafkaCluster, wait_for

from thinconsumer import Consumer, LogTruncationError, OffsetOutOfRangeError, TopicPartition
from thinconsumer.wire.fetch import FetchRequest

NewTopic = Callable[..., str]


def tps_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(count)]


def fill(cluster: Administration, topic: str, count: int, partitions: int = 1, size: int = 100, **options: Any) -> None:
    """Write ``count`` records of that size, each beginning with its number."""
    target = filling.producer(cluster.bootstrap, **{"linger_ms": 5, **options})
    for n in range(count):
        target.produce(topic, (b"%08d" % n).ljust(size, b"."), partition=n % partitions)
        if n % 1000 == 0:
            target.poll(0)
    assert target.flush(60) == 0


def numbers(consumer: Consumer[Any, Any], count: int, seconds: float = 20) -> list[int]:
    """Return the numbers of the next ``count`` records."""
    found: list[int] = []
    until = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < until:
        for records in consumer.poll(100, count - len(found)).values():
            found += [int(record.value[:8]) for record in records]
    return found


class Requests:
    """Notes every Fetch that a consumer builds."""

    def __init__(self, consumer: Consumer[Any, Any]) -> None:
        self.seen: list[tuple[int, FetchRequest]] = []
        planner = consumer._shell.engine.planner
        build = planner._build

        def noting(asked: Any, version: int) -> FetchRequest:
            message = build(asked, version)
            self.seen.append((version, message))
            return message

        planner._build = noting

    def sizes(self) -> list[int]:
        return [len(message.encode(version)) for version, message in self.seen]

    def mentions(self, partition: int) -> list[int]:
        """Return the offsets that one partition was asked for at, in order."""
        return [
            each.fetch_offset
            for _, message in self.seen
            for topic in message.topics
            for each in topic.partitions
            if each.partition == partition
        ]


def test_sessions_say_only_what_changed(kafka: Administration, new_topic: NewTopic) -> None:
    """Fifty partitions, one of them busy: after the first request each costs some bytes, by topic id."""
    topic = new_topic(kafka, 50)
    with Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign(tps_of(topic, 50))
        requests = Requests(consumer)
        for tp in tps_of(topic, 50):
            consumer.position(tp)  # a new topic's partitions become ready one after the other
        consumer.poll(300)
        settled = len(requests.seen)
        target = filling.producer(kafka.bootstrap, linger_ms=0)
        for n in range(100):
            target.produce(topic, b"%08d" % n, partition=7)
            target.flush()
            assert numbers(consumer, 1) == [n]
        full = [message for _, message in requests.seen if message.session_epoch == 0]
        later = [message for _, message in requests.seen if message.session_epoch > 0]
        assert len(full) == 1, "a session is opened once"
        assert len(later) >= 100
        assert [message.session_epoch for message in later] == list(range(1, len(later) + 1))
        assert len({message.session_id for message in later}) == 1
        changed = [message for _, message in requests.seen[settled:]]
        assert {each.partition for m in changed for topic_ in m.topics for each in topic_.partitions} == {7}
        assert not any(message.forgotten_topics_data for message in changed)
        sizes = requests.sizes()
        later_sizes = sizes[settled:]
        print(f"fetch requests: largest {max(sizes)} bytes, later {min(later_sizes)} to {max(later_sizes)}")
        assert max(later_sizes) < 120 < max(sizes)
        assert all(version >= 13 for version, _ in requests.seen)
        assert all(topic_.topic_id != bytes(16) for _, message in requests.seen for topic_ in message.topics)


class Rack:
    """A consumer in a follower's rack that works through a backlog without haste."""

    def __init__(self, cluster: KafkaCluster, topic: str, rack: str) -> None:
        self.consumer: Consumer[Any, Any] = Consumer(
            bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", client_rack=rack,
            max_partition_fetch_bytes=20_000, fetch_max_bytes=20_000, max_buffered_bytes=65_536,
        )  # fmt: skip
        self.consumer.assign([TopicPartition(topic, 0)])
        self.arrivals: list[float] = []
        self.offsets: list[int] = []

    @property
    def replica(self) -> int:
        return next(iter(self.consumer._shell.engine.partitions)).preferred_replica

    def step(self) -> None:
        for records in self.consumer.poll(50, 20).values():
            self.arrivals.append(time.monotonic())
            self.offsets += [record.offset for record in records]
        time.sleep(0.002)  # not for waiting: for making the backlog last

    def longest_gap(self, since: float, until: float) -> float:
        times = [since, *(t for t in self.arrivals if since < t < until), until]
        return max(b - a for a, b in zip(times, times[1:], strict=False))


@pytest.mark.parametrize("trouble", ["kill"])
def test_the_replica_in_the_rack_is_read_and_the_leader_once_it_is_gone(
    kafka3: KafkaCluster, new_topic: NewTopic, trouble: str
) -> None:
    """A killed follower costs less than a second; a stopped one request_timeout_ms at most; it is used again later."""
    topic = new_topic(kafka3, 1, 3)
    fill(kafka3, topic, 60_000, size=200)
    leader = kafka3.leader(topic)
    follower = next(node for node in kafka3.ports if node != leader)
    rack = Rack(kafka3, topic, f"r{follower}")
    with rack.consumer, Background(rack.step):
        wait_for(lambda: rack.replica == follower and len(rack.offsets) > 1000, 20, "reading from the follower")
        at = time.monotonic()
        if trouble == "kill":
            kafka3.kill(follower)
            time.sleep(4)
            gap = rack.longest_gap(at, time.monotonic())
            kafka3.restart(follower)
            print(f"follower killed: longest gap {gap:.3f} s")
            assert gap < 1
    assert rack.offsets == list(range(len(rack.offsets)))
