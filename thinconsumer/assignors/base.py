"""What an assignor is, and what it is given: the public seam for plug-ins. After Java's ``ConsumerPartitionAssignor``.

An assignor is a pure function from the cluster and the members' subscriptions to a plan, and runs in one member, the
leader. What it may keep, it is told about: ``on_assignment``.
"""

from __future__ import annotations

import enum
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..types import ClusterView, TopicPartition

__all__ = ["Assignment", "GroupMetadata", "PartitionAssignor", "RebalanceProtocol", "Subscription"]


class GroupMetadata(NamedTuple):
    """Who this member is, for transactional producers (KIP-447) and assignors. kafka-python's names, in its order.

    ``generation_id`` is -1 and ``member_id`` empty while it is in no generation. kafka-python's producer takes
    ``kafka.ConsumerGroupMetadata(*metadata)``, confluent-kafka's takes ``metadata.for_confluent()``.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    def for_confluent(self) -> bytes:
        """Return it as confluent-kafka's ``Producer.send_offsets_to_transaction`` wants it.

        That takes what librdkafka has written of a consumer of its own, in a format that says its version and is
        refused if it is another one.
        """
        instance = b"\1" if self.group_instance_id is None else b"\0" + self.group_instance_id.encode() + b"\0"
        number = self.generation_id.to_bytes(4, sys.byteorder, signed=True)
        names = self.group_id.encode() + b"\0" + self.member_id.encode() + b"\0"
        return b"CGMDv2:" + number + names + instance


class RebalanceProtocol(enum.Enum):
    """When members give partitions up (KIP-429)."""

    EAGER = 0  #: All of them, before they join.
    COOPERATIVE = 1  #: Only those that go elsewhere, after the plan is known.


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member wants and has. ``owned_partitions`` and ``generation_id`` (-1: unknown) are what it claims."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one member shall read, and bytes for its own assignor."""

    partitions: tuple[TopicPartition, ...] = field(default=())
    user_data: bytes | None = None


class PartitionAssignor(ABC):
    """Subclass it, and put an instance (or the class) into ``partition_assignment_strategy``.

    One instance serves one consumer. Its methods run inside ``poll`` and must not call the consumer.
    """

    #: Unique in the group: members choose assignors by name.
    name: str
    #: What it can do. A list of assignors is COOPERATIVE only if all in it can be.
    supported_protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return bytes for the leader's eyes, sent with each join; ``topics`` are those subscribed to."""
        return None

    @abstractmethod
    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """Return a plan: a share for every member id in ``subscriptions``. A topic that is not known has no partitions.

        What it raises comes out of the leader's ``poll``, and the group tries again.
        """

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:  # noqa: B027 - most keep nothing
        """Take this member's own share, before its listener hears of it."""


def sort_key(name: str) -> bytes:
    """Order names as Java does, by UTF-16 code unit: members of one group must agree, whatever they are written in."""
    return name.encode("utf-16-be", "surrogatepass")
