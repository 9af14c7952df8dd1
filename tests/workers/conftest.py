"""An embedded broker for the tests of workers, and topics with records whose order by key can be checked."""

import itertools
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.aio import AsyncConsumer
from thinconsumer.records.builder import NewRecord
from thinconsumer.workers import Workers, WorkerSettings
from thinconsumer_testing.broker.process import BrokerProcess

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def broker():
    with BrokerProcess(nodes=1) as found:
        yield found


class World:
    """A topic with 60 records of 7 keys in 3 partitions, and consumers of it."""

    def __init__(self, broker, path):
        self.broker, self.log = broker, path / "log"
        self.topic = f"work-{next(NUMBERS)}"
        self.count = 0
        broker.create_topic(self.topic, 3)
        self.produce(60)

    def produce(self, count):
        for n in range(self.count, self.count + count):
            key = n % 7
            record = NewRecord(b"%d" % n, b"k%d" % key, [("log", str(self.log).encode())])
            self.broker.produce(self.topic, [record], key % 3)
        self.count += count

    def consumer(self, cls=Consumer, **options):
        options = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **options}
        return cls(
            self.topic,
            bootstrap_servers=self.broker.bootstrap_servers,
            group_id=f"group-{self.topic}",
            value_deserializer=int,
            **options,
        )

    def async_consumer(self, **options):
        return self.consumer(AsyncConsumer, **options)

    def lines(self):
        """Return what the handlers have written: process id, partition, offset, key and value of each record."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def values(self):
        return [int(line[4]) for line in self.lines()]

    def is_in_order(self):
        by_key = defaultdict(list)
        for _, _, _, key, value in self.lines():
            by_key[key].append(int(value))
        return all(values == sorted(values) for values in by_key.values())

    def work(self, handler, until=60, **settings):
        with self.consumer() as consumer, Workers(consumer, handler, WorkerSettings(**settings)) as workers:
            while self.processed(workers) < until:
                workers.wait(workers.step())

    @staticmethod
    def processed(workers):
        work = workers._work
        return work.finished_count + work.skipped_count + work.dead_letter_count

    def committed(self):
        """Return the sum of the committed offsets."""
        tps = [TopicPartition(self.topic, each) for each in range(3)]
        with self.consumer() as consumer:
            consumer.unsubscribe()
            return sum(each.offset for each in consumer.committed(tps, metadata=True).values() if each is not None)


@pytest.fixture(autouse=True)
def handlers_for_processes(monkeypatch):
    """Let worker processes import the handlers by name: they get this path, in which installed packages come first."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[2])])


@pytest.fixture
def world(broker, tmp_path):
    return World(broker, tmp_path)
