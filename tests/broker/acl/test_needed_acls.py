"""The checks of every API: denied without an ACL, with the code that Kafka sends, and allowed with the right one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from differential.acls import trimmed

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import TopicPartitions
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from thinconsumer.wire.partition_leader_epochs import PartitionLeaderEpochsForPartitionsRequest
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer.wire.topics import DeleteTopicsRequest, DeleteTopicState
from thinconsumer_testing.broker.wire.administration import DescribeConfigsRequest, DescribeConfigsResource

ALICE = "User:alice"
TOPIC, GROUP = Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED
CLUSTER, TXN = Code.CLUSTER_AUTHORIZATION_FAILED, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
AUTHORIZATION_ERRORS = {TOPIC, GROUP, CLUSTER, TXN}


def produce(topic_id: bytes) -> ProduceRequest:
    record = [NewRecord(b"x", timestamp=1)]
    batch = build_batch(record, transactional=True, producer_id=0, producer_epoch=0, base_sequence=0)
    data = [PartitionProduceData(index=0, records=batch)]
    topics = [TopicProduceData(name="orders", topic_id=topic_id, partition_data=data)]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics, transactional_id="tx")


class Case(NamedTuple):
    """A request, and what it needs: operation and resource of the first missing ACL, and the code without it."""

    request: Callable[[bytes], Message]
    versions: tuple[int, ...]
    denied: Code
    needs: dict[str, Any]
    has: tuple[dict[str, Any], ...] = ()


def on(operation: str, **resource: Any) -> dict[str, Any]:
    return {"operations": operation, **resource}


ORDERS, BILLING, TX = {"topic": "orders"}, {"group": "billing"}, {"transactional_id": "tx"}
READ_BILLING, WRITE_TX = on("READ", **BILLING), on("WRITE", **TX)

#: Cases beside those of ``tests/broker/test_conversations.py``.
CASES: dict[str, Case] = {
    "Produce to a transaction": Case(
        produce, (3, 13), TXN, WRITE_TX, (on("WRITE", **ORDERS),)
    ),
    "FindCoordinator of a share group": Case(
        lambda _: FindCoordinatorRequest(coordinator_keys=["x"], key_type=2), (6,), CLUSTER,
        on("CLUSTER_ACTION", cluster=True),
    ),
    "DeleteTopics on the cluster": Case(
        lambda i: DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=i)]), (6,), TOPIC,
        on("ALL", cluster=True),
    ),
    "DescribeConfigs of a broker": Case(
        lambda _: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=4, resource_name="1")]
        ), (1, 4), CLUSTER, on("DESCRIBE_CONFIGS", cluster=True)
    ),
    "PartitionLeaderEpochsForPartitions": Case(
        lambda i: PartitionLeaderEpochsForPartitionsRequest(
            topics=[TopicPartitions(topic_id=i, partitions=[0])]
        ),
        (0,), TOPIC, on("DESCRIBE", **ORDERS),
    ),
    "ConsumerGroupPositions": Case(
        lambda _: ConsumerGroupPositionsRequest(group_id="billing", member_id="m"), (0,), GROUP, READ_BILLING
    ),
    "OffsetForLeaderEpoch by a follower": Case(
        lambda _: OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=0)])]
        ),
        (2, 4), TOPIC, on("CLUSTER_ACTION", cluster=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_needed_acls(name: str, secured: Any, alice: Any, codes: Any) -> None:
    case = CASES[name]
    for version in case.versions:
        cluster = secured()
        client = alice(cluster)
        # The coordinators' topics are created with the first request, so that the same request finds them here.
        for topic in ("__consumer_offsets", "__transaction_state"):
            cluster.controller.ensure_internal_topic(topic)
        for acl in case.has:
            cluster.create_acls(ALICE, **acl)
        request = trimmed(case.request(cluster.controller.image.topics["orders"].topic_id), version)
        assert codes(client.ask(request, version)) == {case.denied}, version
        cluster.create_acls(ALICE, **case.needs)
        client.send(request, version)
        for answer in client.answers():
            assert not codes(answer) & AUTHORIZATION_ERRORS, version
