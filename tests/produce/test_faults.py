"""Random faults: acknowledged records are in the log once and in order, and all others have an error.

These brokers may execute a Produce request long after the producer has given it up, which endangers the order.
"""

import contextlib
import random

import pytest

from thinconsumer.broker import ControllerError, Delay, Disconnect, Reply, Silence
from thinconsumer.errors import KafkaTimeoutError
from thinconsumer.testing import Network
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.produce import ProduceRequest
from thinconsumer_testing.broker.call import ApiCall

pytestmark = pytest.mark.once

TOPICS = {"t": 3, "u": 1}
#: Without the codes of a broker that lost the producer's state: a false one would be the broker's bug and would cause
#: duplicates. See test_completion for true ones, from truncated logs.
REFUSALS = [
    Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NOT_ENOUGH_REPLICAS, Code.KAFKA_STORAGE_ERROR,
    Code.REQUEST_TIMED_OUT, Code.CORRUPT_MESSAGE, Code.UNKNOWN_SERVER_ERROR, Code.INVALID_RECORD,
    Code.MESSAGE_TOO_LARGE, Code.THROTTLING_QUOTA_EXCEEDED, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
]  # fmt: skip


class Chaos:
    """Makes brokers execute requests late, without responding, or not at all."""

    def __init__(self, world, dice, rate):
        self.world = world
        self.dice = dice
        self.rate = rate
        self.seen = set()
        for api in ("Produce", "InitProducerId", "Metadata"):
            world.cluster.on(api, self._disturb)

    def _disturb(self, call):
        if self.dice.random() >= self.rate:
            return None
        what = self.dice.choice(["before", "after", "silence", "slow", "late", "refused"])
        api = type(call.request)
        self.seen.add((api.__name__, what))
        if what in ("before", "after"):
            return Disconnect(after=what == "after", reset=self.dice.random() < 0.5)
        if what == "silence":
            return Silence(after=True)
        if what == "slow":
            return Delay(self.dice.uniform(0, 3))
        if what == "late" and api is ProduceRequest:
            self.handle_late(call, self.dice.uniform(0, 6))
            return Silence()
        if api is ProduceRequest:
            return Reply(lambda call: self.world.refusal(call.request, lambda: self.dice.choice(REFUSALS)))
        return Reply(Code.COORDINATOR_LOAD_IN_PROGRESS) if api is InitProducerIdRequest else None

    def handle_late(self, call, seconds):
        """Let the broker execute a request later, when the client may have given it up."""
        late = ApiCall(call.node, call.request, call.version, lambda response: None)
        call.node.call_later(seconds, lambda: call.node.apis[late.request.API_KEY].handle(late))

    def disturb_cluster(self):
        """Move a leader; kill, start or pause a broker; or reset its connections."""
        w = self.world
        what = self.dice.choice(["elect", "elect", "kill", "start", "reset", "pause"])
        node = self.dice.choice(list(w.cluster.nodes.values()))
        if what == "elect":
            topic = self.dice.choice(list(TOPICS))
            with contextlib.suppress(ControllerError):  # the node is down, or not in sync
                w.cluster.move_leader((topic, self.dice.randrange(TOPICS[topic])), node.node_id)
        elif what == "kill" and sum(node.is_alive for node in w.cluster.nodes.values()) > 1:
            w.cluster.kill(node.node_id, noticed_after_s=0 if self.dice.random() < 0.7 else None)
        elif what == "reset":
            w.network.reset(node.host, node.port)
        elif what == "pause":
            w.network.pause(node.host, node.port)
        else:
            self.heal()

    def heal(self):
        for node in self.world.cluster.nodes.values():
            self.world.network.resume(node.host, node.port)
            self.world.cluster.start(node.node_id)


def drive(world, producer, chaos, dice, sends):
    """Send records at random moments; return each one's value and future."""
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
            chaos.disturb_cluster()
        if dice.random() < 0.01:
            world.clock.advance(dice.uniform(0, 12))  # the application does not poll
    return sent


def check(world, sent):
    """Compare the logs with the futures; return how many records failed."""
    logs = {}
    for topic, partitions in TOPICS.items():
        for number in range(partitions):
            logs[topic, number] = world.values(topic, number)
    order = {value: place for place, (value, _) in enumerate(sent)}
    for tp, values in logs.items():
        acknowledged = {v for v, r in sent if r.error is None and r.result()[:2] == tp}
        for value in acknowledged:
            assert values.count(value) == 1, f"{value} is {values.count(value)} times in {tp}"
        places = [order[value] for value in values]
        assert places == sorted(places), f"{tp} is out of order"
    everywhere = [value for values in logs.values() for value in values]
    failed = 0
    for value, future in sent:
        assert future.done
        if future.error is not None:
            failed += 1
            assert everywhere.count(value) <= 1
            continue
        found = future.result()
        assert logs[found.topic, found.partition][found.offset] == value
    return failed


@pytest.mark.parametrize("seed", range(60))
def test_acknowledged_records_are_in_the_log_once_and_in_order(world, seed):
    dice = random.Random(seed)
    w = world(nodes=3, topics=TOPICS, network=Network(latency=dice.choice([0.0005, 0.01, 0.1])))
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
    assert w.seconds_of(producer.flush) <= producer.settings.delivery_timeout_ms / 1000 + 1.0
    check(w, sent)
    producer.poll(10_000)  # until requests without a response have timed out and every backoff is over
    # On the slowest network finding the leader and connecting may take all of delivery_timeout_ms.
    w.deliver("t", b"scout", partition=0)
    late = w.deliver("t", b"late", partition=0)
    assert late.error is None


def test_the_random_faults_cover_all_kinds(world):
    """Every kind of fault occurs, and records both fail and succeed."""
    seen, failed, total = set(), 0, 0
    for seed in range(4):
        dice = random.Random(1000 + seed)
        w, producer = world.start(
            seed=seed, request_timeout_ms=500, delivery_timeout_ms=1500, batch_size=200, nodes=3, topics=TOPICS
        )
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


def test_an_expired_batch_that_arrives_late_is_fenced(world):
    """The broker executes the first request after the producer has given it up and sent the next batch."""
    w, producer = world.start(request_timeout_ms=1400, delivery_timeout_ms=1500, retry_backoff_ms=500)
    held = []
    w.cluster.on("Produce", lambda call: held.append(call) or Silence(), times=1)
    first = producer.send("t", b"first")
    producer.poll(1450)
    producer.send("t", b"second")
    producer.poll(100)
    assert isinstance(first.error, KafkaTimeoutError)
    producer.flush()
    answers = []
    node = w.cluster.nodes[1]
    node.apis[ProduceRequest.API_KEY].handle(ApiCall(node, held[0].request, held[0].version, answers.append))
    (answer,) = answers
    assert answer.responses[0].partition_responses[0].error_code == Code.INVALID_PRODUCER_EPOCH
    assert w.values() == [b"second"]
    assert w.stamps() == [(0, 0, 1), (1, 0, 1)]
