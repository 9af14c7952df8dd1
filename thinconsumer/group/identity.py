"""The member id, generation and instance id in every request of a member.

One immutable value, replaced as a whole: if a request mixed the member id of one membership with the generation of
another, the client would go on as a zombie member.
"""

from __future__ import annotations

from typing import NamedTuple

#: The member id in requests before the coordinator has assigned one.
UNKNOWN_MEMBER_ID = ""
#: The generation before a join, after the membership is lost, and in commits with manual assignment.
NO_GENERATION = -1


class Identity(NamedTuple):
    """A member in one generation. Its first four values are public as ``Consumer.group_metadata()`` (KIP-447)."""

    group_id: str
    generation_id: int = NO_GENERATION  #: In a consumer group (KIP-848), the member epoch.
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    #: Counts how often a member of a consumer group was fenced or has left. The member id stays the same, so only this
    #: number tells offsets that were read before from those that were read after the member has joined again.
    incarnation: int = 0

    @property
    def is_member(self) -> bool:
        """Whether the member has joined a generation, and its membership has not ended since."""
        return self.generation_id >= 0

    def lost(self) -> Identity:
        """Return the identity after the membership has ended (classic protocol): without member id and generation."""
        return Identity(self.group_id, NO_GENERATION, UNKNOWN_MEMBER_ID, self.group_instance_id)

    def behind(self) -> Identity:
        """Return the identity after ILLEGAL_GENERATION: without generation, with the member id.

        The member joins again under its old member id. If it joined under a new one, the next rebalance would wait for
        the old member until its session expires.
        """
        return self._replace(generation_id=NO_GENERATION)

    def outside(self) -> Identity:
        """Return the identity of a consumer group's member that was fenced or has left, and keeps its member id."""
        return self._replace(generation_id=NO_GENERATION, incarnation=self.incarnation + 1)

    def named(self, member_id: str) -> Identity:
        """Return the identity after MEMBER_ID_REQUIRED (KIP-394): with the member id for the next JoinGroup."""
        return self._replace(member_id=member_id)

    def joined(self, generation_id: int, member_id: str) -> Identity:
        """Return the identity after a successful JoinGroup or ConsumerGroupHeartbeat."""
        return self._replace(generation_id=generation_id, member_id=member_id)
