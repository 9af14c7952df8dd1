"""The arguments and results of the admin's operations, and how requests are routed and built and responses read."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import KafkaError, KafkaProtocolError
from ..failures import Scope
from ..linear_hashing import PartitionCounts
from ..network.topic_metadata import partition_info
from ..types import OffsetAndMetadata, PartitionInfo, TopicPartition
from ..wire import Message, consumer_protocol
from ..wire.error_codes import Code, to_error
from ..wire.groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribedConsumerMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ..wire.groups import DescribedGroupMember as ClassicMember
from ..wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ..wire.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ..wire.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ..wire.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicState,
)

#: The types of groups, as brokers name them.
CLASSIC, CONSUMER = "classic", "consumer"


class NewTopic(NamedTuple):
    """A topic to create.

    If ``partitions`` or ``replication_factor`` is -1, the broker's default applies (Kafka 2.4 and later). ``configs``
    are topic configs by Kafka's names.
    """

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created. Brokers that are too old return no topic id (16 zero bytes), or no numbers (-1)."""

    topic_id: bytes
    partitions: int
    replication_factor: int


class TopicDescription(NamedTuple):
    """One topic as a broker describes it."""

    name: str
    topic_id: bytes  #: Sixteen zero bytes from brokers without topic ids.
    internal: bool
    partitions: dict[int, PartitionInfo]
    counts: PartitionCounts | None = None  #: The partition counts of a counted topic.


class GroupListing(NamedTuple):
    """One group as its coordinator lists it; ``state`` and ``type`` are empty if the broker is too old for them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupListings(NamedTuple):
    """Groups by id, and the errors of brokers that did not list theirs, by node id."""

    groups: dict[str, GroupListing]
    errors: dict[int, KafkaError]


class MemberDescription(NamedTuple):
    """One member of a group.

    ``type`` is the protocol that the member uses, :data:`CLASSIC` or :data:`CONSUMER`, or empty if the broker does not
    return it (ConsumerGroupDescribe 0). A consumer group that is being migrated has members of both protocols.

    Subscription and assignment are None if the broker does not return them, or if a member of a classic group wrote
    them in another format than that of consumers.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    type: str
    epoch: int | None = None  #: None in classic groups.
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None  #: The regular expression that the broker evaluates.
    assignment: tuple[TopicPartition, ...] | None = None  #: The partitions that the member owns.
    target: tuple[TopicPartition, ...] | None = None  #: The target assignment (KIP-848). None in classic groups.


class GroupDescription(NamedTuple):
    """One group of either type.

    A classic group has no epochs. Before DescribeGroups 6, a group that does not exist is described as a classic group
    in state ``Dead``.
    """

    group_id: str
    type: str  #: :data:`CLASSIC` or :data:`CONSUMER`.
    state: str
    protocol_type: str  #: ``consumer`` for groups of consumers of both types, or the name of another embedded protocol.
    assignor: str  #: Empty while a classic group has none.
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None  #: The group epoch for which the target assignment was computed.


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: The only key of an operation on all topics, such as LIST_TOPICS, in place of topic names.
ALL = "*"
#: The protocol of a member of a consumer group, by the number in ConsumerGroupDescribe.
MEMBER_TYPES = {0: CLASSIC, 1: CONSUMER}
#: The protocol type of groups of consumers, of both group types.
OF_CONSUMERS = "consumer"


class Routing(enum.Enum):
    """The broker that an operation's request is sent to."""

    ANY = "any broker"
    CONTROLLER = "the controller"
    COORDINATOR = "the coordinator of the group that is the key"
    NODE = "the broker whose id is the key"


class KeyResult(NamedTuple):
    """The part of a response about one key."""

    key: Any  #: The topic, group or node id; None if the response does not name it, as the request had only one key.
    value: Any = None
    code: int = Code.NONE
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[K, V]):
    """One kind of request, on keys of type ``K`` with results of type ``V``."""

    api: type[Message]
    policy: tuple[str, Scope]  #: API and scope under which :mod:`thinconsumer.failures.policy` judges its error codes.
    routing: Routing
    #: Builds the request from the arguments by key, the API version and the remaining time in ms.
    build: Callable[[Mapping[K, Any], int, int], Message]
    read: Callable[[Any, int], Iterable[KeyResult]]  #: Reads the results from a response and its version.
    one_by_one: bool = False  #: Whether each key is sent in its own request, as older API versions allow only one.
    min_version: int = 0
    max_version: int = 32767
    #: The operation for keys with an error of action ``USE_CLASSIC_API``; it has the same keys, routing and results.
    fallback: Operation[K, V] | None = None

    @property
    def name(self) -> str:
        return self.api.__name__.removesuffix("Request")


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


