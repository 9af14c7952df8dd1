"""Where members and replicas are, and whether a plan should care. Follows KIP-881.

It should, when some partitions can be read within the reader's rack and others cannot: without racks on both sides, or
with replicas in all racks anyway, nothing is gained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..types import ClusterView, TopicPartition
from .base import Subscription

#: Racks by partition; those that are not known are left out.
PartitionRacks = Mapping[TopicPartition, frozenset[str]]


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Return the rack of each member that names one."""
    return {member: s.rack_id for member, s in subscriptions.items() if s.rack_id}


def partition_racks(cluster: ClusterView, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
    """Return where the replicas of these topics' partitions are."""
    return {TopicPartition(p.topic, p.partition): cluster.racks(p) for t in topics for p in cluster.partitions[t]}


def racks_matter(of_members: Collection[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Return whether any choice between members puts more partitions into their reader's rack than another."""
    all_racks = frozenset().union(*of_partitions)
    return not all_racks.isdisjoint(of_members) and any(racks != all_racks for racks in of_partitions)
