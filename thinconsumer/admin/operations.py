"""Everything the admin can ask: how each request is built, and how its answer reads. One row each, no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import KafkaError
from ..failures import Scope
from ..types import OffsetAndMetadata, PartitionInfo, TopicPartition
from ..wire import Message
from ..wire.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic
from ..wire.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..wire.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ..wire.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ..wire.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ..wire.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ..wire.error_codes import Code, to_error
from ..wire.list_groups import ListGroupsRequest, ListGroupsResponse
from ..wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ..wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from .questions import Found, Operation, Routing
from .results import CreatedTopic, GroupDescription, GroupListing, GroupMember, NewTopic, TopicDescription

#: Stands for all topics, where there is one answer about them.
ALL = "*"


# -- topics


def create_topics(*, validate_only: bool) -> Operation[str, CreatedTopic]:
    """Create topics: a :class:`NewTopic` by name."""

    def build(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
        topics = [_creatable(name, new) for name, new in items.items()]
        return CreateTopicsRequest(topics=topics, timeout_ms=left_ms, validate_only=validate_only)

    return Operation(
        CreateTopicsRequest,
        ("CreateTopics", Scope.TOPIC),
        Routing.CONTROLLER,
        build,
        _read_created,
        min_version=1 if validate_only else 0,
    )


def _creatable(name: str, new: NewTopic) -> CreatableTopic:
    assigned = (new.assignments or {}).items()
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assigned else new.partitions,
        replication_factor=-1 if assigned else new.replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=list(ids)) for p, ids in assigned],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in new.configs.items()],
    )


def _read_created(response: CreateTopicsResponse, version: int) -> Iterator[Found]:
    for one in response.topics:
        created = CreatedTopic(one.topic_id, one.num_partitions, one.replication_factor)
        yield Found(one.name, created, one.error_code, one.error_message)


def _build_delete_topics(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(items), timeout_ms=left_ms)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in items], timeout_ms=left_ms)


def _read_deleted(response: DeleteTopicsResponse, version: int) -> Iterator[Found]:
    for one in response.responses:
        yield Found(one.name or "", None, one.error_code, one.error_message)


DELETE_TOPICS: Operation[str, None] = Operation(
    DeleteTopicsRequest, ("DeleteTopics", Scope.TOPIC), Routing.CONTROLLER, _build_delete_topics, _read_deleted
)


def create_partitions(*, validate_only: bool) -> Operation[str, None]:
    """Add partitions: the new total by topic."""

    def build(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
        topics = [CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in items.items()]
        return CreatePartitionsRequest(topics=topics, timeout_ms=left_ms, validate_only=validate_only)

    return Operation(
        CreatePartitionsRequest, ("CreatePartitions", Scope.TOPIC), Routing.CONTROLLER, build, _read_more_partitions
    )


def _read_more_partitions(response: CreatePartitionsResponse, version: int) -> Iterator[Found]:
    for one in response.results:
        yield Found(one.name, None, one.error_code, one.error_message)


def _build_delete_records(items: Mapping[TopicPartition, Any], version: int, left_ms: int) -> Message:
    topics: dict[str, DeleteRecordsTopic] = {}
    for tp, offset in items.items():
        part = DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        topics.setdefault(tp.topic, DeleteRecordsTopic(name=tp.topic)).partitions.append(part)
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=left_ms)


def _read_low_watermarks(response: DeleteRecordsResponse, version: int) -> Iterator[Found]:
    for topic in response.topics:
        for one in topic.partitions:
            yield Found(TopicPartition(topic.name, one.partition_index), one.low_watermark, one.error_code)


DELETE_RECORDS: Operation[TopicPartition, int] = Operation(
    DeleteRecordsRequest,
    ("DeleteRecords", Scope.PARTITION),
    Routing.LEADER,
    _build_delete_records,
    _read_low_watermarks,
)


def _build_metadata(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    wanted = None if ALL in items else [MetadataRequestTopic(name=name) for name in items]
    # Versions below 4 have no such field: the broker's own setting decides, and True is what they mean.
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4)


def _read_described(response: MetadataResponse, version: int) -> Iterator[Found]:
    for one in response.topics:
        # A partition without a leader is part of the description, and no reason to have none.
        code = Code.NONE if one.error_code == Code.LEADER_NOT_AVAILABLE and one.partitions else one.error_code
        yield Found(one.name or "", _described(one), code)


def _described(raw: MetadataResponseTopic) -> TopicDescription:
    name = raw.name or ""
    partitions = {
        p.partition_index: PartitionInfo(
            name,
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
        )
        for p in raw.partitions
    }
    return TopicDescription(name, raw.topic_id, raw.is_internal, partitions)


def _read_all_described(response: MetadataResponse, version: int) -> Iterator[Found]:
    topics = {raw.name: _described(raw) for raw in response.topics if raw.name and raw.partitions}
    yield Found(ALL, topics)


DESCRIBE_TOPICS: Operation[str, TopicDescription] = Operation(
    MetadataRequest, ("DescribeTopics", Scope.TOPIC), Routing.ANY, _build_metadata, _read_described, min_version=1
)
LIST_TOPICS: Operation[str, dict[str, TopicDescription]] = Operation(
    MetadataRequest, ("DescribeTopics", Scope.TOPIC), Routing.ANY, _build_metadata, _read_all_described, min_version=1
)


# -- groups


def list_groups(states: Iterable[str], types: Iterable[str]) -> Operation[int, list[GroupListing]]:
    """List the groups of each broker; empty filters let everything pass."""
    states_filter, types_filter = list(states), list(types)

    def build(items: Mapping[int, Any], version: int, left_ms: int) -> Message:
        return ListGroupsRequest(states_filter=states_filter, types_filter=types_filter)

    # A broker that does not know a filter must not answer as if there were none.
    lowest = 5 if types_filter else 4 if states_filter else 0
    return Operation(
        ListGroupsRequest, ("ListGroups", Scope.CONSUMER), Routing.NODE, build, _read_listed, min_version=lowest
    )


def _read_listed(response: ListGroupsResponse, version: int) -> Iterator[Found]:
    groups = [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]
    yield Found(None, groups, response.error_code)


def _build_describe_groups(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    return DescribeGroupsRequest(groups=list(items))


def _read_described_groups(response: DescribeGroupsResponse, version: int) -> Iterator[Found]:
    for one in response.groups:
        yield Found(one.group_id, _described_group(one), one.error_code, one.error_message)


def _described_group(raw: DescribedGroup) -> GroupDescription:
    members = tuple(
        GroupMember(
            m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment
        )
        for m in raw.members
    )
    return GroupDescription(raw.group_id, raw.group_state, raw.protocol_type, raw.protocol_data, members)


DESCRIBE_GROUPS: Operation[str, GroupDescription] = Operation(
    DescribeGroupsRequest,
    ("DescribeGroups", Scope.GROUP),
    Routing.COORDINATOR,
    _build_describe_groups,
    _read_described_groups,
)


def _build_delete_groups(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    return DeleteGroupsRequest(groups_names=list(items))


def _read_deleted_groups(response: DeleteGroupsResponse, version: int) -> Iterator[Found]:
    for one in response.results:
        yield Found(one.group_id, None, one.error_code, one.error_message)


DELETE_GROUPS: Operation[str, None] = Operation(
    DeleteGroupsRequest, ("DeleteGroups", Scope.GROUP), Routing.COORDINATOR, _build_delete_groups, _read_deleted_groups
)


def _build_offset_fetch(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    (group,) = items
    if version < 8:
        return OffsetFetchRequest(group_id=group, topics=None)
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])


def _read_offsets(response: OffsetFetchResponse, version: int) -> Iterator[Found]:
    if version < 8:
        yield Found(None, _offsets(response.topics), response.error_code)
    for group in response.groups:
        yield Found(group.group_id, _offsets(group.topics), group.error_code)


def _offsets(topics: Iterable[Any]) -> dict[TopicPartition, OffsetAndMetadata | KafkaError]:
    """Return committed offsets; versions before 8 and after have structs of their own with the same fields."""
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError] = {}
    for topic in topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            if p.error_code:
                found[tp] = to_error(p.error_code, api="OffsetFetch", partition=tp)
            elif p.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    return found


#: From version 2 on a group can be asked for everything; version 10 would name topics by ids, which we may not know.
LIST_GROUP_OFFSETS: Operation[str, dict[TopicPartition, OffsetAndMetadata | KafkaError]] = Operation(
    OffsetFetchRequest,
    ("OffsetFetch", Scope.GROUP),
    Routing.COORDINATOR,
    _build_offset_fetch,
    _read_offsets,
    one_by_one=True,
    min_version=2,
    max_version=9,
)
