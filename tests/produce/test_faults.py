"""Faults of every kind against the producer's promise: what is acknowledged is there once, in order; the rest failed.

The brokers here may carry a Produce out late, when who asked for it has long given up, which is what makes order hard.
"""

from __future__ import annotations

import random

import pytest

from thinconsumer import TopicPartition
from thinconsumer.errors import KafkaTimeoutError
from thinconsumer.testing import Delay, Disconnect, Network, Silence
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

TOPICS = {"t": 3, "u": 1}
#: Without those that say that the broker lost track of the producer: as lies they would be a broker's bug, and excuse
#: duplicates. The true ones come from truncated logs, see test_outcomes.
REFUSALS = [
    Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NOT_ENOUGH_REPLICAS, Code.KAFKA_STORAGE_ERROR,
    Code.REQUEST_TIMED_OUT, Code.CORRUPT_MESSAGE, Code.UNKNOWN_SERVER_ERROR, Code.INVALID_RECORD,
    Code.MESSAGE_TOO_LARGE, Code.THROTTLING_QUOTA_EXCEEDED, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
]  # fmt: skip


class Chaos:
    """Brokers that do what is asked, late, halfway or not at all."""

    def __init__(self, world, dice, rate):
        self.world = world
        self.dice = dice
        self.rate = rate
        self.seen = set()
        for api in (ProduceRequest, InitProducerIdRequest, MetadataRequest):
            for broker in world.cluster.brokers.values():
                self._disturb(broker, api)

    def _disturb(self, broker, api):
        usual = broker.handlers[api]

        def handle(request, version, connection):
            if self.dice.random() >= self.rate:
                return usual(request, version, connection)
            what = self.dice.choice(["before", "after", "silence", "slow", "late", "refused"])
            self.seen.add((api.__name__, what))
            if what == "before":
                return Disconnect(reset=self.dice.random() < 0.5)
            if what == "after":
                usual(request, version, connection)
                return Disconnect(reset=self.dice.random() < 0.5)
            if what == "silence":
                usual(request, version, connection)
                return Silence()
            if what == "slow":
                return Delay(self.dice.uniform(0, 3), lambda: usual(request, version, connection))
            if what == "late" and api is ProduceRequest:
                # Read from the socket and queued: it is carried out although who asked has long given up.
                moment = self.world.network.now() + self.dice.uniform(0, 6)
                self.world.network.call_at(moment, lambda: usual(request, version, connection))
                return Silence()
            return self._refuse(request, version, connection, usual)

        broker.handlers[api] = handle

    def _refuse(self, request, version, connection, usual):
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error_code=int(Code.COORDINATOR_LOAD_IN_PROGRESS), producer_id=-1)
        if isinstance(request, MetadataRequest):
            return usual(request, version, connection)
        answer = ProduceResponse()
        for topic in request.topic_data:
            told = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            for part in topic.partition_data:
                code = int(self.dice.choice(REFUSALS))
                told.partition_responses.append(
                    PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                )
            answer.responses.append(told)
        return answer

    def move_something(self):
        """Give a partition another leader, or start a broker that was killed, or kill one."""
        w = self.world
        what = self.dice.choice(["elect", "elect", "kill", "start", "reset", "pause"])
        broker = self.dice.choice(list(w.cluster.brokers.values()))
        if what == "elect":
            log = self.dice.choice([log for topic in w.cluster.topics for log in topic.partitions.values()])
            log.elect(self.dice.choice(list(w.cluster.alive)))
        elif what == "kill" and len(w.cluster.alive) > 1:
            w.cluster.kill(broker.node_id, noticed=self.dice.random() < 0.7)
        elif what == "reset":
            w.network.reset(broker.host, broker.port)
        elif what == "pause":
            w.network.pause(broker.host, broker.port)
        else:
            self.heal()

    def heal(self):
        """Let every broker work again."""
        w = self.world
        for broker in w.cluster.brokers.values():
            w.network.resume(broker.host, broker.port)
            if broker.node_id not in w.cluster.alive:
                handlers = dict(broker.handlers)
                w.cluster.start(broker.node_id)
                broker.handlers.update(handlers)
            w.network.listen(broker.host, broker.port, broker)


def drive(world, producer, chaos, dice, sends):
    """Send records at random moments; return (partition given or not, receipt, value) of each."""
    sent = []
    for number in range(sends):
        topic = dice.choice(list(TOPICS))
        partition = dice.choice([None, dice.randrange(TOPICS[topic])])
        key = dice.choice([None, b"%d" % dice.randrange(20)])
        value = b"%s-%d" % (topic.encode(), number)
        sent.append((value, producer.send(topic, value, key=key, partition=partition)))
        if dice.random() < 0.3:
            producer.poll(dice.choice([0, 0, 1, 20, 300]))
        if dice.random() < 0.05:
            chaos.move_something()
        if dice.random() < 0.01:
            world.clock.advance(dice.uniform(0, 12))  # the caller is away
    return sent


