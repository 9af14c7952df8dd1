"""Sticky for groups that go on reading while they rebalance (KIP-429): a partition changes hands in two rebalances.

The plan is that of :mod:`.balance`, without the partitions that somebody else may still be reading. Their readers give
them up and join again; then they are nobody's, and go where they were meant to go. Whom to believe stands in
:mod:`.claims`; a partition that is disputed goes to nobody until those who claim it have let go of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct

from ..types import ClusterView
from .balance import balanced
from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .claims import NO_GENERATION, Claim, settle

#: What members say in user data: the generation, for leaders that do not read it from the subscription (KIP-792).
_GENERATION = Struct(">i")


class CooperativeStickyAssignor(PartitionAssignor):
    """``"cooperative-sticky"``: as even as can be, whatever moves least, and nobody stops reading what stays."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Say in which generation we got what we own."""
        return _GENERATION.pack(self._generation)

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Plan for all, and hold back what has to be given up first."""
        claims = {member: Claim(s.owned_partitions, _generation(s)) for member, s in subscriptions.items()}
        owned = settle(claims, {topic: len(partitions) for topic, partitions in cluster.partitions.items()})
        plan = balanced(cluster, subscriptions, owned.owners)
        return {
            member: Assignment(tuple(tp for tp in partitions if not owned.held_by_others(tp, member)))
            for member, partitions in plan.items()
        }

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Remember the generation."""
        self._generation = metadata.generation_id


def _generation(subscription: Subscription) -> int:
    if subscription.generation_id >= 0:
        return subscription.generation_id
    data = subscription.user_data
    if data is None or len(data) < _GENERATION.size:
        return NO_GENERATION
    generation: int = _GENERATION.unpack_from(data)[0]
    return generation
