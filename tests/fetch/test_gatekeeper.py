"""A gatekeeper of a test in a consumer: what the client asks of it, and that only its values hold records."""

import pytest

from thinconsumer import Consumer, KafkaError, TopicPartition
from thinconsumer.fetch.gatekeeper import HeldPartition
from thinconsumer.records.builder import NewRecord
from thinconsumer.testing import MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class EveryThird:
    """Holds each assigned partition at every third record, until the listener was called and the position is there."""

    asker = "every third"

    def __init__(self, managers):
        self.partitions, self.agenda = managers.partitions, managers.agenda
        self.partitions.held_topics.add("t")
        self.ends = {}
        self.calls = []
        self.raises = []
        self.final = []

    def step(self, now):
        for partition in self.partitions:
            partition.delivery_end = self.ends.setdefault(partition, 3)
        return []

    def handle(self, answer, now):
        raise AssertionError("this gatekeeper sends no request")

    def restart(self, now):
        self.ends.clear()

    def at_end(self):
        return [p for p, end in self.ends.items() if p.has_position and p.cursor.offset >= end]

    def moved(self):
        if self.at_end():
            self.agenda.touch()

    def next_callback(self, now):
        return self.call if self.at_end() else None

    def call(self):
        if self.raises:
            raise self.raises.pop()
        self.calls.append([p.tp.partition for p in self.at_end()])
        for partition in self.at_end():
            self.ends[partition] += 3
        return True

    def held(self):
        return (HeldPartition(p, "held until the third record", is_wait=False) for p in self.at_end())

    def errors(self):
        return iter(self.final)


@pytest.fixture
def cluster():
    cluster = MemoryCluster(1)
    cluster.create_topic("t", 2)
    for number in range(2):
        cluster.produce("t", [NewRecord(b"%d" % n) for n in range(10)], number)
    return cluster


@pytest.fixture
def consumer(cluster):
    consumer = Consumer(
        driver=cluster.driver(),
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    managers = consumer._reader.managers
    consumer.gatekeeper = EveryThird(managers)
    managers.gatekeepers = (consumer.gatekeeper,)
    managers.engine.add(consumer.gatekeeper)
    yield consumer
    consumer.close()


def offsets(records):
    return [record.offset for one in records.values() for record in one]


def test_records_are_returned_up_to_the_hold_and_after_the_call_of_the_listener(consumer):
    consumer.assign([P0])
    assert offsets(consumer.poll(5000)) == [0, 1, 2]
    assert consumer.gatekeeper.calls == []  # the records are not processed before the next poll
    assert offsets(consumer.poll(5000)) == [3, 4, 5]
    assert consumer.gatekeeper.calls == [[0]]
    assert offsets(consumer.poll(5000)) == [6, 7, 8]
    assert offsets(consumer.poll(5000)) == [9]


def test_another_partition_is_read_meanwhile(consumer):
    consumer.assign([P0, P1])
    consumer.gatekeeper.raises = [RuntimeError("not yet")] * 3
    found = [consumer.poll(5000)]
    for _ in range(3):
        with pytest.raises(RuntimeError, match="not yet"):
            consumer.poll(5000)
    found += [consumer.poll(5000) for _ in range(6)]
    assert sorted(n for records in found for n in offsets(records)) == sorted([*range(10)] * 2)


def test_health_names_a_held_partition(cluster, consumer):
    consumer.assign([P0])
    consumer.gatekeeper.raises = [RuntimeError("not yet")] * 99
    consumer.poll(5000)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="not yet"):
            consumer.poll(5000)
        cluster.clock.advance(5)
    assert "t-0 is held until the third record" in consumer.health().reason


def test_errors_of_a_gatekeeper_are_raised(consumer):
    consumer.assign([P0])
    consumer.poll(5000)
    consumer.gatekeeper.final = [KafkaError("the gate is locked")]
    consumer.pause(P0)
    with pytest.raises(KafkaError, match="the gate is locked"):
        consumer.poll(1000)


def test_a_position_that_was_moved_back_is_held_at_the_same_record(consumer):
    consumer.assign([P0])
    consumer.poll(5000)
    consumer.seek(P0, 1)
    assert offsets(consumer.poll(5000)) == [1, 2]
    assert offsets(consumer.poll(5000)) == [3, 4, 5]


def test_no_fetch_asks_for_held_records(cluster, consumer):
    consumer.assign([P0])
    consumer.gatekeeper.raises = [RuntimeError("not yet")] * 99
    consumer.poll(5000)
    consumer.gatekeeper.ends.update((p, 3) for p in consumer.gatekeeper.ends)
    before = len(cluster.requests)
    with pytest.raises(RuntimeError):
        consumer.poll(5000)
    cluster.clock.advance(5)
    with pytest.raises(RuntimeError):
        consumer.poll(0)
    assert [one for one in cluster.requests[before:] if one.api.__name__ == "FetchRequest"] == []
