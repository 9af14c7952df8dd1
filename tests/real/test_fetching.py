"""Fetching as only real brokers can tell: sessions, replicas, topics that come and go, logs that shrink."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from proving import filling
from proving.failover import Background
from realkafka import Administration, KafkaCluster, wait_for

from thinconsumer import Consumer, LogTruncationError, TopicPartition
from thinconsumer.fetch.planner import Planner
from thinconsumer.wire.fetch import FetchRequest

NewTopic = Callable[..., str]
RACK_TIMEOUT_MS = 2000


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
    found: list[int] = []
    until = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < until:
        for records in consumer.poll(100, count - len(found)).values():
            found += [int(record.value[:8]) for record in records]
    return found


class Requests:
    """Notes every Fetch that a consumer builds."""

    def __init__(self, consumer: Consumer[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, FetchRequest]] = []
        build: Callable[..., FetchRequest] = Planner._compose

        def noting(planner: Planner, session: Any, version: int) -> FetchRequest:
            message = build(planner, session, version)
            if planner is consumer._reader.managers.planner:
                self.seen.append((version, message))
            return message

        monkeypatch.setattr(Planner, "_compose", noting)

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


def test_sessions_say_only_what_changed(
    kafka: Administration, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty partitions, one of them busy: after the first request each costs some bytes, by topic id."""
    topic = new_topic(kafka, 50)
    with Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign(tps_of(topic, 50))
        requests = Requests(consumer, monkeypatch)
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
            request_timeout_ms=RACK_TIMEOUT_MS,
        )  # fmt: skip
        self.consumer.assign([TopicPartition(topic, 0)])
        self.arrivals: list[float] = []
        self.offsets: list[int] = []

    @property
    def replica(self) -> int:
        return next(iter(self.consumer._reader.managers.partitions)).preferred_replica

    def step(self) -> None:
        for records in self.consumer.poll(50, 20).values():
            self.arrivals.append(time.monotonic())
            self.offsets += [record.offset for record in records]
        time.sleep(0.002)  # not for waiting: for making the backlog last

    def longest_gap(self, since: float, until: float) -> float:
        times = [since, *(t for t in self.arrivals if since < t < until), until]
        return max(b - a for a, b in itertools.pairwise(times))


@pytest.mark.parametrize("trouble", ["kill", "pause"])
def test_the_replica_in_the_rack_is_read_and_the_leader_once_it_is_gone(
    kafka3: KafkaCluster, new_topic: NewTopic, trouble: str
) -> None:
    """A killed follower costs less than a second, although leaders go on naming it; a stopped one a timeout."""
    topic = new_topic(kafka3, 1, 3)
    fill(kafka3, topic, 80_000, size=200)
    leader = kafka3.leader(topic)
    follower = next(node for node in kafka3.ports if node != leader)
    rack = Rack(kafka3, topic, f"r{follower}")
    with rack.consumer, Background(rack.step):
        wait_for(lambda: rack.replica == follower and len(rack.offsets) > 500, 20, "reading from the follower")
        at = time.monotonic()
        getattr(kafka3, trouble)(follower)
        wait_for(lambda: time.monotonic() > at + 5, 10, "the time in which it is not noticed")
        gap = rack.longest_gap(at, time.monotonic())
        print(f"follower {trouble}: longest gap {gap:.3f} s, {len(rack.offsets)} records read")
    assert len(rack.offsets) < 80_000, "the backlog was too short to measure anything"
    assert gap < (1 if trouble == "kill" else 1 + RACK_TIMEOUT_MS / 1000)
    assert rack.offsets == list(range(len(rack.offsets)))


