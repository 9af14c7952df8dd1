"""The sticky assignors: :func:`find_owners` finds the previous owners, :mod:`.balance` computes the assignment.

Under eager rebalancing (KIP-54), members send their previous assignment as user data. Under cooperative rebalancing
(KIP-429), members keep reading what they own. So the first rebalance does not assign a partition that has to move: its
owner revokes it and rejoins, and the second rebalance assigns it as planned.

A claim from a newer generation wins (KIP-792): the member of the older generation has missed the partition's
reassignment. If several members claim a partition from the same generation, it has no owner (Java accepted one of them
until KAFKA-12984); under cooperative rebalancing it is not assigned until all have revoked it. Claims to partitions
that do not exist are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ..errors import KafkaProtocolError
from ..types import ClusterView, TopicPartition
from ..wire.consumer_protocol import AssignedTopic, to_topics
from ..wire.message import Message
from ..wire.schema import array, int32
from .balance import balanced
from .base import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from .plans import in_order

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


class _UserData(Message, versions=(0, 1)):
    """The user data of the sticky assignors of Java and kafka-python. From version 1 on, it contains the generation."""

    previous_assignment: list[AssignedTopic] = array(AssignedTopic, "0+")
    generation: int = int32("1+", default=NO_GENERATION)


#: The layouts of user data to try, as (version, offset of the first field in bytes). kafka-python 3.0 writes a version
#: number of two bytes before the fields, Java does not.
_LAYOUTS = ((1, 0), (0, 0), (1, 2))


class StickyAssignor(PartitionAssignor):
    """``"sticky"``: the balanced assignment that moves the fewest partitions. Racks (KIP-881) come before that."""

    name = "sticky"

    def __init__(self) -> None:
        self._previous: Claim | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the last assignment, encoded: under eager rebalancing the subscription itself has no partitions.

        None before the first assignment.
        """
        if self._previous is None:
            return None
        previous = to_topics(in_order(self._previous.partitions))
        return _UserData(previous_assignment=previous, generation=self._previous.generation).encode(1)

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Assign all partitions, to their previous owners as far as balance and racks allow."""
        claims = {member: read_claim(subscription.user_data) for member, subscription in subscriptions.items()}
        owned = find_owners(claims, cluster)
        plan = balanced(cluster, subscriptions, owned.owners)
        return {member: Assignment(partitions) for member, partitions in plan.items()}

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Store the assignment for the next subscription."""
        self._previous = Claim(assignment.partitions, metadata.generation_id)


def read_claim(user_data: bytes | None) -> Claim:
    """Return the previous assignment from a member's user data; an empty claim if that is missing or invalid."""
    for version, start in _LAYOUTS if user_data else ():
        try:
            decoded = _UserData.decode(user_data or b"", version, start, ignore_trailing=True)
        except KafkaProtocolError:
            continue
        partitions = [
            TopicPartition(had.topic, number) for had in decoded.previous_assignment for number in had.partitions
        ]
        return Claim(partitions, decoded.generation)
    return Claim()


class CooperativeStickyAssignor(PartitionAssignor):
    """As ``"sticky"``; under cooperative rebalancing members also keep reading all partitions that do not move."""

    name = "cooperative-sticky"
    supported_protocols: Collection[RebalanceProtocol] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return the generation that assigned the owned partitions; leaders before KIP-792 read it only here."""
        return self._generation.to_bytes(4, "big", signed=True)

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
    data = (subscription.user_data or b"")[:4]
    return int.from_bytes(data, "big", signed=True) if len(data) == 4 else NO_GENERATION
