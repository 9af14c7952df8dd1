"""Scans of a cluster in memory, in virtual time."""

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.fetch import FetchRequest

NOW = 1_700_000_000_000


class Topics:
    """A cluster, and LazyFrames of its topics; record ``n`` of a partition has the timestamp ``NOW + n``."""

    def __init__(self, topics):
        self.cluster = MemoryCluster(1, topics)
        self.consumers = []

    def connect(self, **options):
        options = {"bootstrap_servers": self.cluster.bootstrap_servers, "auto_offset_reset": "none", **options}
        self.consumers.append(Consumer(driver=self.cluster.driver(), **options))
        return self.consumers[-1]

    def scan(self, *topics, timestamps_ascend=False, **options):
        from thinconsumer.polars.scan import Scan  # not above: without polars, this file is imported, too

        return Scan(lambda: self.connect(**options), topics or ["t"], timestamps_ascend).frame()

    def append(self, count, partition=0, topic="t", **about):
        """Append a batch of records, of which some have no key, value or headers."""
        tp = TopicPartition(topic, partition)
        first = self.cluster.leader(tp).log.end_offset
        records = [
            NewRecord(
                None if n % 7 == 6 else b"value %d of partition %d" % (n, partition),
                None if n % 3 == 2 else b"k%d" % n,
                timestamp=NOW + n,
                headers=[("h", b"%d" % n), ("none", None)][: n % 4],
            )
            for n in range(first, first + count)
        ]
        return self.cluster.append_batch(tp, build_batch(records, **about))

    def fetches(self):
        return [received.message for received in self.cluster.received(FetchRequest)]

    def first_fetched(self, before):
        """Return the first offset that was fetched of each partition, without the first ``before`` requests."""
        found = {}
        for fetch in self.fetches()[before:]:
            for partition in (partition for topic in fetch.topics for partition in topic.partitions):
                found.setdefault(partition.partition, partition.fetch_offset)
        return found

    def close(self):
        for consumer in self.consumers:
            consumer.close()
        assert self.cluster.bugs == [] and not self.cluster.invalid_requests


@pytest.fixture
def topics(closed_at_end):
    return lambda **sizes: closed_at_end(Topics(sizes or {"t": 3}))
