"""Brokers that take Produce as Kafka does, in memory: leaders, sequence numbers per producer, and faults to order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from thinconsumer import TopicPartition
from thinconsumer.produce import Producer, ProducerSettings
from thinconsumer.records.batch import HEADER, split
from thinconsumer.testing import Network, ScriptedCluster
from thinconsumer.testing.handlers import error_of
from thinconsumer.wire.current_leader import LeaderIdAndEpoch, NodeEndpoint
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from thinconsumer.wire.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

T0 = TopicPartition("t", 0)


@dataclass
class ProducerState:
    """What a partition knows of one producer id: its epoch, and the last five batches."""

    epoch: int
    batches: deque = field(default_factory=lambda: deque(maxlen=5))  #: (first sequence, last sequence, offset)


class Partitions:
    """The produce side of all partitions: appends with the checks of Kafka's ProducerStateManager."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.producers: dict[tuple[TopicPartition, int], ProducerState] = {}
        self.next_id = 4000

    def append(self, log, data):
        """Append one batch; return (error code, base offset)."""
        fields = HEADER.unpack_from(data)
        producer_id, epoch, first, count = fields[9], fields[10], fields[11], fields[12]
        assert fields[3] == 2
        assert producer_id >= 0
        tp = TopicPartition(log.topic, log.partition)
        state = self.producers.get((tp, producer_id))
        last = (first + count - 1) & 0x7FFFFFFF
        if state is not None:
            if epoch < state.epoch:
                return Code.INVALID_PRODUCER_EPOCH, -1
            if epoch > state.epoch and first != 0:
                return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            if epoch == state.epoch:
                for known_first, known_last, offset in state.batches:
                    if (known_first, known_last) == (first, last):
                        return Code.NONE, offset
                expected = (state.batches[-1][1] + 1) & 0x7FFFFFFF
                if first != expected:
                    return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if state is None or epoch > state.epoch:
            state = self.producers[tp, producer_id] = ProducerState(epoch)
        offset = log.append(bytes(data))
        state.batches.append((first, last, offset))
        return Code.NONE, offset

    def init_producer_id(self, request, version, connection):
        """Answer InitProducerId."""
        assert request.transactional_id is None
        self.next_id += 1
        return InitProducerIdResponse(producer_id=self.next_id, producer_epoch=0)

    def produce(self, request, version, connection):
        """Answer Produce."""
        assert request.acks == -1
        answer = ProduceResponse()
        for topic in request.topic_data:
            found = self.cluster.topics.find(topic.name if version < 13 else "", topic.topic_id)
            told = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            answer.responses.append(told)
            for part in topic.partition_data:
                log = None if found is None else found.partitions.get(part.index)
                told.partition_responses.append(self._one(log, part, version, connection, answer))
                if found is None and version >= 13:
                    told.partition_responses[-1].error_code = int(Code.UNKNOWN_TOPIC_ID)
        return answer

    def _one(self, log, part, version, connection, answer):
        code = error_of(log, connection.broker.node_id, -1)
        data = PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
        if code == Code.NOT_LEADER_OR_FOLLOWER and log.leader >= 0 and version >= 10:
            data.current_leader = LeaderIdAndEpoch(leader_id=log.leader, leader_epoch=log.epoch)
            broker = self.cluster.brokers[log.leader]
            answer.node_endpoints = [NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port)]
        if code == Code.NONE:
            code, data.base_offset = self.append(log, part.records)
            data.error_code = int(code)
        return data


class World:
    """A cluster that takes records, and producers for it."""

    def __init__(self, node_ids=(1,), topics=None, *, network: Network | None = None, **about):
        self.cluster = ScriptedCluster(node_ids, {"t": 1} if topics is None else topics, network=network, **about)
        self.network = self.cluster.network
        self.clock = self.cluster.clock
        self.partitions = Partitions(self.cluster)
        self.producers = []
        for broker in self.cluster.brokers.values():
            self.serve(broker)

    def serve(self, broker):
        """Let a broker answer Produce and InitProducerId."""
        broker.handlers[ProduceRequest] = self.partitions.produce
        broker.handlers[InitProducerIdRequest] = self.partitions.init_producer_id

    def producer(self, seed=0, **options):
        """Return a producer."""
        settings = ProducerSettings.from_options(bootstrap_servers=self.cluster.bootstrap_servers, **options)
        producer = Producer(settings, driver=self.cluster.driver(seed))
        self.producers.append(producer)
        return producer

    def before(self, api, hook: Callable):
        """Ask ``hook(request, version, connection)`` first; what it returns, unless None, is the reply."""
        for broker in self.cluster.brokers.values():
            usual = broker.handlers[api]

            def handle(request, version, connection, usual=usual):
                reply = hook(request, version, connection)
                return usual(request, version, connection) if reply is None else reply

            broker.handlers[api] = handle

    def refuse_produce(self, *codes, once=True, **fields):
        """Answer the next partitions written to with these error codes, one each, without appending anything."""
        left = deque(codes)

        def hook(request, version, connection):
            if not left:
                return None
            answer = ProduceResponse()
            code = int(left.popleft() if once else left[0])
            for topic in request.topic_data:
                told = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
                for part in topic.partition_data:
                    told.partition_responses.append(
                        PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1, **fields)
                    )
                answer.responses.append(told)
            return answer

        self.before(ProduceRequest, hook)

    def values(self, tp=T0):
        """Return all values in a partition's log, by offset."""
        found = []
        for stored in self.cluster.topics[tp].batches:
            batches, error = split(memoryview(stored.data))
            assert error is None
            for batch in batches:
                found += [record.value for record in batch.decode(*tp)]
        return found

    def requests(self, api=ProduceRequest):
        """Return every request of one API that reached any broker, in order of time."""
        found = [got for broker in self.cluster.brokers.values() for got in broker.requests if got.api is api]
        return sorted(found, key=lambda received: received.at)

    def stamps(self):
        """Return (epoch, first sequence, records) of each batch that was sent, in order."""
        return [
            (lambda f: (f[10], f[11], f[12]))(HEADER.unpack_from(part.records))
            for got in self.requests()
            for topic in got.message.topic_data
            for part in topic.partition_data
        ]

    def finish(self):
        for producer in self.producers:
            producer.close(timeout_ms=0)
            assert producer.idle
            assert producer.buffered_bytes == 0
        assert self.cluster.complaints == []


@pytest.fixture
def world():
    """Return a function that makes worlds; producers are closed at the end."""
    made = []

    def make(*args, **about):
        made.append(World(*args, **about))
        return made[-1]

    yield make
    for one in made:
        one.finish()
