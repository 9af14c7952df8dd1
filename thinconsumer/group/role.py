"""What a member is a member *for*: the seam between the group protocol and who uses it (``seeds/002``).

The member knows generations, deadlines and errors; a :class:`Role` knows what the opaque bytes mean and what has to
happen around a rebalance. The consumer is one role, a pool of workers another.

Nothing here runs inside an engine's step. The member comes to a state in which it waits for its role, says so by
``has_work``, and goes on when somebody has called ``work(now)``: ``poll`` does, ``drive`` does not. What returns a bool
is called again, with steps in between, until it returns True: that is how the consumer waits for a commit before it
gives partitions up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from .identity import Identity


class JoinedMember(NamedTuple):
    """A member of the new generation, as the coordinator tells its leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class Role(Protocol):
    """The callbacks of one member. Any of them may run users' code; what that raises comes out of ``work``.

    Giving up (``prepare``, ``revoke``, ``lose``) that raises counts as done, since the others wait for it: it is not
    called again. A plan that raises, or a share that ``take`` cannot read, is followed by another round. An interrupt
    counts as nothing: what it struck is called again.
    """

    @property
    def protocol_type(self) -> str:
        """What kind of group it is; the coordinator lets only members of one kind in."""
        ...

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return name and metadata of every protocol this member can follow, the preferred one first.

        Asked before each JoinGroup: what a consumer owns is part of it.
        """
        ...

    def prepare(self, identity: Identity, now: float) -> bool:
        """A rebalance begins, and this member has not joined it yet: give up what has to be given up."""
        ...

    def ready_to_assign(self, protocol: str, members: Sequence[JoinedMember], now: float) -> bool:
        """We lead: is everything known that the plan depends on? Asked again until it is, or it took too long."""
        ...

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[JoinedMember], *, skip: bool
    ) -> Mapping[str, bytes]:
        """We lead: return every member's share, by member id.

        With ``skip`` (KIP-814) the group keeps the plan it has: look at it, so as to notice changes, and return ``{}``.
        """
        ...

    def take(self, identity: Identity, protocol: str, assignment: bytes, now: float, *, missed: bool) -> None:
        """Our share has come. Decide what is to be given up and what is new; no callbacks yet, but for what is lost.

        ``missed``: the group went through a generation without us. What we kept may have been another's in it.
        """
        ...

    def revoke(self, identity: Identity, now: float) -> bool:
        """Give up what the new share no longer has (KIP-429)."""
        ...

    def install(self, identity: Identity, now: float) -> bool:
        """Begin with what is new. Called again by a later ``work`` if it raises."""
        ...

    def lose(self, why: str, now: float) -> bool:
        """The coordinator has expelled us: what was ours may be somebody else's already. ``seeds/004``: lost."""
        ...

    def describe(self) -> str:
        """Return what the rebalance that is just over has changed, for the one line that is logged about it."""
        ...

    def rejoin_reason(self, now: float) -> str | None:
        """Return why a stable member should join again (its subscription or the cluster changed), if it should.

        Asked in every step, so it has to be cheap.
        """
        ...
