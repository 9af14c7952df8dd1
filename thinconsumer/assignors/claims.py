"""Find the owners of partitions from the members' claims and their generations (KIP-792).

A claim from a newer generation wins: the member of the older generation has missed the partition's reassignment. If two
members claim a partition from the same generation, it has no owner (Java accepted one of them until KAFKA-12984).
Claims to partitions that do not exist are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..types import ClusterView, TopicPartition

NO_GENERATION = -1


class Claim(NamedTuple):
    """The partitions that a member claims to own, and the generation that assigned them; -1 if unknown."""

    partitions: Iterable[TopicPartition] = ()
    generation: int = NO_GENERATION


class Owned(NamedTuple):
    """Owners by partition. ``disputed`` partitions have none: several members claim them from the newest generation."""

    owners: Mapping[TopicPartition, str]
    disputed: frozenset[TopicPartition]

    def held_by_others(self, tp: TopicPartition, member: str) -> bool:
        """Return whether another member may still read the partition and has to revoke it first."""
        return tp in self.disputed or self.owners.get(tp, member) != member


def find_owners(claims: Mapping[str, Claim], cluster: ClusterView) -> Owned:
    """Return the owners of the cluster's partitions, from claims by member id."""
    newest: dict[TopicPartition, int] = {}
    claimants: dict[TopicPartition, list[str]] = {}
    for member, claim in claims.items():
        generation = max(claim.generation, NO_GENERATION)
        for tp in set(claim.partitions):
            if not 0 <= tp.partition < cluster.partition_count(tp.topic):
                continue
            newest_claim = newest.get(tp, NO_GENERATION - 1)
            if generation > newest_claim:
                newest[tp] = generation
                claimants[tp] = [member]
            elif generation == newest_claim:
                claimants[tp].append(member)
    owners = {tp: members[0] for tp, members in claimants.items() if len(members) == 1}
    return Owned(owners, frozenset(claimants.keys() - owners.keys()))
