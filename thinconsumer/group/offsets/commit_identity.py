"""The member id and generation for commits, and whether offsets queued under an earlier one may still be committed.

In a rebalance the coordinator accepts commits of the old generation until all members have joined. From then until
SyncGroup completes, it rejects commits of the old and of the new generation, so commits wait. Afterwards they are sent
with the new generation, if the partition is still assigned to this member.
"""

from __future__ import annotations

from typing import NamedTuple

from ..identity import Identity
from .commit_errors import Failure


class CommitIdentity(NamedTuple):
    """The state of the membership at the moment when a commit is queued, checked or written."""

    #: The member id, generation and instance id. Under manual assignment all three are unset: if a commit without a
    #: member id carried the instance id of a static member, the coordinator would reject it with FENCED_INSTANCE_ID.
    identity: Identity
    is_subscribed: bool = False  #: Whether the group assigns the partitions; False with manual assignment.
    is_rebalancing: bool = False  #: Whether the member is joining: ``Membership.rebalancing``.
    awaits_rebalance_response: bool = False  #: Whether a written JoinGroup or SyncGroup has no response yet.
    #: The identity before the current rebalance: the coordinator may still accept commits of that generation.
    settled: Identity | None = None
    #: Whether this is a member of a consumer group (KIP-848). Its epoch may skip numbers at any time, and a partition
    #: that it keeps is owned by no other member meanwhile.
    has_epochs: bool = False
    refused: Identity | None = None  #: The identity for which the coordinator has stopped accepting commits.
    is_settled: bool = True  #: Whether the member has its assignment, and no rebalance is in progress.
    has_assignment: bool = False  #: Whether the consumer has had an assignment since it subscribed.

    @property
    def who(self) -> Identity | None:
        """The identity to commit under; None while the consumer is subscribed but not a member of a generation."""
        return self.identity if self.identity.is_member or not self.is_subscribed else None

    @property
    def consumed_as(self) -> Identity | None:
        """The identity under which newly queued offsets were consumed.

        If the member has missed a generation, this is the identity before the missed one, until the member drops the
        partitions that it has kept. Offsets of these partitions that are queued meanwhile are therefore not committed.
        """
        who, before = self.who, self.settled
        if who is None or before is None or who.member_id != before.member_id or not self.is_rebalancing:
            return who
        return before if who.generation_id > before.generation_id + 1 else who

    @property
    def awaits_sync(self) -> bool:
        """Whether commits wait: once all members have joined, the coordinator rejects them until SyncGroup succeeds."""
        who = self.who
        return self.is_rebalancing and who is not None and (who != self.settled or who == self.refused)

    def objection(self, before: Identity, *, is_assigned: bool) -> Failure | None:
        """Return why an offset queued under ``before`` cannot be committed now, or None.

        ``is_assigned`` says whether the partition of the offset has stayed assigned to this consumer since then.
        """
        who = self.who
        if before == who:
            return None
        if not before.is_member:
            return Failure("refused", "the commit was made under manual assignment, before the consumer subscribed")
        member = f"member {before.member_id} of generation {before.generation_id}"
        if who is None or (before.member_id, before.incarnation) != (who.member_id, who.incarnation):
            reason = "illegal_generation" if self.identity.member_id == before.member_id else "unknown_member"
            return Failure(reason, f"{member} is not in the group any more")
        if not self.has_epochs and who.generation_id > before.generation_id + 1:
            # In the missed generation another member may have committed a later offset, which this commit would reset.
            return Failure("rebalance_in_progress", f"{member} has missed a later generation")
        if is_assigned:
            return None
        return Failure("rebalance_in_progress", f"{member} has lost the partition in a rebalance")

    def foreign(self) -> Failure | None:
        """Return why an offset of a partition that this member does not own cannot be committed now, or None.

        Before the first assignment, a consumer may commit where its group begins. In a rebalance the objection is
        temporary, as the new assignment may contain the partition.
        """
        if not self.is_subscribed or not self.has_assignment:
            return None
        if self.is_settled:
            return Failure("not_owned", "this member does not own them")
        return Failure("rebalance_in_progress", "this member does not own them before the rebalance is over")

    def outside(self) -> Failure:
        """Return why a subscribed consumer that is not a member cannot commit."""
        if self.is_rebalancing:
            return Failure("rebalance_in_progress", "this member is about to join the group")
        return Failure("unknown_member", "this member is not in the group")