def check(world, sent):
    """Hold the logs against the receipts."""
    logs = {}
    for topic, partitions in TOPICS.items():
        for number in range(partitions):
            tp = TopicPartition(topic, number)
            logs[tp] = world.values(tp)
    order = {value: place for place, (value, _) in enumerate(sent)}
    for tp, values in logs.items():
        acknowledged = {v for v, r in sent if r.error is None and r.result()[:2] == tp}
        for value in acknowledged:
            assert values.count(value) == 1, f"{value} is {values.count(value)} times in {tp}"
        places = [order[value] for value in values]
        assert places == sorted(places), f"{tp} is out of order"
    everywhere = [value for values in logs.values() for value in values]
    failed = 0
    for value, receipt in sent:
        assert receipt.done
        if receipt.error is not None:
            failed += 1
            assert everywhere.count(value) <= 1
            continue
        found = receipt.result()
        assert logs[TopicPartition(found.topic, found.partition)][found.offset] == value
    return failed


@pytest.mark.parametrize("seed", range(60))
def test_what_is_acknowledged_is_there_once_and_in_order_and_the_rest_has_an_error(world, seed):
    dice = random.Random(seed)
    w = world(node_ids=(1, 2, 3), topics=TOPICS, network=Network(latency=dice.choice([0.0005, 0.01, 0.1])))
    producer = w.producer(
        seed,
        request_timeout_ms=dice.choice([500, 2000]),
        delivery_timeout_ms=dice.choice([1000, 5000, 20_000]),
        batch_size=dice.choice([100, 1000, 100_000]),
        max_request_size=dice.choice([1024, 100_000]),
        buffer_memory=dice.choice([2000, 100_000]),
        max_block_ms=1000_000,
        compression_type=dice.choice(["none", "gzip", "zstd"]),
    )
    chaos = Chaos(w, dice, dice.choice([0.0, 0.1, 0.3, 0.6]))
    sent = drive(w, producer, chaos, dice, 300)
    chaos.rate = 0.0
    chaos.heal()
    before = w.clock.now()
    producer.flush()
    assert w.clock.now() - before <= producer.settings.delivery_timeout_ms / 1000 + 1.0
    check(w, sent)
    producer.poll(10_000)  # until requests that were never answered are given up, and every backoff is over
    # Leader unknown, no connection: what it takes to find out may on the slowest network be all the time a record has.
    producer.send("t", b"scout", partition=0)
    producer.flush()
    late = producer.send("t", b"late", partition=0)
    producer.flush()
    assert late.error is None


def test_the_faults_above_really_happen(world):
    """All kinds, and both outcomes: else the test above would promise more than it looks at."""
    seen, failed, total = set(), 0, 0
    for seed in range(4):
        dice = random.Random(1000 + seed)
        w = world(node_ids=(1, 2, 3), topics=TOPICS)
        producer = w.producer(seed, request_timeout_ms=500, delivery_timeout_ms=1500, batch_size=200)
        chaos = Chaos(w, dice, 0.5)
        sent = drive(w, producer, chaos, dice, 300)
        chaos.rate = 0.0
        chaos.heal()
        producer.flush()
        failed += check(w, sent)
        total += len(sent)
        seen |= chaos.seen
    kinds = {"before", "after", "silence", "slow", "late", "refused"}
    assert {("ProduceRequest", kind) for kind in kinds} <= seen
    assert 0 < failed < total


def test_a_batch_that_expired_on_its_way_cannot_come_in_behind_the_next_one(world):
    """The broker takes the first batch from its queue long after the producer gave it up, and has sent the next."""
    w = world()
    producer = w.producer(request_timeout_ms=1400, delivery_timeout_ms=1500, retry_backoff_ms=500)
    held = []

    def hold(request, version, connection):
        if held:
            return None
        held.append((request, version, connection))
        return Silence()

    w.before(ProduceRequest, hold)
    first = producer.send("t", b"first")
    producer.poll(1450)
    producer.send("t", b"second")
    producer.poll(100)
    assert isinstance(first.error, KafkaTimeoutError)
    producer.flush()
    answer = w.partitions.produce(*held[0])
    assert answer.responses[0].partition_responses[0].error_code == Code.INVALID_PRODUCER_EPOCH
    assert w.values() == [b"second"]
    assert w.stamps() == [(0, 0, 1), (1, 0, 1)]
