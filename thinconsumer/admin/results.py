"""The arguments and results of the admin's calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import KafkaError
from ..linear_hashing import PartitionCounts
from ..types import PartitionInfo, TopicPartition

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
    """A topic that was created. Numbers that the broker did not return are -1; the topic id is then zero bytes."""

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

    ``type`` is the protocol that the member uses, :data:`CLASSIC` or :data:`CONSUMER`. In a consumer group that is
    migrated, members of both protocols meet; it is empty if the broker does not tell (ConsumerGroupDescribe 0).

    Subscription and assignment are None if the broker does not return them, or if a member of a classic group wrote
    them in another format than that of consumers.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    type: str
    rack_id: str | None = None
    epoch: int | None = None  #: None in classic groups.
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None  #: The regular expression that the broker evaluates.
    assignment: tuple[TopicPartition, ...] | None = None  #: The partitions that the member owns.
    target: tuple[TopicPartition, ...] | None = (
        None  #: The partitions that the coordinator has assigned to it. None in classic groups.
    )


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
