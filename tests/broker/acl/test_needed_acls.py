"""The checks of every API: denied without an ACL, with the code that Kafka sends, and allowed with the right one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import DeleteGroupsRequest, DescribeGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from thinconsumer.wire.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from thinconsumer.wire.partition_leader_epochs import (
    PartitionLeaderEpochsForPartitionsRequest,
    PartitionLeaderEpochsTopic,
)
from thinconsumer.wire.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer.wire.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from thinconsumer_testing.broker.wire.acls import DeleteAclsFilter, DeleteAclsRequest, DescribeAclsRequest
from thinconsumer_testing.broker.wire.administration import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from thinconsumer_testing.broker.wire.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from thinconsumer_testing.broker.wire.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ALICE = "User:alice"
TOPIC, GROUP = Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED
CLUSTER, TXN = Code.CLUSTER_AUTHORIZATION_FAILED, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
AUTHORIZATION_ERRORS = {TOPIC, GROUP, CLUSTER, TXN}


def batch(transactional: bool = False) -> bytes:
    producer = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    return build_batch([NewRecord(b"x", timestamp=1)], transactional=transactional, **producer)


def produce(topic_id: bytes, **options: Any) -> ProduceRequest:
    transactional = options.get("transactional_id") is not None
    data = PartitionProduceData(index=0, records=batch(transactional))
    topics = [TopicProduceData(name="orders", topic_id=topic_id, partition_data=[data])]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics, **options)


def fetch(topic_id: bytes, replica: int = -1) -> FetchRequest:
    topic = FetchTopic(topic="orders", topic_id=topic_id, partitions=[FetchPartition(partition=0)])
    return FetchRequest(
        topics=[topic], replica_id=replica, replica_state=ReplicaState(replica_id=replica), max_bytes=1000
    )


def configs(kind: int, name: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])


def add_partitions() -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_topics=topics,
        transactions=[AddPartitionsToTxnTransaction(transactional_id="tx", topics=topics)],
    )


def offset_commit(topic_id: bytes) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=0)]
    topic = OffsetCommitRequestTopic(name="orders", topic_id=topic_id, partitions=rows)
    return OffsetCommitRequest(group_id="billing", topics=[topic])


def offset_fetch(topic_id: bytes) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0])]
    return OffsetFetchRequest(
        group_id="billing",
        topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id="billing", topics=topics)],
    )


LEADER_EPOCH = OffsetForLeaderEpochRequest(
    topics=[OffsetForLeaderTopic(topic="orders", partitions=[OffsetForLeaderPartition(partition=0)])]
)
NEW_TOPIC = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])


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

CASES: dict[str, Case] = {
    "Produce": Case(produce, (3, 12, 13), TOPIC, on("WRITE", **ORDERS)),
    "Produce to a transaction": Case(
        lambda topic_id: produce(topic_id, transactional_id="tx"), (3, 13), TXN, WRITE_TX, (on("WRITE", **ORDERS),)
    ),
    "Fetch": Case(fetch, (4, 12, 13, 18), TOPIC, on("READ", **ORDERS)),
    "Fetch by a follower": Case(lambda i: fetch(i, 2), (12, 18), TOPIC, on("CLUSTER_ACTION", cluster=True)),
    "ListOffsets": Case(
        lambda _: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
            ],
        ),
        (1, 11), TOPIC, on("DESCRIBE", **ORDERS),
    ),
    "Metadata": Case(
        lambda _: MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), (0, 13), TOPIC, on("READ", **ORDERS)
    ),
    "Metadata by id": Case(
        lambda i: MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=i)]), (12, 13), TOPIC,
        on("WRITE", **ORDERS),
    ),
    "OffsetCommit to a group": Case(
        offset_commit,
        (2, 9, 10), GROUP, READ_BILLING, (on("READ", **ORDERS),),
    ),
    "OffsetCommit of a topic": Case(
        offset_commit,
        (2, 9, 10), TOPIC, on("READ", **ORDERS), (READ_BILLING,),
    ),
    "OffsetFetch of a group": Case(
        offset_fetch,
        (1, 2, 7, 8, 10), GROUP, on("DESCRIBE", **BILLING), (on("DESCRIBE", **ORDERS),),
    ),
    "OffsetFetch of a topic": Case(
        offset_fetch,
        (1, 2, 7, 8, 10), TOPIC, on("DESCRIBE", **ORDERS), (READ_BILLING,),
    ),
    "FindCoordinator of a group": Case(
        lambda _: FindCoordinatorRequest(key="billing", coordinator_keys=["billing"], key_type=0), (0, 3, 4, 6), GROUP,
        READ_BILLING,
    ),
    "FindCoordinator of a transaction": Case(
        lambda _: FindCoordinatorRequest(key="tx", coordinator_keys=["tx"], key_type=1), (1, 3, 4, 6), TXN,
        on("DESCRIBE", **TX),
    ),
    "FindCoordinator of a share group": Case(
        lambda _: FindCoordinatorRequest(coordinator_keys=["x"], key_type=2), (6,), CLUSTER,
        on("CLUSTER_ACTION", cluster=True),
    ),
    "JoinGroup": Case(
        lambda _: JoinGroupRequest(
            group_id="billing", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        (0, 9), GROUP, READ_BILLING,
    ),
    "SyncGroup": Case(
        lambda _: SyncGroupRequest(group_id="billing", protocol_type="consumer", protocol_name="range"), (0, 5), GROUP,
        READ_BILLING,
    ),
    "Heartbeat": Case(lambda _: HeartbeatRequest(group_id="billing"), (0, 4), GROUP, READ_BILLING),
    "LeaveGroup": Case(
        lambda _: LeaveGroupRequest(group_id="billing", members=[MemberIdentity(member_id="m")]), (0, 5), GROUP,
        READ_BILLING,
    ),
    "DescribeGroups": Case(lambda _: DescribeGroupsRequest(groups=["billing"]), (0, 6), GROUP, READ_BILLING),
    "DeleteGroups": Case(
        lambda _: DeleteGroupsRequest(groups_names=["billing"]), (0, 2), GROUP, on("DELETE", **BILLING)
    ),
    "CreateTopics": Case(
        lambda _: NEW_TOPIC,
        (2, 7), TOPIC, on("CREATE", topic="new"), (on("DESCRIBE_CONFIGS", topic="new"),),
    ),
    "CreateTopics on the cluster": Case(
        lambda _: NEW_TOPIC,
        (2, 7), TOPIC, on("CREATE", cluster=True), (on("DESCRIBE_CONFIGS", topic="new"),),
    ),
    "CreatePartitions": Case(
        lambda _: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3, assignments=None)]),
        (0, 3), TOPIC, on("ALTER", **ORDERS),
    ),
    "DeleteTopics": Case(
        lambda _: DeleteTopicsRequest(topic_names=["orders"]), (1, 5), TOPIC, on("DELETE", **ORDERS)
    ),
    "DeleteTopics on the cluster": Case(
        lambda i: DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=i)]), (6,), TOPIC,
        on("ALL", cluster=True),
    ),
    "DeleteRecords": Case(
        lambda _: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
            ]
        ),
        (0, 2), TOPIC, on("DELETE", **ORDERS),
    ),
    "DescribeConfigs of a topic": Case(
        lambda _: configs(2, "orders"), (1, 4), TOPIC, on("ALTER_CONFIGS", **ORDERS)
    ),
    "DescribeConfigs of a broker": Case(
        lambda _: configs(4, "1"), (1, 4), CLUSTER, on("DESCRIBE_CONFIGS", cluster=True)
    ),
    "DescribeConfigs of a group": Case(
        lambda _: configs(32, "billing"), (1, 4), GROUP, on("DESCRIBE_CONFIGS", **BILLING)
    ),
    "InitProducerId": Case(
        lambda _: InitProducerIdRequest(transactional_id=None), (0, 5), CLUSTER, on("IDEMPOTENT_WRITE", cluster=True)
    ),
    "InitProducerId of a writer": Case(
        lambda _: InitProducerIdRequest(transactional_id=None), (0, 5), CLUSTER, on("WRITE", topic="any")
    ),
    "InitProducerId of a transaction": Case(
        lambda _: InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), (0, 5), TXN, WRITE_TX
    ),
    "AddPartitionsToTxn": Case(lambda _: add_partitions(), (0, 3), TXN, WRITE_TX, (on("WRITE", **ORDERS),)),
    "AddPartitionsToTxn of a topic": Case(
        lambda _: add_partitions(), (0, 3), TOPIC, on("WRITE", **ORDERS), (WRITE_TX,)
    ),
    "AddPartitionsToTxn by a broker": Case(
        lambda _: add_partitions(), (4, 5), CLUSTER, on("CLUSTER_ACTION", cluster=True)
    ),
    "AddOffsetsToTxn": Case(
        lambda _: AddOffsetsToTxnRequest(transactional_id="tx", group_id="billing"), (0, 4), TXN, WRITE_TX,
        (READ_BILLING,),
    ),
    "AddOffsetsToTxn of a group": Case(
        lambda _: AddOffsetsToTxnRequest(transactional_id="tx", group_id="billing"), (0, 4), GROUP, READ_BILLING,
        (WRITE_TX,),
    ),
    "EndTxn": Case(lambda _: EndTxnRequest(transactional_id="tx"), (0, 5), TXN, WRITE_TX),
    **{
        name: Case(
            lambda _: TxnOffsetCommitRequest(
                transactional_id="tx",
                group_id="billing",
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name="orders", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
                    )
                ],
            ),
            (0, 5), denied, needs, has,
        )
        for name, denied, needs, has in (
            ("TxnOffsetCommit", TXN, WRITE_TX, (READ_BILLING, on("READ", **ORDERS))),
            ("TxnOffsetCommit to a group", GROUP, READ_BILLING, (WRITE_TX, on("READ", **ORDERS))),
            ("TxnOffsetCommit of a topic", TOPIC, on("READ", **ORDERS), (WRITE_TX, READ_BILLING)),
        )
    },
    "OffsetForLeaderEpoch": Case(
        lambda _: LEADER_EPOCH,
        (2, 4), TOPIC, on("DESCRIBE", **ORDERS),
    ),
    "PartitionLeaderEpochsForPartitions": Case(
        lambda i: PartitionLeaderEpochsForPartitionsRequest(
            topics=[PartitionLeaderEpochsTopic(topic_id=i, partitions=[0])]
        ),
        (0,), TOPIC, on("DESCRIBE", **ORDERS),
    ),
    "ConsumerGroupPositions": Case(
        lambda _: ConsumerGroupPositionsRequest(group_id="billing", member_id="m"), (0,), GROUP, READ_BILLING
    ),
    "OffsetForLeaderEpoch by a follower": Case(
        lambda _: LEADER_EPOCH,
        (2, 4), TOPIC, on("CLUSTER_ACTION", cluster=True),
    ),
    "DescribeAcls": Case(
        lambda _: DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
        (1, 3), CLUSTER, on("DESCRIBE", cluster=True),
    ),
    "DescribeUserScramCredentials": Case(
        lambda _: DescribeUserScramCredentialsRequest(), (0,), CLUSTER, on("DESCRIBE", cluster=True)
    ),
    "AlterUserScramCredentials": Case(
        lambda _: AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="bob", mechanism=1)], upsertions=[]
        ),
        (0,), CLUSTER, on("ALTER", cluster=True),
    ),
    "DeleteAcls": Case(
        lambda _: DeleteAclsRequest(
            filters=[DeleteAclsFilter(resource_type_filter=2, pattern_type_filter=1, operation=1, permission_type=1)]
        ),
        (1, 3), CLUSTER, on("ALTER", cluster=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_needed_acls(name: str, secured: Any, alice: Any, codes: Any, trimmed: Any) -> None:
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
