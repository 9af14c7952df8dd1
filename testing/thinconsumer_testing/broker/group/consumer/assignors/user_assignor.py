"""Assignors of the user that run in the coordinator, as classes in Kafka's ``group.consumer.assignors`` do (KIP-848).

Their interface has topic names and :class:`TopicPartition` where the coordinator has topic ids. The plan that an
assignor returns is checked before it is used: Kafka's coordinator trusts its assignors, but an assignor under test may
be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from ..errors import GroupRequestError
from ..member import Target, target_of
from ..topic_metadata import CountsByTopic

if TYPE_CHECKING:
    from ....image import ClusterImage
    from ..group import ConsumerGroup


class MemberSubscription(NamedTuple):
    """A member of a group, as an assignor of the user gets it."""

    topics: frozenset[str]  #: Its subscribed topics that exist, also those that match its regular expression.
    rack_id: str | None  #: The member's option ``client_rack``.
    instance_id: str | None
    partitions: frozenset[TopicPartition]  #: Those of its last target assignment; it should keep them if possible.


@runtime_checkable
class ConsumerGroupPartitionAssignor(Protocol):
    """An assignor for ``group.consumer.assignors`` of the embedded broker, after Kafka's interface of this name.

    It may keep state, and is called by one thread at a time. It must be deterministic if runs have to repeat.
    """

    @property
    def name(self) -> str:
        """The name that members give as ``group_remote_assignor``."""

    def assign(
        self, members: Mapping[str, MemberSubscription], topics: Mapping[str, Mapping[int, frozenset[str]]]
    ) -> Mapping[str, Iterable[tuple[str, int]]]:
        """Return the partitions of each member id; members that are left out get none.

        ``topics`` has every subscribed topic that exists: by partition number, the racks of the partition's replicas,
        without those of brokers that are down. A partition may be left out, and no member then reads it. On topics with
        ordered delivery, partitions that are marked for deletion are assigned by a call of their own (KIP-253).

        If this method raises an exception, or assigns a partition that does not exist, a partition twice, or a
        partition to an unknown or unsubscribed member, the request that needs the assignment, mostly a heartbeat, fails
        with UNKNOWN_SERVER_ERROR, and the group does not change. The next such request calls this method again.
        """


def assign_by_user(
    assignor: ConsumerGroupPartitionAssignor, group: ConsumerGroup, counts: CountsByTopic, image: ClusterImage
) -> dict[str, Target]:
    """Return the target assignment of each member.

    Raises:
        GroupRequestError: UNKNOWN_SERVER_ERROR: the assignor has raised an exception, or its plan is invalid.
    """
    try:
        plan = _called(assignor, group, {one: range(count) for one, count in counts.undeleted.items()}, image)
        if any(counts.marked.values()):
            rest = {one: range(first, first + counts.marked[one]) for one, first in counts.undeleted.items()}
            for member_id, more in _called(assignor, group, rest, image).items():
                plan.setdefault(member_id, []).extend(more)
    except Exception as error:
        why = str(error) if isinstance(error, InvalidPlan) else repr(error)
        text = f"Failed to compute a new target assignment for epoch {group.epoch} with {assignor.name}: {why}"
        raise GroupRequestError(Code.UNKNOWN_SERVER_ERROR, text) from error
    by_name = {name: topic.topic_id for name, topic in image.topics.items()}
    return {
        member_id: target_of(
            (by_name[topic], [tp.partition for tp in share if tp.topic == topic])
            for topic in sorted({tp.topic for tp in share})
        )
        for member_id, share in plan.items()
    }


def _called(
    assignor: ConsumerGroupPartitionAssignor, group: ConsumerGroup, numbers: Mapping[bytes, range], image: ClusterImage
) -> dict[str, list[TopicPartition]]:
    """Call the assignor for one list of partitions, and return its plan once it is checked."""
    topics = {
        image.names_by_id[topic_id]: {number: _racks(image, image.names_by_id[topic_id], number) for number in found}
        for topic_id, found in numbers.items()
    }
    members = {
        member_id: MemberSubscription(
            frozenset(topic for topic in group.subscriptions_of(member) if topic in topics),
            member.rack_id,
            member.instance_id,
            frozenset(
                TopicPartition(image.names_by_id[topic_id], number)
                for topic_id, found in group.target(member_id).items()
                if topic_id in numbers
                for number in found
                if number in numbers[topic_id]
            ),
        )
        for member_id, member in group.members.items()
    }
    plan = assignor.assign(members, topics)
    return checked({member_id: list(share) for member_id, share in plan.items()}, members, topics)


def _racks(image: ClusterImage, topic: str, number: int) -> frozenset[str]:
    found = (image.brokers.get(node_id) for node_id in image.topics[topic].partitions[number].replicas)
    return frozenset(broker.rack for broker in found if broker is not None and broker.rack)


class InvalidPlan(ValueError):
    """A plan that the coordinator must not carry out."""


def checked(
    plan: Mapping[str, Iterable[tuple[str, int]]],
    members: Mapping[str, MemberSubscription],
    topics: Mapping[str, Mapping[int, object]],
) -> dict[str, list[TopicPartition]]:
    """Return the plan. Raises: InvalidPlan, if a member is unknown, or a partition does not exist, is assigned twice,
    or is of a topic to which its member is not subscribed.
    """
    owners: dict[TopicPartition, str] = {}
    found: dict[str, list[TopicPartition]] = {}
    for member_id, share in plan.items():
        member = members.get(member_id)
        if member is None:
            raise InvalidPlan(f"it assigns partitions to {member_id!r}, which is not a member")
        # index() raises TypeError for 1.0, which equals 1, but fails when the response is encoded.
        found[member_id] = tps = [TopicPartition(topic, index(number)) for topic, number in share]
        for tp in tps:
            name = f"{tp.topic}-{tp.partition}"
            if tp.partition not in topics.get(tp.topic, ()):
                raise InvalidPlan(f"it assigns {name}, which does not exist or has no subscriber")
            if tp.topic not in member.topics:
                raise InvalidPlan(f"it assigns {name} to {member_id}, which is not subscribed to {tp.topic}")
            if tp in owners:
                raise InvalidPlan(f"it assigns {name} to {owners[tp]} and to {member_id}")
            owners[tp] = member_id
    return found
