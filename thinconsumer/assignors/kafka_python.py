"""Adapter for assignors written for kafka-python: subclasses of its ``AbstractPartitionAssignor``.

They are recognised by the module name of their base class, so that kafka-python is not imported here. Their methods get
objects with the attributes of kafka-python 3.0 and 2.0, and may return objects of either version.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from ..errors import InvalidAssignmentError
from ..types import ClusterView, Node, TopicPartition
from ..wire.consumer_protocol import to_topics
from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription

_HOME = "kafka.coordinator.assignors"


def class_of(entry: object) -> type:
    """Return a class itself, or the class of an instance."""
    return entry if isinstance(entry, type) else type(entry)


def is_kafka_python_assignor(entry: object) -> bool:
    """Return whether ``entry`` is an assignor class or instance for kafka-python."""
    return any(base.__module__ == f"{_HOME}.abstract" for base in class_of(entry).__mro__)


def built_in_name(entry: object) -> str | None:
    """Return the name of an assignor that is part of kafka-python itself; None for others."""
    module = class_of(entry).__module__
    name = getattr(entry, "name", None)
    return name if module.startswith(f"{_HOME}.") and isinstance(name, str) else None


class _OfTopic(NamedTuple):
    """The partitions of one topic. kafka-python 3.0 reads the attributes of such an object, 2.0 unpacks a pair."""

    topic: str
    partitions: list[int]


class _Cluster:
    """Stands in for kafka-python's ``ClusterMetadata``, with the methods that assignors use."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Return the group's topics. The subscriptions decide on internal ones, so the argument has no effect."""
        return set(self._view.partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return partition numbers, or None for an unknown topic."""
        partitions = self._view.partitions.get(topic)
        return {partition.partition for partition in partitions} if partitions else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return numbers of partitions with a leader, or None for an unknown topic."""
        partitions = self._view.partitions.get(topic)
        return {partition.partition for partition in partitions if partition.leader >= 0} if partitions else None

    def leader_for_partition(self, partition: tuple[str, int]) -> int | None:
        """Return the leader's node id, -1 without a leader, or None for an unknown partition."""
        topic, number = partition
        return next((p.leader for p in self._view.partitions.get(topic, ()) if p.partition == number), None)

    def brokers(self) -> set[Node]:
        return set(self._view.nodes.values())

    def broker_metadata(self, broker_id: int) -> Node | None:
        return self._view.nodes.get(broker_id)


class KafkaPythonAssignor(PartitionAssignor):
    """Adapts an assignor with kafka-python's interface to :class:`PartitionAssignor`."""

    def __init__(self, entry: Any) -> None:
        self._inner = cast(Any, entry() if isinstance(entry, type) else entry)
        self.name = self._inner.name
        protocols = getattr(self._inner, "supported_protocols", None)
        if protocols is not None:
            self.supported_protocols = tuple(RebalanceProtocol(int(protocol)) for protocol in protocols())

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the user data in the assignor's ``metadata()``."""
        return _as_bytes(self._inner.metadata(set(topics)).user_data)

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Return the assignment that the adapted assignor computes."""
        members = [_member(member_id, subscription) for member_id, subscription in subscriptions.items()]
        plan = self._inner.assign(_Cluster(cluster), members)
        return {member: self._read(share) for member, share in plan.items()}

    def _read(self, share: Any) -> Assignment:
        topics = getattr(share, "assigned_partitions", None)
        if topics is None:
            topics = getattr(share, "assignment", None)
        if topics is None:
            raise InvalidAssignmentError(
                f"returned {type(share).__name__} instead of ConsumerProtocolAssignment", self.name
            )
        partitions = [
            TopicPartition(topic, number)
            for topic, numbers in ((of.topic, of.partitions) if hasattr(of, "topic") else of for of in topics)
            for number in numbers
        ]
        return Assignment(tuple(partitions), _as_bytes(getattr(share, "user_data", None)))

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Pass the assignment to the assignor, and the generation if its method takes one, as in kafka-python 3.0."""
        topics = _of_topics(assignment.partitions)
        share = SimpleNamespace(
            assigned_partitions=topics,
            assignment=topics,  # as kafka-python 2.0 names them
            partitions=lambda: list(assignment.partitions),
            user_data=assignment.user_data or b"",
            version=3,
        )
        takes = inspect.signature(self._inner.on_assignment).parameters
        if len(takes) < 2:
            self._inner.on_assignment(share)
        else:
            self._inner.on_assignment(share, metadata.generation_id)


def _member(member_id: str, subscription: Subscription) -> SimpleNamespace:
    """Return a member as kafka-python's ``JoinGroupResponseMember`` with a ``ConsumerProtocolSubscription``."""
    topics = list(subscription.topics)
    metadata = SimpleNamespace(
        topics=topics,
        subscription=topics,  # as kafka-python 2.0 names them
        user_data=subscription.user_data or b"",
        owned_partitions=_of_topics(subscription.owned_partitions),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
        version=3,
    )
    return SimpleNamespace(member_id=member_id, group_instance_id=subscription.group_instance_id, metadata=metadata)


def _of_topics(partitions: Iterable[TopicPartition]) -> list[_OfTopic]:
    return [_OfTopic(found.topic, found.partitions) for found in to_topics(partitions)]


def _as_bytes(data: Any) -> bytes | None:
    """Return user data as bytes; in kafka-python it may be an object with ``encode()``."""
    if data is None or isinstance(data, bytes):
        return data
    return bytes(data.encode())
