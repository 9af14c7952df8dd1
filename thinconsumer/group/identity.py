"""Who we are to the coordinator: the stamp on everything a member says, and what makes an answer stale.

One immutable value, replaced as a whole: a member id that was reset without its generation, or the other way round,
is how clients turn into zombies.
"""

from __future__ import annotations

from typing import NamedTuple

#: What a member calls itself before the coordinator has given it an id.
UNKNOWN_MEMBER_ID = ""
#: The generation of who is in none: not joined yet, lost, or committing without being a member.
NO_GENERATION = -1


class Identity(NamedTuple):
    """A member in one generation. Public as ``Consumer.group_metadata()`` (KIP-447), with kafka-python's names."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        """Whether the coordinator has let us into a generation, as far as we know."""
        return self.generation_id >= 0

    def lost(self) -> Identity:
        """After UNKNOWN_MEMBER_ID, or leaving: neither id nor generation mean anything any more."""
        return Identity(self.group_id, NO_GENERATION, UNKNOWN_MEMBER_ID, self.group_instance_id)

    def behind(self) -> Identity:
        """After ILLEGAL_GENERATION: the generation is gone. The id stays, or the group would wait for its ghost."""
        return self._replace(generation_id=NO_GENERATION)

    def named(self, member_id: str) -> Identity:
        """After MEMBER_ID_REQUIRED (KIP-394): the id to join with."""
        return self._replace(member_id=member_id)

    def joined(self, generation_id: int, member_id: str) -> Identity:
        """After a JoinGroup that succeeded."""
        return self._replace(generation_id=generation_id, member_id=member_id)
