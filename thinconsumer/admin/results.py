"""What the admin's calls take and give, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..errors import KafkaError
from ..types import PartitionInfo

__all__ = [
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupsListed",
    "NewTopic",
    "TopicDescription",
]


class NewTopic(NamedTuple):
    """A topic to create. -1 leaves a number to the broker (from Kafka 2.4 on).

    ``assignments`` maps each partition to the brokers that shall hold it, the preferred leader first, and takes the
    place of both numbers. ``configs`` are the topic's settings by Kafka's names.
    """

    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created; what the broker did not say is -1, or zeros."""

    topic_id: bytes
    partitions: int
    replication_factor: int


class TopicDescription(NamedTuple):
    """One topic as a broker shows it."""

    name: str
    topic_id: bytes  #: Sixteen zero bytes where brokers have no ids.
    internal: bool
    partitions: dict[int, PartitionInfo]


class GroupListing(NamedTuple):
    """One group as its coordinator lists it; ``state`` and ``type`` are empty where brokers do not tell."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupsListed(NamedTuple):
    """Groups by id, and why some brokers could not say which ones they coordinate."""

    groups: dict[str, GroupListing]
    errors: dict[int, KafkaError]


class GroupMember(NamedTuple):
    """One member of a classic group. What ``metadata`` and ``assignment`` hold is the protocol's affair."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """One classic group; before DescribeGroups 6 one that does not exist is in state ``Dead``."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