#: The arguments are the new partition counts, by topic name.
CREATE_PARTITIONS: Operation[str, None] = Operation(
    CreatePartitionsRequest,
    ("CreatePartitions", Scope.TOPIC),
    Routing.CONTROLLER,
    lambda items, version, left_ms: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in items.items()],
        timeout_ms=left_ms,
    ),
    _errors_reader("results"),
)


def _build_metadata(items: Mapping[str, Any], version: int, left_ms: int) -> Message:
    wanted = None if ALL in items else [MetadataRequestTopic(name=name) for name in items]
    # Versions below 4 lack this field and mean True: the broker's auto.create.topics.enable decides.
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4)


def _read_described(response: MetadataResponse, version: int) -> Iterator[KeyResult]:
    for one in response.topics:
        # LEADER_NOT_AVAILABLE may come with a description: then only some partitions of the topic have no leader.
        code = Code.NONE if one.error_code == Code.LEADER_NOT_AVAILABLE and one.partitions else one.error_code
        yield KeyResult(one.name or "", _described(one), code)


def _described(raw: MetadataResponseTopic) -> TopicDescription:
    name = raw.name or ""
    # With an older version, partition_info() would drop the leader epochs: they may be stale, but are only shown here.
    partitions = {p.partition_index: partition_info(name, p, 9) for p in raw.partitions}
    counts = PartitionCounts.checked(raw.initial_partition_count, raw.undeleted_partition_count)
    return TopicDescription(name, raw.topic_id, raw.is_internal, partitions, counts)


def _read_all_described(response: MetadataResponse, version: int) -> Iterator[KeyResult]:
    topics = {raw.name: _described(raw) for raw in response.topics if raw.name and raw.partitions}
    yield KeyResult(ALL, topics)


DESCRIBE_TOPICS: Operation[str, TopicDescription] = Operation(
    MetadataRequest, ("DescribeTopics", Scope.TOPIC), Routing.ANY, _build_metadata, _read_described, min_version=1
)
LIST_TOPICS: Operation[str, dict[str, TopicDescription]] = Operation(
    MetadataRequest, ("DescribeTopics", Scope.TOPIC), Routing.ANY, _build_metadata, _read_all_described, min_version=1
)


def list_groups(types: Collection[str] = ()) -> Operation[int, list[GroupListing]]:
    """Return the operation that lists the groups of these types; of all types if ``types`` is empty."""
    wanted = {name.lower() for name in types}

    def build(items: Mapping[int, Any], version: int, left_ms: int) -> Message:
        return ListGroupsRequest(types_filter=sorted(wanted) if version >= 5 else [])

    def read(response: ListGroupsResponse, version: int) -> Iterator[KeyResult]:
        groups = [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]
        # Before version 5, brokers return no types and do not filter by them: all groups count as classic.
        if version < 5 and wanted and CLASSIC not in wanted:
            groups = []
        yield KeyResult(None, groups, response.error_code)

    return Operation(ListGroupsRequest, ("ListGroups", Scope.CONSUMER), Routing.NODE, build, read)


def _read_classic_groups(response: DescribeGroupsResponse, version: int) -> Iterator[KeyResult]:
    for raw in response.groups:
        members = tuple(_classic_member(member, raw.protocol_type) for member in raw.members)
        found = GroupDescription(raw.group_id, CLASSIC, raw.group_state, raw.protocol_type, raw.protocol_data, members)
        yield KeyResult(raw.group_id, found, raw.error_code, raw.error_message)


