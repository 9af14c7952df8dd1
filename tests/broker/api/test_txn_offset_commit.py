"""TxnOffsetCommit: unknown partitions, transaction verification, group coordinator, and the error codes of each."""

from itertools import repeat
from types import SimpleNamespace

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.api.txn_offset_commit import API
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.config import BrokerConfig
from thinconsumer_testing.broker.image import ClusterImage, PartitionImage, TopicImage
from thinconsumer_testing.broker.schedule import Schedule
from thinconsumer_testing.broker.wire.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

VERSIONS = range(API.lowest, API.highest + 1)


class FakeNode:
    """Leads the group's partition and coordinates the group; its peer coordinates the transaction."""

    def __init__(self, *, open_here=False, leads=0, says=0, commits=0):
        self.schedule = Schedule()
        self.config = BrokerConfig(offsets_topic_num_partitions=1)
        self.image = ClusterImage("cluster")
        rows = tuple(PartitionImage("orders", b"o" * 16, number, 1, 0, (1,), (1,)) for number in range(2))
        self.image.put_topic(TopicImage("orders", b"o" * 16, rows, {}))
        self.node_id, self.is_running = 1, True
        self.cluster = SimpleNamespace(nodes={1: self}, reachable=lambda one, other: True)
        self.group_coordinator = self.transaction_coordinator = self
        self.asked, self.committed = [], []
        self._open = {7: 0} if open_here else {}
        self._leads, self._says, self._commits = leads, int(says), int(commits)

    def leader_replica(self, tp):
        assert tp == TopicPartition("__consumer_offsets", 0)
        producers = SimpleNamespace(would_begin_transaction=lambda producer_id, epoch: producer_id not in self._open)
        partition = SimpleNamespace(log=SimpleNamespace(producers=producers))
        return (None, self._leads) if self._leads else (partition, 0)

    def coordinator_for(self, kind, key):
        assert (kind, key) == (1, "t")
        return 0, SimpleNamespace(node_id=1)

    def call_later(self, seconds, callback):
        return self.schedule.call_later(seconds, callback)

    def add_or_verify(self, transactional_id, producer, tps, done, *, client_version, verify_only):
        self.asked.append((transactional_id, *producer, tuple(tps), not verify_only))
        done(dict.fromkeys(tps, self._says))

    def commit(self, request, version, done):
        self.committed.append((request.group_id, version, [(t.name, len(t.partitions)) for t in request.topics]))
        done(repeat(self._commits))


def request(group_id="g", **topics):
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group_id,
        producer_id=7,
        producer_epoch=3,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=5, committed_metadata="")
                    for n in numbers
                ],
            )
            for name, numbers in (topics or {"orders": [0, 1]}).items()
        ],
    )


def send(node, asked=None, version=5):
    answers = []
    at_once = API.handle(ApiCall(node, asked or request(), version, answers.append))
    (response,) = [at_once] if at_once is not None else answers
    response = type(response).decode(response.encode(version), version)
    return {(topic.name, p.partition_index): p.error_code for topic in response.topics for p in topic.partitions}


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_committed_after_verification(version):
    node = FakeNode()
    assert send(node, version=version) == {("orders", 0): 0, ("orders", 1): 0}
    assert node.asked == [("t", 7, 3, (TopicPartition("__consumer_offsets", 0),), version >= 5)]
    assert node.committed == [("g", version, [("orders", 2)])]


def test_ongoing_transaction_is_not_verified_again():
    node = FakeNode(open_here=True)
    send(node)
    assert (node.asked, len(node.committed)) == ([], 1)


@pytest.mark.parametrize(
    ("says", "version", "told"),
    [
        (Code.PRODUCER_FENCED, 5, Code.INVALID_PRODUCER_EPOCH),
        (Code.INVALID_PRODUCER_ID_MAPPING, 5, Code.INVALID_PRODUCER_ID_MAPPING),
        (Code.CONCURRENT_TRANSACTIONS, 5, Code.CONCURRENT_TRANSACTIONS),
        (Code.TRANSACTION_ABORTABLE, 4, Code.TRANSACTION_ABORTABLE),
        (Code.TRANSACTION_ABORTABLE, 3, Code.INVALID_TXN_STATE),
        (Code.NOT_COORDINATOR, 5, Code.NOT_COORDINATOR),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 2, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, 1, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NETWORK_EXCEPTION, 5, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, 5, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_rejected_transaction(says, version, told):
    node = FakeNode(says=says)
    assert send(node, version=version) == {("orders", 0): told, ("orders", 1): told}
    assert node.committed == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_broker_that_does_not_lead_the_groups_partition(code, told):
    node = FakeNode(leads=int(code))
    assert set(send(node).values()) == {told}
    assert node.asked == []


def test_unreachable_transaction_coordinator():
    node = FakeNode()
    node.cluster.reachable = lambda one, other: False
    assert set(send(node).values()) == {Code.COORDINATOR_LOAD_IN_PROGRESS}


def test_unknown_partitions_are_rejected_and_others_committed():
    node = FakeNode()
    asked = request(bills=[0], orders=[1, 2])
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert send(node, asked) == {("bills", 0): unknown, ("orders", 2): unknown, ("orders", 1): 0}
    assert node.committed == [("g", 5, [("orders", 1)])]


def test_unknown_partitions_need_no_coordinator():
    node = FakeNode()
    assert send(node, request(bills=[0])) == {("bills", 0): Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert (node.asked, node.committed) == ([], [])


def test_empty_group_id():
    node = FakeNode()
    assert set(send(node, request(group_id="")).values()) == {Code.INVALID_GROUP_ID}
    assert node.asked == []


@pytest.mark.parametrize("version", VERSIONS)
def test_group_coordinator_codes_are_returned(version):
    node = FakeNode(commits=Code.COORDINATOR_LOAD_IN_PROGRESS)
    told = Code.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else Code.COORDINATOR_NOT_AVAILABLE
    assert set(send(node, version=version).values()) == {told}
