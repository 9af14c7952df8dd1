"""TxnOffsetCommit: unknown partitions, transaction verification, group coordinator, and the error codes of each."""

from itertools import repeat

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.api.txn_offset_commit import API
from thinconsumer_testing.broker.wire.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

VERSIONS = range(API.lowest, API.highest + 1)
OF_GROUP = TopicPartition("__consumer_offsets", 0)


class Coordinator:
    """A transaction coordinator that answers ``code`` for every partition."""

    def __init__(self):
        self.code = 0
        self.asked = []

    def add_or_verify(self, transactional_id, producer, tps, done, *, client_version, verify_only):
        self.asked.append((transactional_id, *producer, tuple(tps), not verify_only))
        done(dict.fromkeys(tps, int(self.code)))


@pytest.fixture
def cluster(new_cluster):
    return new_cluster(1, {"orders": 2}, coordinators=True, offsets_topic_num_partitions=1)


@pytest.fixture
def coordinator(cluster):
    cluster.nodes[1].transaction_coordinator = made = Coordinator()
    return made


def request(group_id="g", **topics):
    rows = {
        name: [TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=5) for n in numbers]
        for name, numbers in (topics or {"orders": [0, 1]}).items()
    }
    topics = [TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in rows.items()]
    return TxnOffsetCommitRequest(
        transactional_id="t", group_id=group_id, producer_id=7, producer_epoch=3, topics=topics
    )


@pytest.fixture
def send(cluster, coordinator, client_of):
    """``send(request, version)``: the error codes of the response by topic and partition."""

    def ask(asked=None, version=5):
        response = client_of(cluster, 1).ask(asked or request(), version)
        return {(topic.name, p.partition_index): p.error_code for topic in response.topics for p in topic.partitions}

    return ask


def stored(cluster):
    """Return how many records the partition of the group has."""
    return cluster.leader(OF_GROUP).log.end_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_committed_after_verification(cluster, coordinator, send, version):
    assert send(version=version) == {("orders", 0): 0, ("orders", 1): 0}
    assert coordinator.asked == [("t", 7, 3, (OF_GROUP,), version >= 5)]
    assert stored(cluster) == 2
    assert cluster.leader(OF_GROUP).log.open_transactions() == {7: 0}
    send(version=version)
    assert len(coordinator.asked) == 1, "an ongoing transaction is not verified again"


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
def test_rejected_transaction(cluster, coordinator, send, says, version, told):
    coordinator.code = says
    assert send(version=version) == {("orders", 0): told, ("orders", 1): told}
    assert stored(cluster) == 0


def test_unknown_partitions_are_rejected_and_others_committed(cluster, send):
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    found = send(request(bills=[0], orders=[1, 2]))
    assert found == {("bills", 0): unknown, ("orders", 2): unknown, ("orders", 1): 0}
    assert stored(cluster) == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [(request(bills=[0]), Code.UNKNOWN_TOPIC_OR_PARTITION), (request(group_id=""), Code.INVALID_GROUP_ID)],
)
def test_requests_without_a_call_of_the_transaction_coordinator(coordinator, send, request_, code):
    assert set(send(request_).values()) == {code}
    assert coordinator.asked == []


def test_broker_that_does_not_lead_the_groups_partition(cluster, coordinator, send):
    cluster.leader(OF_GROUP).is_leader = False
    assert set(send().values()) == {Code.NOT_COORDINATOR}
    cluster.nodes[1].image.remove_topic(OF_GROUP.topic)
    assert set(send().values()) == {Code.COORDINATOR_NOT_AVAILABLE}
    assert coordinator.asked == []


def test_unreachable_transaction_coordinator(cluster, coordinator, send):
    cluster.reachable = lambda one, other: False
    assert set(send().values()) == {Code.COORDINATOR_LOAD_IN_PROGRESS}


@pytest.mark.parametrize("version", VERSIONS)
def test_group_coordinator_codes_are_returned(cluster, send, version):
    loading = int(Code.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.nodes[1].group_coordinator.commit = lambda request, version, done: done(repeat(loading))
    told = Code.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else Code.COORDINATOR_NOT_AVAILABLE
    assert set(send(version=version).values()) == {told}
