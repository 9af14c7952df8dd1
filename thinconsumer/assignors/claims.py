"""Who has which partition before the plan: what members claim, put to the test of their generations (KIP-792).

A claim made in a newer generation beats an older one, whose member missed that its partition went elsewhere. Two claims
in one generation cannot both be true, and nobody can tell which is; neither makes an owner. (Java's KAFKA-12984 was
about believing them.) Claims to what does not exist are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..types import TopicPartition

NO_GENERATION = -1


class Claim(NamedTuple):
    """What one member says it has, and in which generation it was given that; -1 when it does not say."""

    partitions: Iterable[TopicPartition] = ()
    generation: int = NO_GENERATION


class Owned(NamedTuple):
    """Who owns what. ``disputed`` are partitions with more than one claim in the newest generation."""

    owners: Mapping[TopicPartition, str]
    disputed: frozenset[TopicPartition]

    def held_by_others(self, tp: TopicPartition, member: str) -> bool:
        """Return whether somebody else may still be reading it, so that ``member`` must not begin yet."""
        return tp in self.disputed or self.owners.get(tp, member) != member


def settle(claims: Mapping[str, Claim], existing: Mapping[str, int]) -> Owned:
    """Weigh the claims of all members, by member id. ``existing``: number of partitions by topic."""
    newest: dict[TopicPartition, int] = {}
    claimants: dict[TopicPartition, list[str]] = {}
    for member, claim in claims.items():
        generation = max(claim.generation, NO_GENERATION)
        for tp in set(claim.partitions):
            if not 0 <= tp.partition < existing.get(tp.topic, 0):
                continue
            rival = newest.get(tp, NO_GENERATION - 1)
            if generation > rival:
                newest[tp] = generation
                claimants[tp] = [member]
            elif generation == rival:
                claimants[tp].append(member)
    owners = {tp: members[0] for tp, members in claimants.items() if len(members) == 1}
    return Owned(owners, frozenset(claimants.keys() - owners.keys()))
