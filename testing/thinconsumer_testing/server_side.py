"""Run a client-side assignor in the embedded broker, as an assignor of the consumer group protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Protocol

from thinconsumer.assignors import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from thinconsumer.errors import IllegalArgumentError
from thinconsumer.types import ClusterView, Node, PartitionInfo, TopicPartition

#: The generation of every member's last target assignment: one call has computed all of them.
GENERATION = 0


class _Member(Protocol):
    """A member of the group, as the broker describes it to an assignor."""

    @property
    def topics(self) -> frozenset[str]: ...
    @property
    def rack_id(self) -> str | None: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def partitions(self) -> frozenset[TopicPartition]: ...


class ServerSideAssignor:
    """Adapts a :class:`PartitionAssignor` for ``group.consumer.assignors`` of the embedded broker.

    Members send no user data in the consumer group protocol. So this class gives a copy of the assignor the member's
    last target assignment by ``on_assignment``, and takes the member's user data from this copy. The member's
    ``owned_partitions`` are those of its last target assignment, too. The ``ClusterView`` has one node for each rack.

    Args:
        assignor: An assignor that assigns all partitions at once. The coordinator itself waits until the former owner
            of a partition has revoked it.

    Raises:
        IllegalArgumentError: ``assignor`` is no PartitionAssignor, or is cooperative, so that it may leave out
            partitions that have an owner.
    """

    def __init__(self, assignor: PartitionAssignor) -> None:
        if not isinstance(assignor, PartitionAssignor):
            raise IllegalArgumentError(f"{assignor!r} is no PartitionAssignor")
        if RebalanceProtocol.COOPERATIVE in assignor.supported_protocols:
            raise IllegalArgumentError(
                f"{assignor.name} is cooperative: it withholds partitions for a second rebalance, which the consumer "
                "group protocol does not have"
            )
        self._assignor = assignor

    @property
    def name(self) -> str:
        """The name of the assignor."""
        return self._assignor.name

    def assign(
        self, members: Mapping[str, _Member], topics: Mapping[str, Mapping[int, frozenset[str]]]
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member id.

        Raises:
            ValueError: The assignor assigns a partition that does not exist.
        """
        # Assignors may expect numbers from 0 on. A call for partitions that are marked for deletion has only higher
        # ones, so the assignor gets a partition's place in the sorted list instead of its number.
        numbers = {topic: sorted(partitions) for topic, partitions in topics.items()}
        places = {topic: {number: place for place, number in enumerate(found)} for topic, found in numbers.items()}
        subscriptions = {}
        for member_id, member in members.items():
            had = tuple(sorted(TopicPartition(tp.topic, places[tp.topic][tp.partition]) for tp in member.partitions))
            topics_of = tuple(sorted(member.topics))
            data = self._user_data(member_id, topics_of, had)
            subscriptions[member_id] = Subscription(
                topics_of, data, had, GENERATION, member.rack_id, member.instance_id
            )
        plan = self._assignor.assign(_view(numbers, topics), subscriptions)
        return {
            member_id: [_original(topic, place, numbers) for topic, place in share.partitions]
            for member_id, share in plan.items()
        }

    def _user_data(self, member_id: str, topics: tuple[str, ...], had: tuple[TopicPartition, ...]) -> bytes | None:
        """Return the user data that the member's assignor would send after its last assignment."""
        assignor = copy(self._assignor)
        if had:
            assignor.on_assignment(Assignment(had), GroupMetadata("", GENERATION, member_id))
        return assignor.subscription_user_data(topics)


def _original(topic: str, place: int, numbers: Mapping[str, list[int]]) -> TopicPartition:
    """Return the partition at a place in the list that the assignor got."""
    if not 0 <= place < len(numbers.get(topic, ())):
        raise ValueError(f"it assigns {topic}-{place}, which does not exist or has no subscriber")
    return TopicPartition(topic, numbers[topic][place])


def _view(numbers: Mapping[str, list[int]], topics: Mapping[str, Mapping[int, frozenset[str]]]) -> ClusterView:
    racks = sorted({rack for partitions in topics.values() for found in partitions.values() for rack in found})
    ids = {rack: number for number, rack in enumerate(racks, 1)}
    nodes = {number: Node(number, "", -1, rack) for rack, number in ids.items()}
    partitions = {}
    for topic, found in numbers.items():
        rows = []
        for place, number in enumerate(found):
            replicas = tuple(sorted(ids[rack] for rack in topics[topic][number]))
            rows.append(PartitionInfo(topic, place, -1, -1, replicas, replicas, ()))
        partitions[topic] = tuple(rows)
    return ClusterView(partitions, nodes)
