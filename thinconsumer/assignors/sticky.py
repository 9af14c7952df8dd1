"""Sticky, for groups that give everything up before they join (KIP-54): what everybody had travels as user data.

How the plan is made stands in :mod:`.balance`, and whom to believe in :mod:`.claims`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..errors import KafkaProtocolError
from ..types import ClusterView, TopicPartition
from ..wire.consumer_protocol import AssignedTopic, to_topics
from ..wire.message import Message
from ..wire.schema import array, int32
from .balance import balanced
from .base import Assignment, GroupMetadata, PartitionAssignor, Subscription
from .claims import NO_GENERATION, Claim, settle
from .plans import in_order


@dataclass(slots=True, kw_only=True)
class _UserData(Message):
    """What Java's sticky assignor and kafka-python's send: what the member had, and since version 1 when."""

    VERSIONS = (0, 1)

    previous_assignment: list[AssignedTopic] = array(AssignedTopic, "0+")
    generation: int = int32("1+", default=NO_GENERATION)


#: Versions, and where they begin. Java writes no version in front; kafka-python 3.0 does, so theirs do not mix up.
_LAYOUTS = ((1, 0), (0, 0), (1, 2))


class StickyAssignor(PartitionAssignor):
    """``"sticky"``: as even as can be, and of that whatever moves least."""

    name = "sticky"

    def __init__(self) -> None:
        self._had: Claim | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Say what we had in the last generation; the partitions themselves are nobody's by then."""
        if self._had is None:
            return None
        previous = to_topics(in_order(self._had.partitions))
        return _UserData(previous_assignment=previous, generation=self._had.generation).encode(1)

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        """Plan for all."""
        claims = {member: read_claim(subscription.user_data) for member, subscription in subscriptions.items()}
        owned = settle(claims, {topic: len(partitions) for topic, partitions in cluster.partitions.items()})
        plan = balanced(cluster, subscriptions, owned.owners)
        return {member: Assignment(partitions) for member, partitions in plan.items()}

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        """Remember it."""
        self._had = Claim(assignment.partitions, metadata.generation_id)


def read_claim(user_data: bytes | None) -> Claim:
    """Return what a member says it had; nothing if it says nothing, or nothing that can be read."""
    for version, start in _LAYOUTS if user_data else ():
        try:
            said = _UserData.decode(user_data or b"", version, start, ignore_trailing=True)
        except KafkaProtocolError:
            continue
        partitions = [
            TopicPartition(had.topic, number) for had in said.previous_assignment for number in had.partitions
        ]
        return Claim(partitions, said.generation)
    return Claim()
