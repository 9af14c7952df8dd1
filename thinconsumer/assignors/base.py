"""The public interface of assignors and its data types, after Java's ``ConsumerPartitionAssignor``."""

from __future__ import annotations

import enum
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..support.lazy_dataclass import dataclass, field
from ..types import ClusterView, TopicPartition

__all__ = ["Assignment", "GroupMetadata", "PartitionAssignor", "RebalanceProtocol", "Subscription"]


class GroupMetadata(NamedTuple):
    """A member's identity, for transactional producers (KIP-447) and assignors. The fields are those of kafka-python.

    While the consumer is not a member of a generation, ``generation_id`` is -1. kafka-python's producer takes
    ``kafka.ConsumerGroupMetadata(*metadata)``, confluent-kafka's takes ``metadata.for_confluent()``.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    def for_confluent(self) -> bytes:
        """Return the argument for confluent-kafka's ``Producer.send_offsets_to_transaction``.

        This is librdkafka's serialization of consumer group metadata, version 2. librdkafka rejects other versions.
        """
        instance = b"\1" if self.group_instance_id is None else b"\0" + self.group_instance_id.encode() + b"\0"
        number = self.generation_id.to_bytes(4, sys.byteorder, signed=True)
        names = self.group_id.encode() + b"\0" + self.member_id.encode() + b"\0"
        return b"CGMDv2:" + number + names + instance


class RebalanceProtocol(enum.Enum):
    """When members revoke partitions in a rebalance (KIP-429)."""

    EAGER = 0  #: Members revoke all partitions before they join.
    COOPERATIVE = 1  #: After the assignment, members revoke only partitions that it does not contain.


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's topics, and the partitions that it claims to own as of generation ``generation_id`` (-1: unknown)."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions assigned to one member, and user data for its assignor."""

    partitions: tuple[TopicPartition, ...] = field(default=())
    user_data: bytes | None = None


class PartitionAssignor(ABC):
    """The base class of assignors. Put an instance or a subclass into ``partition_assignment_strategy``.

    Consumers must not share an instance. Methods run inside ``poll`` and must not call the consumer.
    """

    #: Unique in the group: the coordinator chooses the assignor by name.
    name: str
    #: A consumer rebalances cooperatively only if all of its assignors support COOPERATIVE.
    supported_protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return bytes for the leader's assignor, sent with each JoinGroup; ``topics`` are the subscribed topics."""
        return None

    @abstractmethod
    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """Return the assignment of every member id in ``subscriptions``.

        A subscribed topic that ``cluster`` does not contain has no partitions to assign.

        Only the group's leader calls this method. If it raises an exception, the leader's ``poll`` raises that
        exception, and the group rebalances again.
        """

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:  # noqa: B027 - most keep nothing
        """Receive this member's assignment, before the listener's ``on_partitions_assigned`` is called."""


def sort_key(name: str) -> bytes:
    """Return a key that sorts names by UTF-16 code unit, as Java does, so that all clients in a group sort alike."""
    return name.encode("utf-16-be", "surrogatepass")


#: Import the codec now: Ctrl-C during an import in ``poll`` could make later imports wait for ever.
sort_key("")
