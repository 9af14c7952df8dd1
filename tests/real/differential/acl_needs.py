"""A request of every API, with the ACLs that it needs."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.init_producer_id import InitProducerIdRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity
from thinconsumer.wire.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from thinconsumer.wire.metadata import MetadataRequest, MetadataRequestTopic
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from thinconsumer.wire.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
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
from thinconsumer_testing.broker.wire.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
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
    UserName,
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

from .scripts import batch
from .talk import World

EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
CLUSTER = {"cluster": True}


class Row(NamedTuple):
    """A request, the ACLs that it needs as (operation, resource) in the order of the checks, and its least version."""

    request: Message
    needs: list[tuple[str, dict[str, Any]]]
    about: str = ""
    at_least: int = 0


class Resources:
    def __init__(self, world: World) -> None:
        self.world = world
        self.topic, self.group, self.txn = world.topic(), world.group("g"), world.transactional_id()
        self.topic_id = world.topic_id(self.topic)
        self.of_topic, self.of_group = {"topic": self.topic}, {"group": self.group}
        self.of_txn = {"transactional_id": self.txn}


def rows(world: World, acl: AclCreation) -> Iterator[Row]:
    """Yield a request of every API; those that delete what others are about come last. ``acl`` is one to create."""
    on = Resources(world)
    yield from _topics(on)
    yield from _groups(on)
    yield from _configs(on)
    yield from _transactions(on)
    yield from _cluster(on, acl)
    yield from _changes(on)


def _topics(on: Resources) -> Iterator[Row]:
    topic, topic_id, needed = on.topic, on.topic_id, on.of_topic
    data = PartitionProduceData(index=0, records=batch(on.world, b"x"))
    produced = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])]
    yield Row(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=produced), [("WRITE", needed)], "", 3)
    fetched = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[FetchPartition(partition=0)])]
    yield Row(FetchRequest(topics=fetched, max_bytes=1000, replica_id=-1), [("READ", needed)])
    by_follower = {"replica_id": 1, "replica_state": ReplicaState(replica_id=1)}
    follower = FetchRequest(topics=fetched, max_bytes=1000, **by_follower)
    yield Row(follower, [("CLUSTER_ACTION", CLUSTER)], "follower")
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=topic, partitions=[row])]
    yield Row(ListOffsetsRequest(replica_id=-1, topics=topics), [("DESCRIBE", needed)])
    yield Row(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), [("DESCRIBE", needed)])
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
    yield Row(by_id, [("DESCRIBE", needed)], "id", 12)
    deleted = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])]
    yield Row(DeleteRecordsRequest(timeout_ms=5000, topics=deleted), [("DELETE", needed)])
    epochs = [OffsetForLeaderTopic(topic=topic, partitions=[OffsetForLeaderPartition(partition=0)])]
    yield Row(OffsetForLeaderEpochRequest(replica_id=-1, topics=epochs), [("DESCRIBE", needed)])


def _groups(on: Resources) -> Iterator[Row]:
    topic, topic_id, group = on.topic, on.topic_id, on.group
    read = [("READ", on.of_group)]
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)]
    yield Row(OffsetCommitRequest(group_id=group, topics=topics), [*read, ("READ", on.of_topic)])
    describe = [("DESCRIBE", on.of_group), ("DESCRIBE", on.of_topic)]
    fetched = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])]
    yield Row(
        OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
            groups=[OffsetFetchRequestGroup(group_id=group, topics=fetched)],
        ),
        describe,
    )
    everything = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    yield Row(OffsetFetchRequest(group_id=group, topics=None, groups=everything), describe, "all", 2)
    yield Row(FindCoordinatorRequest(key=group, coordinator_keys=[group]), [("DESCRIBE", on.of_group)], "group")
    yield Row(SyncGroupRequest(group_id=group, protocol_type="c", protocol_name="p"), read)
    yield Row(HeartbeatRequest(group_id=group, member_id="m"), read)
    yield Row(LeaveGroupRequest(group_id=group, member_id="m", members=[MemberIdentity(member_id="m")]), read)
    beat = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="m", member_epoch=1, subscribed_topic_names=[topic], topic_partitions=[]
    )
    yield Row(beat, [*read, ("DESCRIBE", on.of_topic)])
    yield Row(ConsumerGroupDescribeRequest(group_ids=[group]), [("DESCRIBE", on.of_group)])
    described = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    yield Row(described, [("DESCRIBE", on.of_group)])


def _configs(on: Resources) -> Iterator[Row]:
    needed = {2: (on.topic, on.of_topic), 32: (on.group, None), 8: ("1", None), 16: ("m", CLUSTER)}
    for kind, (name, resource) in needed.items():
        row = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.bytes"])
        request = DescribeConfigsRequest(resources=[row])
        # The embedded broker has no configs of groups and loggers: only the refusals are compared.
        needs = [] if resource is None else [("DESCRIBE_CONFIGS", resource)]
        yield Row(request, needs, f"kind {kind}" if needs else f"kind {kind} denied only")


def _transactions(on: Resources) -> Iterator[Row]:
    txn, group = on.txn, on.group
    write, write_topic = ("WRITE", on.of_txn), ("WRITE", on.of_topic)
    yield Row(FindCoordinatorRequest(key=txn, coordinator_keys=[txn], key_type=1), [("DESCRIBE", on.of_txn)], "txn", 1)
    yield Row(InitProducerIdRequest(transactional_id=txn, transaction_timeout_ms=10_000), [write], "txn")
    added = [AddPartitionsToTxnTopic(name=on.topic, partitions=[0])]
    by_broker = on.world.version(AddPartitionsToTxnRequest) > 3
    yield Row(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=txn,
            v3_and_below_topics=added,
            transactions=[AddPartitionsToTxnTransaction(transactional_id=txn, topics=added)],
        ),
        [("CLUSTER_ACTION", CLUSTER)] if by_broker else [write, write_topic],
    )
    yield Row(AddOffsetsToTxnRequest(transactional_id=txn, group_id=group), [write, ("READ", on.of_group)])
    yield Row(EndTxnRequest(transactional_id=txn), [write])
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0)]
    topics = [TxnOffsetCommitRequestTopic(name=on.topic, partitions=partitions)]
    yield Row(
        TxnOffsetCommitRequest(transactional_id=txn, group_id=group, producer_id=0, producer_epoch=0, topics=topics),
        [write, ("READ", on.of_group), ("READ", on.of_topic)],
    )


def _cluster(on: Resources, acl: AclCreation) -> Iterator[Row]:
    describe, alter = [("DESCRIBE", CLUSTER)], [("ALTER", CLUSTER)]
    user = on.world.prefix
    yield Row(DescribeUserScramCredentialsRequest(users=[UserName(name=user)]), describe)
    deletions = [ScramCredentialDeletion(name=user, mechanism=1)]
    yield Row(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]), alter)
    own = {**EVERYTHING, "principal_filter": f"User:{user}"}
    yield Row(DescribeAclsRequest(**own), describe)
    yield Row(CreateAclsRequest(creations=[acl]), alter)
    yield Row(DeleteAclsRequest(filters=[DeleteAclsFilter(**own)]), alter)


def _changes(on: Resources) -> Iterator[Row]:
    name = on.world.name("new")
    new = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    yield Row(CreateTopicsRequest(topics=[new], timeout_ms=5000), [("CREATE", {"topic": name})])
    grown = [CreatePartitionsTopic(name=on.topic, count=2, assignments=None)]
    yield Row(CreatePartitionsRequest(topics=grown, timeout_ms=5000), [("ALTER", on.of_topic)])
    offsets = OffsetDeleteRequestTopic(name=on.topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    needed = [("READ", on.of_topic), ("DELETE", on.of_group)]
    yield Row(OffsetDeleteRequest(group_id=on.group, topics=[offsets]), needed)
    yield Row(DeleteGroupsRequest(groups_names=[on.group]), [("DELETE", on.of_group)])
    states = [DeleteTopicState(name=on.topic)]
    yield Row(
        DeleteTopicsRequest(topic_names=[on.topic], topics=states, timeout_ms=5000),
        [("DESCRIBE", on.of_topic), ("DELETE", on.of_topic)],
    )
