"""The admin's operations as data: how each one's request is routed and built, and how its response is read."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import KafkaError
from ..failures import Scope
from ..types import OffsetAndMetadata, PartitionInfo, TopicPartition
from ..wire import Message
from ..wire.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ..wire.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from ..wire.delete_groups import DeleteGroupsRequest
from ..wire.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ..wire.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..wire.error_codes import Code, to_error
from ..wire.list_groups import ListGroupsRequest, ListGroupsResponse
from ..wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ..wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from .results import CreatedTopic, GroupDescription, GroupListing, MemberDescription, NewTopic, TopicDescription

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: The only key of an operation on all topics, such as LIST_TOPICS, in place of topic names.
ALL = "*"


class Routing(enum.Enum):
    """The broker that an operation's request is sent to."""

    ANY = "any broker"
    CONTROLLER = "the controller"
    COORDINATOR = "the coordinator of the group that is the key"
    NODE = "the broker whose id is the key"


class KeyResult(NamedTuple):
    """The part of a response about one key: a value, or an error code and message."""

    key: Any  #: The topic, group or node id; None if the response does not name it, as the request had only one key.
    value: Any = None
    code: int = Code.NONE
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[K, V]):
    """One kind of request on keys of type ``K`` with results of type ``V``."""

    api: type[Message]
    policy: tuple[str, Scope]  #: API and scope under which :mod:`thinconsumer.failures.policy` judges its error codes.
    routing: Routing
    #: Builds the request from the arguments by key, the API version and the remaining time in ms.
    build: Callable[[Mapping[K, Any], int, int], Message]
    read: Callable[[Any, int], Iterable[KeyResult]]  #: Reads a response of an API version.
    one_by_one: bool = False  #: Whether each key is sent in its own request, as older API versions allow only one.
    min_version: int = 0
    max_version: int = 32767


def _errors_reader(entries: str, key: str = "name") -> Callable[[Any, int], Iterator[KeyResult]]:
    """Return a reader for responses that only have errors: structs with the field ``key``, in the list ``entries``."""

    def read(response: Any, version: int) -> Iterator[KeyResult]:
        for one in getattr(response, entries):
            yield KeyResult(getattr(one, key) or "", None, one.error_code, one.error_message)

    return read


def _build_create_topics(items: Mapping[str, NewTopic], version: int, left_ms: int) -> Message:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=new.partitions,
            replication_factor=new.replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in new.configs.items()],
        )
        for name, new in items.items()
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=left_ms)


def _read_created(response: CreateTopicsResponse, version: int) -> Iterator[KeyResult]:
    for one in response.topics:
        created = CreatedTopic(one.topic_id, one.num_partitions, one.replication_factor)
        yield KeyResult(one.name, created, one.error_code, one.error_message)


#: The arguments are :class:`NewTopic`, by topic name.
CREATE_TOPICS: Operation[str, CreatedTopic] = Operation(
    CreateTopicsRequest, ("CreateTopics", Scope.TOPIC), Routing.CONTROLLER, _build_create_topics, _read_created
)


def _build_delete_topics(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(items), timeout_ms=left_ms)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in items], timeout_ms=left_ms)


DELETE_TOPICS: Operation[str, None] = Operation(
    DeleteTopicsRequest,
    ("DeleteTopics", Scope.TOPIC),
    Routing.CONTROLLER,
    _build_delete_topics,
    _errors_reader("responses"),
)


def _build_create_partitions(items: Mapping[str, int], version: int, left_ms: int) -> Message:
    topics = [CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in items.items()]
    return CreatePartitionsRequest(topics=topics, timeout_ms=left_ms)


#: The arguments are the new partition counts, by topic name.
CREATE_PARTITIONS: Operation[str, None] = Operation(
    CreatePartitionsRequest,
    ("CreatePartitions", Scope.TOPIC),
    Routing.CONTROLLER,
    _build_create_partitions,
    _errors_reader("results"),
)


