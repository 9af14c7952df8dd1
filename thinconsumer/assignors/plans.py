"""Check an assignor's result before the leader sends it; and functions that the built-in assignors share: for the order
of partitions and members, sets of members as bit masks (one operation handles a thousand), and racks (KIP-881).

A partition assigned to two members would be read twice. A member rejoins if it gets a partition of a topic to which it
is not subscribed, so the group would rebalance again and again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..errors import InvalidAssignmentError
from ..types import ClusterView, TopicPartition
from .base import Assignment, Subscription, sort_key


def in_order(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return partitions sorted by topic, then by number, as all built-in assignors return them."""
    return tuple(sorted(partitions, key=lambda tp: (sort_key(tp.topic), tp.partition)))


def static_first(subscriptions: Mapping[str, Subscription], member_id: str) -> tuple[bool, bytes]:
    """Return a sort key as in Java's Range and RoundRobin: static members by instance id, then others by member id.

    A static member that restarts with a new member id thus gets the same partitions.
    """
    instance = subscriptions[member_id].group_instance_id
    return (instance is None, sort_key(member_id if instance is None else instance))


def checked(
    assignor: str,
    plan: Mapping[str, Assignment],
    cluster: ClusterView,
    subscriptions: Mapping[str, Subscription],
    *,
    cooperative: bool = False,
) -> dict[str, Assignment]:
    """Return the assignment of every member after checks; it is empty for a member that ``plan`` lacks.

    In a ``cooperative`` group (KIP-429), no partition may be assigned to a member before its owner has revoked it.

    Raises:
        InvalidAssignmentError: A value of ``plan`` is no :class:`Assignment`; a member is not in the group or not
            subscribed to the topic; a partition does not exist, is assigned twice, or (``cooperative`` only) is owned
            by another member and not by the new one.
    """
    given: dict[TopicPartition, str] = {}
    shares = dict.fromkeys(subscriptions, Assignment())
    for member, share in plan.items():
        if not isinstance(share, Assignment):
            text = f"returned {type(share).__name__} instead of Assignment for member {member}"
            raise InvalidAssignmentError(text, assignor)
        if member not in subscriptions:
            raise InvalidAssignmentError(f"assigned partitions to {member}, which is not in the group", assignor)
        shares[member] = share
        wanted = frozenset(subscriptions[member].topics)
        for tp in share.partitions:
            assigned, count = f"assigned {tp.topic}-{tp.partition}", cluster.partition_count(tp.topic)
            if tp.topic not in wanted:
                raise InvalidAssignmentError(f"{assigned} to {member}, which is not subscribed to it", assignor)
            if not 0 <= tp.partition < count:
                raise InvalidAssignmentError(f"{assigned} to {member}, but the topic has {count} partitions", assignor)
            if tp in given:
                raise InvalidAssignmentError(f"{assigned} twice: to {given[tp]} and {member}", assignor)
            given[tp] = member
    for member, subscription in subscriptions.items() if cooperative else ():
        for tp in subscription.owned_partitions:
            new = given.get(tp, member)
            if new != member and tp not in subscriptions[new].owned_partitions:
                text = f"assigned {tp.topic}-{tp.partition} to {new}, but {member} owns it and has to revoke it first"
                raise InvalidAssignmentError(text, assignor)
    return shares


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the set bits, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def next_bit(mask: int, start: int) -> int:
    """Return the number of the first set bit from bit ``start`` on, then from bit 0; ``mask`` must not be 0."""
    ahead = mask >> start << start or mask
    return (ahead & -ahead).bit_length() - 1


def readers(cluster: ClusterView, members: Sequence[str], subscriptions: Mapping[str, Subscription]) -> dict[str, int]:
    """Return, for each subscribed topic with partitions, the mask of its subscribers. The topics are in Java's order.

    Bit numbers are indexes in ``members``.
    """
    alike: dict[tuple[str, ...], int] = {}
    for number, member in enumerate(members):
        wanted = subscriptions[member].topics
        alike[wanted] = alike.get(wanted, 0) | 1 << number
    topics = [topic for topic in set().union(*alike) if cluster.partition_count(topic)]
    found = dict.fromkeys(sorted(topics, key=sort_key), 0)
    for wanted, mask in alike.items():
        for topic in wanted:
            if topic in found:
                found[topic] |= mask
    return found


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Return the rack of each member that has one."""
    return {member: s.rack_id for member, s in subscriptions.items() if s.rack_id}


def partition_racks(cluster: ClusterView, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
    """Return the racks of the replicas of these topics' partitions."""
    return {TopicPartition(p.topic, p.partition): cluster.racks(p) for t in topics for p in cluster.partitions[t]}


def racks_matter(of_members: Collection[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Return whether a replica is in a member's rack, and the partitions differ in the racks of their replicas."""
    all_racks = frozenset().union(*of_partitions)
    return not all_racks.isdisjoint(of_members) and any(racks != all_racks for racks in of_partitions)
