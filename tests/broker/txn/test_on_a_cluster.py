"""Transactions on a whole cluster with producers' requests, before and since KIP-890."""

import pytest

from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer_testing.broker.controller import TRANSACTIONS_TOPIC
from thinconsumer_testing.broker.group.hashing import partition_for
from thinconsumer_testing.broker.txn.states import TransactionState
from thinconsumer_testing.broker.wire.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
)

ID = "payments"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MODERN, OLD = "since KIP-890", "before"


class TransactionalClient:
    """A transactional producer that sends its requests to the right brokers."""

    def __init__(self, cluster, client_of, kind=MODERN):
        self.cluster = cluster
        self._client_of = client_of
        self._clients = {}
        self.is_modern = kind == MODERN
        self.id = self.epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    def node(self, node_id):
        client = self._clients.get(node_id)
        if client is None or client.closed:
            client = self._clients[node_id] = self._client_of(self.cluster, node_id)
        return client

    def coordinator(self):
        """Return the coordinator's connection; the lookup creates the topic."""
        anyone = next(node.node_id for node in self.cluster.nodes.values() if node.is_running)
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        self.node(anyone).ask(request)
        (found,) = self.node(anyone).ask(request).coordinators
        assert found.error_code == 0
        return self.node(found.node_id)

    def init(self, timeout_ms=60_000):
        answer = self.coordinator().ask(
            InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms), 5
        )
        if not answer.error_code:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return answer.error_code

    def write(self, tp, *values):
        """Write one batch; before KIP-890 the partition is added first."""
        if not self.is_modern and (code := self.add(tp)):
            return code
        sequence = self._sequences.get(tp, 0)
        data = build_batch(
            [NewRecord(value, timestamp=1_700_000_000_000) for value in values],
            producer_id=self.id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        partitions = [PartitionProduceData(index=tp.partition, records=data)]
        request = ProduceRequest(
            transactional_id=ID, acks=-1, timeout_ms=30_000,
            topic_data=[TopicProduceData(name=tp.topic, partition_data=partitions)],
        )  # fmt: skip
        leader = self.cluster.leader(tp).node.node_id
        (topic,) = self.node(leader).ask(request, 12 if self.is_modern else 11).responses
        code = topic.partition_responses[0].error_code
        if not code:
            self._sequences[tp] = sequence + len(values)
        return code

    def add(self, *tps):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition]) for tp in tps],
        )
        answer = self.coordinator().ask(request, 3)
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def end(self, commit=True, *, after_s=0.0):
        """Return the error code; the broker may respond after other brokers have responded to it."""
        request = EndTxnRequest(transactional_id=ID, producer_id=self.id, producer_epoch=self.epoch, committed=commit)
        client = self.coordinator()
        client.send(request, 5 if self.is_modern else 4)
        run(self.cluster, after_s)
        (answer,) = client.answers()
        if self.is_modern and not answer.error_code:
            if (answer.producer_id, answer.producer_epoch) != (self.id, self.epoch):
                self._sequences.clear()
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(3, {"t": 2}, replica_lag_time_max_ms=500)


@pytest.fixture(params=[MODERN, OLD])
def producer(request, cluster, client_of):
    producer = TransactionalClient(cluster, client_of, request.param)
    assert producer.init() == 0
    return producer


def markers(cluster, tp):
    """Return (producer id, epoch, commit) of each marker in a partition."""
    log = cluster.leader(tp).log
    return [
        (batch.producer_id, batch.producer_epoch, batch.control_type() is ControlType.COMMIT)
        for batch in log.read_batches(log.start_offset, log.end_offset)
        if batch.is_control
    ]


def run(cluster, seconds):
    cluster.advance(cluster.schedule.now + seconds)