def _build_metadata(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    wanted = None if ALL in items else [MetadataRequestTopic(name=name) for name in items]
    # Versions below 4 lack this field and mean True: the broker's auto.create.topics.enable decides.
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4)


def _read_described(response: MetadataResponse, version: int) -> Iterator[KeyResult]:
    for one in response.topics:
        # Brokers return LEADER_NOT_AVAILABLE for a topic in which one partition has no leader. The description is
        # complete nevertheless, so it is returned and not the error.
        code = Code.NONE if one.error_code == Code.LEADER_NOT_AVAILABLE and one.partitions else one.error_code
        yield KeyResult(one.name or "", _described(one), code)


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


def _read_all_described(response: MetadataResponse, version: int) -> Iterator[KeyResult]:
    topics = {raw.name: _described(raw) for raw in response.topics if raw.name and raw.partitions}
    yield KeyResult(ALL, topics)


DESCRIBE_TOPICS: Operation[str, TopicDescription] = Operation(
    MetadataRequest, ("DescribeTopics", Scope.TOPIC), Routing.ANY, _build_metadata, _read_described, min_version=1
)
LIST_TOPICS: Operation[str, dict[str, TopicDescription]] = Operation(
    MetadataRequest, ("DescribeTopics", Scope.TOPIC), Routing.ANY, _build_metadata, _read_all_described, min_version=1
)


def _read_listed(response: ListGroupsResponse, version: int) -> Iterator[KeyResult]:
    groups = [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]
    yield KeyResult(None, groups, response.error_code)


LIST_GROUPS: Operation[int, list[GroupListing]] = Operation(
    ListGroupsRequest,
    ("ListGroups", Scope.CONSUMER),
    Routing.NODE,
    lambda items, version, left_ms: ListGroupsRequest(),
    _read_listed,
)


def _read_described_groups(response: DescribeGroupsResponse, version: int) -> Iterator[KeyResult]:
    for raw in response.groups:
        members = tuple(
            MemberDescription(
                m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment
            )
            for m in raw.members
        )
        found = GroupDescription(raw.group_id, raw.group_state, raw.protocol_type, raw.protocol_data, members)
        yield KeyResult(raw.group_id, found, raw.error_code, raw.error_message)


DESCRIBE_GROUPS: Operation[str, GroupDescription] = Operation(
    DescribeGroupsRequest,
    ("DescribeGroups", Scope.GROUP),
    Routing.COORDINATOR,
    lambda items, version, left_ms: DescribeGroupsRequest(groups=list(items)),
    _read_described_groups,
)

DELETE_GROUPS: Operation[str, None] = Operation(
    DeleteGroupsRequest,
    ("DeleteGroups", Scope.GROUP),
    Routing.COORDINATOR,
    lambda items, version, left_ms: DeleteGroupsRequest(groups_names=list(items)),
    _errors_reader("results", "group_id"),
)


def _build_offset_fetch(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    (group,) = items
    if version < 8:
        return OffsetFetchRequest(group_id=group, topics=None)
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])


def _read_offsets(response: OffsetFetchResponse, version: int) -> Iterator[KeyResult]:
    if version < 8:
        yield KeyResult(None, _offsets(response.topics), response.error_code)
    for group in response.groups:
        yield KeyResult(group.group_id, _offsets(group.topics), group.error_code)


def _offsets(topics: Iterable[Any]) -> dict[TopicPartition, OffsetAndMetadata | KafkaError]:
    """Return committed offsets by partition. The type of ``topics`` depends on the version, its fields do not."""
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError] = {}
    for topic in topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            if p.error_code:
                found[tp] = to_error(p.error_code, api="OffsetFetch", partition=tp)
            elif p.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    return found


#: Limited to versions 2 to 9 of OffsetFetch: version 1 cannot return all offsets of a group, and responses of version
#: 10 have topic ids, which this client would have to map to names.
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
