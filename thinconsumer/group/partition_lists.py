"""Assign partitions that are marked for deletion apart from all others, with any assignor.

Producers write nothing to partitions that are marked for deletion. If an assignor got all partitions in one list, a
member could get all marked partitions, and none with new records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..assignors import Assignment, Subscription
from ..types import ClusterView, TopicPartition
from .rejoin_triggers import TopicShape

Subscriptions = Mapping[str, Subscription]
Plan = dict[str, Assignment]


class PartitionList(NamedTuple):
    """The cluster and the subscriptions with only some partitions, which are numbered anew, from 0 on per topic."""

    view: ClusterView
    subscriptions: Subscriptions
    numbers: Mapping[str, tuple[int, ...]]  #: By topic: the real numbers of these partitions.

    def originals(self, assignment: Assignment) -> tuple[TopicPartition, ...]:
        """Return the assigned partitions with their real numbers."""
        return tuple(TopicPartition(tp.topic, self.numbers[tp.topic][tp.partition]) for tp in assignment.partitions)


def assign_in_lists(
    view: ClusterView,
    subscriptions: Subscriptions,
    shapes: Mapping[str, TopicShape],
    assign: Callable[[PartitionList], Plan],
) -> Plan:
    """Return every member's assignment: ``assign`` is called for the unmarked partitions, then for any marked ones.

    Only the first call gets user data, and only its user data are returned: partition numbers in user data mean other
    partitions in the second list.
    """
    kept: dict[str, tuple[int, ...]] = {}
    marked: dict[str, tuple[int, ...]] = {}
    for topic, found in view.partitions.items():
        numbers = tuple([one.partition for one in found])
        count = shapes[topic].undeleted
        kept[topic] = numbers if count is None else tuple(n for n in numbers if n < count)
        if len(kept[topic]) < len(numbers):
            marked[topic] = numbers[len(kept[topic]) :]
    if not marked:
        return assign(PartitionList(view, subscriptions, kept))
    first = _listed(view, subscriptions, kept, has_user_data=True)
    second = _listed(view, subscriptions, marked, has_user_data=False)
    plan, rest = assign(first), assign(second)
    return {
        member: Assignment(first.originals(share) + second.originals(rest[member]), share.user_data)
        for member, share in plan.items()
    }


def _listed(
    view: ClusterView, subscriptions: Subscriptions, numbers: Mapping[str, tuple[int, ...]], *, has_user_data: bool
) -> PartitionList:
    """Return the list of the partitions in ``numbers``; without ``has_user_data``, no subscription has user data."""
    indices = {topic: {number: index for index, number in enumerate(found)} for topic, found in numbers.items()}
    partitions = {
        topic: tuple(
            one._replace(partition=indices[topic][one.partition])
            for one in view.partitions[topic]
            if one.partition in indices[topic]
        )
        for topic in numbers
    }
    members = {}
    for member, given in subscriptions.items():
        owned = tuple(
            TopicPartition(tp.topic, indices[tp.topic][tp.partition])
            for tp in given.owned_partitions
            if tp.partition in indices.get(tp.topic, ())
        )
        data = given.user_data if has_user_data else None
        members[member] = Subscription(
            given.topics, data, owned, given.generation_id, given.rack_id, given.group_instance_id
        )
    return PartitionList(ClusterView(partitions, view.nodes), members, numbers)