def state(cluster):
    """Return the transaction's state at its coordinator."""
    (found,) = [
        shard.transactions[ID].state
        for node in cluster.nodes.values()
        if node.is_running
        for shard in node.transaction_coordinator._shards.values()
        if not shard.is_stale and ID in shard.transactions
    ]
    return found


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_with_two_partitions(cluster, producer, commit):
    assert producer.write(T0, b"a", b"b") == 0
    assert producer.write(T1, b"c") == 0
    assert cluster.leader(T0).last_stable_offset == 0
    who = (producer.id, producer.epoch + producer.is_modern, commit)
    assert producer.end(commit) == 0
    run(cluster, 0)
    assert markers(cluster, T0) == markers(cluster, T1) == [who]
    leader = cluster.leader(T0)
    assert leader.last_stable_offset == leader.high_watermark == 3
    assert leader.log.aborted(0, 3) == ([] if commit else [(producer.id, 0)])


def test_consecutive_transactions(cluster, producer):
    for number in range(20):
        assert producer.write(T0, b"%d" % number) == 0
        assert producer.end(number % 3 != 0) == 0
        run(cluster, 0.01)
    assert [commit for *_, commit in markers(cluster, T0)] == [number % 3 != 0 for number in range(20)]
    assert cluster.leader(T0).last_stable_offset == 40


def test_write_to_a_partition_not_added_is_rejected_before_kip_890(cluster, client_of):
    producer = TransactionalClient(cluster, client_of, OLD)
    producer.init()
    assert producer.add(T0) == 0
    producer.add = lambda *tps: 0
    assert producer.write(T0, b"a") == 0
    assert producer.write(T1, b"b") == Code.TRANSACTION_ABORTABLE


def test_zombie_producer_is_fenced_everywhere(cluster, client_of, producer):
    assert producer.write(T0, b"a") == 0
    successor = TransactionalClient(cluster, client_of)
    assert successor.init() == Code.CONCURRENT_TRANSACTIONS
    run(cluster, 1)
    assert successor.init() == 0
    assert [commit for *_, commit in markers(cluster, T0)] == [False]
    expected = Code.INVALID_PRODUCER_EPOCH if producer.is_modern else Code.PRODUCER_FENCED
    assert producer.write(T0, b"b") == producer.write(T1, b"b") == expected
    assert producer.end(True) == Code.PRODUCER_FENCED
    assert successor.write(T0, b"c") == 0
    assert successor.end() == 0


@pytest.mark.parametrize("commit", [True, False])
def test_next_coordinator_completes_a_logged_end(cluster, producer, commit):
    """A partition's leader is cut off while markers are written, then the coordinator is killed."""
    coordinator = cluster.leader(
        TopicPartition(TRANSACTIONS_TOPIC, partition_for(ID, cluster.config.transaction_state_log_num_partitions))
    ).node.node_id
    others = [node_id for node_id in cluster.nodes if node_id != coordinator]
    cluster.move_leader(T0, others[0])
    cluster.move_leader(T1, others[1])
    assert producer.write(T0, b"a") == producer.write(T1, b"b") == 0
    cluster.cut(coordinator, others[1])
    assert producer.end(commit, after_s=2) == 0, "once the log's replica there does not count any more"
    assert state(cluster) in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    assert markers(cluster, T1) == []
    cluster.kill(coordinator)
    cluster.heal()
    run(cluster, 5)
    assert state(cluster) is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert {kind for *_, kind in markers(cluster, T0) + markers(cluster, T1)} == {commit}
    assert cluster.leader(T1).last_stable_offset == cluster.leader(T1).high_watermark
    assert producer.write(T0, b"c") == 0
    assert producer.end() == 0


def test_rolling_restart_keeps_all_transactions(cluster, producer):
    assert producer.write(T0, b"a") == 0
    for node_id in cluster.nodes:
        cluster.kill(node_id)
        run(cluster, 3)
        cluster.start(node_id)
        run(cluster, 3)
    assert state(cluster) is TransactionState.ONGOING
    assert producer.end() == 0
    run(cluster, 1)
    assert [commit for *_, commit in markers(cluster, T0)] == [True]
