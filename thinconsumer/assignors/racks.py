"""The racks of members and replicas, and whether they matter for an assignment (KIP-881).

Racks matter if a member's rack holds replicas of some partitions but not of others.
"""

from collections.abc import Collection, Iterable, Mapping

from ..types import ClusterView, TopicPartition
from .base import Subscription


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Return the rack of each member that has one."""
    return {member: s.rack_id for member, s in subscriptions.items() if s.rack_id}


def partition_racks(cluster: ClusterView, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
    """Return the racks of the replicas of these topics' partitions."""
    return {TopicPartition(p.topic, p.partition): cluster.racks(p) for t in topics for p in cluster.partitions[t]}


def racks_matter(of_members: Collection[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Return whether members' racks hold replicas, and the partitions differ in the racks of their replicas."""
    all_racks = frozenset().union(*of_partitions)
    return not all_racks.isdisjoint(of_members) and any(racks != all_racks for racks in of_partitions)
