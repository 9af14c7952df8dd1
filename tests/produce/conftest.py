"""Producers on a cluster in memory."""

import pytest

from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.records.batch import HEADER
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from thinconsumer_testing.broker.faults import Reply


class World:
    """A cluster and its producers."""

    def __init__(self, nodes=1, topics=None, **about):
        self.cluster = MemoryCluster(nodes, {"t": 1} if topics is None else topics, **about)
        self.network = self.cluster.network
        self.clock = self.cluster.clock
        self.producers = []

    def producer(self, seed=0, **options):
        settings = ProducerSettings.from_options(bootstrap_servers=self.cluster.bootstrap_servers, **options)
        producer = Producer(settings, driver=self.cluster.driver(seed))
        self.producers.append(producer)
        return producer

    def deliver(self, *args, **about):
        """Send a record with the latest producer and flush; return the future."""
        future = self.producers[-1].send(*args, **about)
        self.producers[-1].flush()
        return future

    def seconds_of(self, call, *args, **about):
        """Return how long a call takes, in virtual time."""
        before = self.clock.now()
        call(*args, **about)
        return self.clock.now() - before

    def refuse_produce(self, *codes, times=1, **fields):
        """Answer the next Produce requests with these error codes, one each, without appending."""
        for code in codes:
            refuse = Reply(lambda call, code=code: self.refusal(call.request, lambda: code, **fields))
            self.cluster.on("Produce", refuse, times=times)

    @staticmethod
    def refusal(request, choose_code, **fields):
        """Return a response that refuses each partition of a Produce request with the next chosen error code."""
        answer = ProduceResponse()
        for topic in request.topic_data:
            refused = [
                PartitionProduceResponse(index=part.index, error_code=int(choose_code()), base_offset=-1, **fields)
                for part in topic.partition_data
            ]
            answer.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=refused)
            )
        return answer

    def values(self, topic="t", partition=0):
        return [record.value for record in self.cluster.records(topic, partition)]

    def requests(self, api=ProduceRequest):
        return self.cluster.received(api)

    def stamps(self):
        """Return (epoch, first sequence, records) of each batch that was sent, in order."""
        headers = [
            HEADER.unpack_from(part.records)
            for got in self.requests()
            for topic in got.message.topic_data
            for part in topic.partition_data
        ]
        return [(header[10], header[11], header[12]) for header in headers]

    def finish(self):
        for producer in self.producers:
            producer.close(timeout_ms=0)
            assert producer.idle
            assert producer._accumulator.buffered_bytes == 0
        assert self.cluster.bugs == []
        assert not self.cluster.invalid_requests


class Worlds:
    """Makes worlds, and closes their producers at the end of the test."""

    def __init__(self):
        self.made = []

    def __call__(self, *args, **about):
        self.made.append(World(*args, **about))
        return self.made[-1]

    def start(self, nodes=1, topics=None, seed=0, **options):
        w = self(nodes, topics)
        return w, w.producer(seed, **options)


@pytest.fixture
def world():
    """Return the :class:`Worlds` of this test."""
    worlds = Worlds()
    yield worlds
    for one in worlds.made:
        one.finish()
