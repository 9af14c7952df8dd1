"""What any plan has to be, whoever made it: the check that stands between an assignor and the group.

A partition with two owners is read twice and committed over itself, one given to somebody who does not want it makes
the group rebalance for ever. Such a plan is not sent; its author is named instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from ..errors import InvalidAssignmentError
from ..types import ClusterView, TopicPartition
from .base import Assignment, Subscription, sort_key


def in_order(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return partitions in the order that all built-in plans have: by topic, then by number."""
    return tuple(sorted(partitions, key=lambda tp: (sort_key(tp.topic), tp.partition)))


def known_topics(cluster: ClusterView, subscriptions: Iterable[Subscription]) -> list[str]:
    """Return the topics of all members that have partitions, in Java's order."""
    topics = set(itertools.chain.from_iterable(subscription.topics for subscription in subscriptions))
    return sorted((topic for topic in topics if cluster.partition_count(topic)), key=sort_key)


def static_first(member_id: str, subscription: Subscription) -> tuple[bool, bytes]:
    """Order members as Java's Range and RoundRobin do: static ones by instance id, then the others by member id.

    So a static member that comes back under a new member id gets what it had.
    """
    instance = subscription.group_instance_id
    return (instance is None, sort_key(member_id if instance is None else instance))


def checked(
    assignor: str,
    plan: Mapping[str, Assignment],
    cluster: ClusterView,
    subscriptions: Mapping[str, Subscription],
    *,
    cooperative: bool = False,
) -> dict[str, Assignment]:
    """Return a share for every member, an empty one where the plan has none.

    ``cooperative``: the group runs KIP-429, so a partition that one member still has may be given to nobody else yet.

    Raises:
        InvalidAssignmentError: The plan is wrong: who is not in the group gets something, a partition is given twice,
            or to who has not subscribed to its topic, or does not exist, or is taken from under who has it.
    """
    given: dict[TopicPartition, str] = {}
    shares = dict.fromkeys(subscriptions, Assignment())
    for member, share in plan.items():
        if not isinstance(share, Assignment):
            raise InvalidAssignmentError(f"gave {member} no Assignment but {type(share).__name__}", assignor)
        if member not in subscriptions:
            raise InvalidAssignmentError(f"gave a share to {member}, who is not in the group", assignor)
        shares[member] = share
        wanted = frozenset(subscriptions[member].topics)
        for tp in share.partitions:
            _check_partition(assignor, tp, member, wanted, cluster)
            if tp in given:
                raise InvalidAssignmentError(f"gave {_name(tp)} twice: to {given[tp]} and {member}", assignor)
            given[tp] = member
    if cooperative:
        _check_handover(assignor, given, subscriptions)
    return shares


def _check_partition(
    assignor: str, tp: TopicPartition, member: str, wanted: frozenset[str], cluster: ClusterView
) -> None:
    if tp.topic not in wanted:
        raise InvalidAssignmentError(f"gave {_name(tp)} to {member}, who is not subscribed to that topic", assignor)
    if not 0 <= tp.partition < cluster.partition_count(tp.topic):
        count = cluster.partition_count(tp.topic)
        raise InvalidAssignmentError(f"gave {_name(tp)} to {member}, but the topic has {count} partitions", assignor)


def _check_handover(
    assignor: str, given: Mapping[TopicPartition, str], subscriptions: Mapping[str, Subscription]
) -> None:
    for member, subscription in subscriptions.items():
        for tp in subscription.owned_partitions:
            new = given.get(tp, member)
            if new != member and tp not in subscriptions[new].owned_partitions:
                raise InvalidAssignmentError(
                    f"gave {_name(tp)} to {new} while {member} still has it: that takes a second rebalance", assignor
                )


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"