def test_records_are_looked_up_by_offset_within_milliseconds(kafka: Administration, new_topic: NewTopic) -> None:
    """Each seek comes while the broker holds a Fetch for new records, which takes up to 500 ms."""
    topic = new_topic(kafka, 2)
    fill(kafka, topic, 100, partitions=2)
    first, second = tps_of(topic, 2)
    with Consumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([first, second])
        assert sorted(numbers(consumer, 100)) == list(range(100))
        took = []
        for offset in [7, 49, 0, 23, 30, 31, 5, 48, 12, 2, 44]:
            assert consumer.poll(20) == {}
            began = time.monotonic()
            consumer.seek(first, offset)
            found = consumer.poll(5000)
            took.append(time.monotonic() - began)
            assert [int(record.value[:8]) for record in found[first]] == list(range(2 * offset, 100, 2))
        assert sorted(took)[5] < 0.1, took


def test_a_log_truncated_by_an_unclean_election(kafka3: KafkaCluster, new_topic: NewTopic) -> None:
    """A consumer goes back to the offset where the logs diverge; one without a policy raises it (KIP-320)."""
    topic = new_topic(kafka3, 1, 2, {"min.insync.replicas": 1, "unclean.leader.election.enable": "true"})
    tp = TopicPartition(topic, 0)
    fill(kafka3, topic, 50)
    kafka3.wait_in_sync(topic, replicas=2)
    first = kafka3.leader(topic)
    other = next(iter(kafka3.in_sync(topic) - {first}))
    options: Any = {"bootstrap_servers": kafka3.bootstrap, "request_timeout_ms": 3000}
    with (
        Consumer(auto_offset_reset="earliest", **options) as resetting,
        Consumer(auto_offset_reset="none", **options) as raising,
    ):
        for consumer in (resetting, raising):
            consumer.assign([tp])
            consumer.seek(tp, 0)
            assert len(numbers(consumer, 50)) == 50
        kafka3.kill(other)
        wait_for(lambda: kafka3.in_sync(topic) == {first}, 30, "only the leader in sync")
        fill(kafka3, topic, 30)
        for consumer in (resetting, raising):
            assert len(numbers(consumer, 30)) == 30
        kafka3.kill(first)
        kafka3.restart(other)
        kafka3.wait_for_leader(topic, other_than=first, seconds=40)
        fill(kafka3, topic, 40)
        assert numbers(resetting, 40) == list(range(40))
        with pytest.raises(LogTruncationError) as raised:
            numbers(raising, 1)
        assert (raised.value.position, raised.value.divergent_offset) == (80, 50)
        raising.seek(tp, 50)
        assert numbers(raising, 40) == list(range(40))
        for consumer in (resetting, raising):
            assert consumer.position(tp) == 90
            assert consumer.lag() == {tp: 0}
    kafka3.restart(first, wait=False)


def test_the_only_broker_is_killed_and_returns(own_kafka: KafkaCluster, new_topic: NewTopic) -> None:
    """The same consumer goes on by itself, soon after the broker is back, with nothing lost or repeated."""
    topic = new_topic(own_kafka, 2)
    fill(own_kafka, topic, 100, partitions=2)
    with Consumer(bootstrap_servers=own_kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(tps_of(topic, 2))
        assert len(numbers(consumer, 100)) == 100
        own_kafka.kill(1)
        began = time.monotonic()
        while time.monotonic() < began + 4:
            assert consumer.poll(200) == {}
        own_kafka.restart(1)
        own_kafka.wait_for_partitions(topic, 2)
        back = time.monotonic()
        target = filling.producer(own_kafka.bootstrap)
        for n in range(100, 200):
            target.produce(topic, b"%08d" % n, partition=n % 2)
        assert target.flush(60) == 0
        written = time.monotonic()
        assert sorted(numbers(consumer, 100)) == list(range(100, 200))
        print(f"broker back: records read {time.monotonic() - written:.3f} s after they were written, "
              f"{time.monotonic() - back:.3f} s after its return")  # fmt: skip
        assert time.monotonic() - written < 2
        assert consumer.lag() == dict.fromkeys(tps_of(topic, 2), 0)
