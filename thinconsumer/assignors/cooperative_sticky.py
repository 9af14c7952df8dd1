"""The cooperative sticky assignor (KIP-429): members keep reading during a rebalance.

The assignment is that of :mod:`.balance` without the partitions that another member may still read. Their owners revoke
them and rejoin, and the second rebalance assigns them as planned. :mod:`.claims` finds the owners. A partition that
several members claim is not assigned until all of them have revoked it.
"""

from collections.abc import Collection, Mapping
from struct import Struct

from ..types import ClusterView
from .balance import balanced
from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .claims import NO_GENERATION, Claim, find_owners

#: Layout of the user data: the generation, for leaders that do not read it from the subscription (before KIP-792).
_GENERATION = Struct(">i")


class CooperativeStickyAssignor(PartitionAssignor):
    """``"cooperative-sticky"``: move the fewest partitions; members keep reading all partitions that do not move."""

    name = "cooperative-sticky"
    supported_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return, encoded, the generation in which the owned partitions were assigned."""
        return _GENERATION.pack(self._generation)

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Assign all partitions except those that another member has to revoke first."""
        claims = {member: Claim(s.owned_partitions, _generation(s)) for member, s in subscriptions.items()}
        owned = find_owners(claims, cluster)
        plan = balanced(cluster, subscriptions, owned.owners)
        return {
            member: Assignment(tuple(tp for tp in partitions if not owned.held_by_others(tp, member)))
            for member, partitions in plan.items()
        }

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Store the generation for the next subscription."""
        self._generation = metadata.generation_id


def _generation(subscription: Subscription) -> int:
    if subscription.generation_id >= 0:
        return subscription.generation_id
    data = subscription.user_data
    if data is None or len(data) < _GENERATION.size:
        return NO_GENERATION
    generation: int = _GENERATION.unpack_from(data)[0]
    return generation
