"""A cluster in memory for tests of the Spark source that need no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.spark.cluster_client import ClusterClient
from thinconsumer.spark.options import SourceOptions, parse
from thinconsumer.testing import MemoryCluster


class Cluster:
    """A cluster in memory with virtual time, and the source's parts that talk to it; ``holds`` are values in t-0."""

    def __init__(self, topics, nodes=1, holds=(), **config):
        self.kafka = MemoryCluster(nodes, topics, **config)
        self.made = []
        self.slept = []
        if holds:
            self.append(*holds)

    def connect(self, config) -> Consumer:
        consumer = Consumer.from_config(config, driver=self.kafka.driver())
        self.made.append(consumer)
        return consumer

    def options(self, **given) -> SourceOptions:
        named = {} if {"subscribe", "assign", "subscribePattern"} & given.keys() else {"subscribe": "t"}
        return parse({"kafka.bootstrap.servers": ",".join(self.kafka.bootstrap_servers), **named, **given})

    def client(self, **given) -> ClusterClient:
        return ClusterClient(self.options(**given), connect=self.connect, sleep=self.sleep, clock=self.kafka.clock.now)

    def sleep(self, seconds) -> None:
        self.slept.append(seconds)
        self.kafka.clock.advance(seconds)

    def append(self, *values, partition=0, topic="t", **about):
        """Append a batch of values or whole records; return its first offset."""
        records = [v if isinstance(v, NewRecord) else NewRecord(v, timestamp=1_700_000_000_000) for v in values]
        return self.kafka.append_batch(TopicPartition(topic, partition), build_batch(records, **about))

    def requests(self, api):
        return self.kafka.received(api)


@pytest.fixture
def cluster() -> Iterator:
    """Return a function that creates clusters; their consumers are closed after the test."""
    made: list[Cluster] = []

    def make(topics=None, **about) -> Cluster:
        made.append(Cluster({"t": 2} if topics is None else topics, **about))
        return made[-1]

    yield make
    for one in made:
        for consumer in one.made:
            consumer.close(autocommit=False)
