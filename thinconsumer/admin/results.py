"""The arguments and results of the admin's calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import KafkaError
from ..types import PartitionInfo


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
    """One member of a classic group. The group's protocol type defines ``metadata`` and ``assignment``."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """One classic group. Before DescribeGroups 6 a group that does not exist is in state ``Dead``."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
