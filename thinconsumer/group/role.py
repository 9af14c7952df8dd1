"""The interface between a group member and the code that uses it, such as a consumer or a pool of workers.

The member handles generations, deadlines and errors. A :class:`Role` encodes and decodes the opaque bytes of JoinGroup
and SyncGroup, and acts before and after a rebalance.

The engine's steps call no role method but ``rejoin_reason``. A member that waits for its role reports so by
``has_work``, and goes on when ``work(now)`` is called: ``poll`` calls it, ``drive`` does not. A method that returns
False is called again, with steps in between; thus the consumer waits for a commit before it drops partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from .identity import Identity


class JoinedMember(NamedTuple):
    """A member of the new generation, from the leader's JoinGroup response."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class Role(Protocol):
    """Define the callbacks of one member. All but ``rejoin_reason`` may call user code, whose errors ``work`` raises.

    A ``prepare``, ``revoke_unassigned`` or ``lose`` that raises counts as done and is not repeated, because the
    rebalance waits for it. If ``perform_assignment`` or ``accept`` raises, the member joins again. A method that Ctrl-C
    interrupts is called again.
    """

    @property
    def protocol_type(self) -> str:
        """The protocol type in JoinGroup; the coordinator rejects members of another type."""

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name and metadata of every supported protocol, the preferred one first.

        Called for each attempt to join, since a consumer's metadata contains its owned partitions.
        """

    def prepare(self, identity: Identity, now: float) -> bool:
        """Revoke partitions at the beginning of a rebalance, before JoinGroup; return whether this is complete."""

    def ready_to_assign(self, protocol: str, members: Sequence[JoinedMember], now: float) -> bool:
        """Return whether everything is known that the leader's assignment depends on.

        Called on the leader only, again until it returns True or the time limit has passed.
        """

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[JoinedMember], *, skip: bool
    ) -> Mapping[str, bytes]:
        """Return every member's assignment, by member id. Called on the leader only.

        With ``skip`` (KIP-814) the group keeps its assignment: return ``{}``, and store the topics to detect changes.
        """

    def accept(self, identity: Identity, protocol: str, assignment: bytes, now: float, *, missed: bool) -> None:
        """Decode the assignment and compute what it revokes and adds. Call no listener, except for lost partitions.

        ``missed``: a generation passed without this member, and other members may have owned the partitions that this
        one has kept.
        """

    def revoke_unassigned(self, identity: Identity, now: float) -> bool:
        """Revoke the partitions that the new assignment lacks (KIP-429); return whether this is complete."""

    def install(self, identity: Identity, now: float) -> bool:
        """Take over the newly assigned partitions, and call the listener; return whether this is complete.

        If this method raises, a later ``work`` calls it again.
        """

    def lose(self, why: str, now: float) -> bool:
        """Drop all partitions as lost, since the membership has ended; return whether this is complete.

        Other members may already own the partitions.
        """

    @property
    def summary(self) -> str:
        """The result of the last rebalance, for its log line."""

    def rejoin_reason(self, now: float) -> str | None:
        """Return why a stable member should join again (its subscription or the cluster changed), or None.

        Called in every step of a stable member, so it has to be cheap.
        """