def _classic_member(raw: ClassicMember, protocol_type: str) -> MemberDescription:
    subscription: consumer_protocol.ConsumerProtocolSubscription | None = None
    assignment: tuple[TopicPartition, ...] | None = None
    if protocol_type == OF_CONSUMERS:
        # Members write these bytes, and may use other clients. While a group rebalances, the bytes are empty.
        with suppress(KafkaProtocolError):
            subscription = consumer_protocol.decode_subscription(raw.member_metadata)
        with suppress(KafkaProtocolError):
            assigned = consumer_protocol.decode_assignment(raw.member_assignment).assigned_partitions
            assignment = _partitions((one.topic, one.partitions) for one in assigned)
    ids = raw.member_id, raw.group_instance_id, raw.client_id, raw.client_host
    topics = tuple(sorted(subscription.topics)) if subscription else None
    return MemberDescription(*ids, CLASSIC, subscribed_topics=topics, assignment=assignment)


def _partitions(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))


DESCRIBE_CLASSIC_GROUPS: Operation[str, GroupDescription] = Operation(
    DescribeGroupsRequest,
    ("DescribeGroups", Scope.GROUP),
    Routing.COORDINATOR,
    lambda items, version, left_ms: DescribeGroupsRequest(groups=list(items)),
    _read_classic_groups,
)


def _read_consumer_groups(response: ConsumerGroupDescribeResponse, version: int) -> Iterator[KeyResult]:
    for raw in response.groups:
        members = tuple(map(_consumer_member, raw.members))
        about = raw.group_id, CONSUMER, raw.group_state, OF_CONSUMERS, raw.assignor_name
        found = GroupDescription(*about, members, raw.group_epoch, raw.assignment_epoch)
        yield KeyResult(raw.group_id, found, raw.error_code, raw.error_message)


def _consumer_member(raw: DescribedConsumerMember) -> MemberDescription:
    return MemberDescription(
        raw.member_id,
        raw.instance_id,
        raw.client_id,
        raw.client_host,
        MEMBER_TYPES.get(raw.member_type, ""),
        epoch=raw.member_epoch,
        subscribed_topics=tuple(sorted(raw.subscribed_topic_names)),
        subscribed_regex=raw.subscribed_topic_regex or None,  # Kafka 4.3 returns an empty one for none
        assignment=_partitions((one.topic_name, one.partitions) for one in raw.assignment.topic_partitions),
        target=_partitions((one.topic_name, one.partitions) for one in raw.target_assignment.topic_partitions),
    )


DESCRIBE_GROUPS: Operation[str, GroupDescription] = Operation(
    ConsumerGroupDescribeRequest,
    ("ConsumerGroupDescribe", Scope.GROUP),
    Routing.COORDINATOR,
    lambda items, version, left_ms: ConsumerGroupDescribeRequest(group_ids=list(items)),
    _read_consumer_groups,
    fallback=DESCRIBE_CLASSIC_GROUPS,
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
    """Return committed offsets by partition. The type of ``topics`` depends on the version, but not its fields."""
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError] = {}
    for topic in topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            if p.error_code:
                found[tp] = to_error(p.error_code, api="OffsetFetch", partition=tp)
            elif p.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    return found


#: OffsetFetch 1 cannot return all offsets of a group; OffsetFetch 10 returns topic ids, and not names.
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


def _build_offset_delete(items: Mapping[str, Iterable[TopicPartition]], version: int, left_ms: int) -> Message:
    ((group, tps),) = items.items()
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, number in tps:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=number))
    found = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return OffsetDeleteRequest(group_id=group, topics=found)


def _read_deleted_offsets(response: OffsetDeleteResponse, version: int) -> Iterator[KeyResult]:
    errors: dict[TopicPartition, KafkaError | None] = {}
    for topic in response.topics:
        for one in topic.partitions:
            tp, code = TopicPartition(topic.name, one.partition_index), one.error_code
            errors[tp] = to_error(code, api="OffsetDelete", partition=tp) if code else None
    yield KeyResult(None, errors, response.error_code)


#: The arguments are partitions, by group.
DELETE_GROUP_OFFSETS: Operation[str, dict[TopicPartition, KafkaError | None]] = Operation(
    OffsetDeleteRequest,
    ("OffsetDelete", Scope.GROUP),
    Routing.COORDINATOR,
    _build_offset_delete,
    _read_deleted_offsets,
    one_by_one=True,
)
