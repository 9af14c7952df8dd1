"""The member id and generation for commits, and whether offsets queued under an earlier one may still be committed.

Owns these rules only. In a rebalance the coordinator accepts commits of the old generation until all members have
joined. After that it rejects them, and until SyncGroup completes it rejects those of the new generation too. Commits
are held during that time. Afterwards they get the new generation, if the partition is still assigned to this member.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..errors import KafkaError
from ..types import TopicPartition
from .identity import Identity


class CommittingMember(Protocol):
    """The part of a group membership that commits depend on."""

    @property
    def is_member(self) -> bool:
        """Whether the group assigns the partitions; with manual assignment, commits have no member id."""
        ...

    @property
    def identity(self) -> Identity:
        """The current member id, generation and instance id."""
        ...

    @property
    def rebalancing(self) -> bool:
        """Whether a JoinGroup or SyncGroup is due or in flight; False once SyncGroup has succeeded."""
        ...

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether a JoinGroup or SyncGroup was written; its response decides the membership."""
        ...

    def owns(self, tp: TopicPartition) -> bool:
        """Return whether this member still owns the partition after the last rebalance."""
        ...

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Act on an error about ``identity``: its member id, generation or instance id is not valid any more.

        REBALANCE_IN_PROGRESS arrives here too, and invalidates neither member id nor generation.
        """


class Objection(NamedTuple):
    """Why an offset can no longer be committed: the reason of :class:`CommitFailedError`, and its explanation."""

    reason: str
    why: str


class CommitIdentity:
    """Decide the member id and generation for commits. Without a membership, commits have neither."""

    def __init__(self, membership: CommittingMember | None, group_id: str) -> None:
        self._membership = membership
        #: The identity under manual assignment. It has no instance id: the coordinator would fence a commit with the
        #: id of a static member.
        self.by_hand = Identity(group_id)
        #: The identity before the current rebalance: the coordinator may still accept commits of that generation.
        self._settled: Identity | None = None
        self._refused: Identity | None = None  #: The identity for which the coordinator has stopped accepting commits.

    @property
    def who(self) -> Identity | None:
        """The identity to commit under; None while the consumer is subscribed but not a member of a generation."""
        membership = self._membership
        if membership is None or not membership.is_member:
            return self.by_hand
        return membership.identity if membership.identity.is_member else None

    @property
    def asks_as(self) -> Identity | None:
        """The identity under which newly queued offsets were consumed.

        After a missed generation this is the one before the gap, until SyncGroup succeeds: the member then drops all
        partitions that it had kept.
        """
        who, before = self.who, self._settled
        if who is None or before is None or who.member_id != before.member_id or not self.rebalancing:
            return who
        return before if who.generation_id > before.generation_id + 1 else who

    @property
    def rebalancing(self) -> bool:
        """Whether the member is in a rebalance."""
        return self._membership is not None and self._membership.is_member and self._membership.rebalancing

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether the member is in a rebalance and its JoinGroup or SyncGroup was written."""
        return self.rebalancing and self._membership is not None and self._membership.awaits_rebalance_response

    @property
    def held(self) -> bool:
        """Whether commits wait: late in a rebalance the coordinator would reject them."""
        who = self.who
        return self.rebalancing and who is not None and (who != self._settled or who == self._refused)

    def note(self) -> None:
        """Record the current identity unless a rebalance is in progress. Called in every step."""
        if not self.rebalancing:
            self._settled, self._refused = self.who, None

    def refused(self, stamp: Identity) -> None:
        """Note that the coordinator rejects commits of this generation, for good or until its SyncGroup completes."""
        self._refused = stamp

    def told(self, error: KafkaError, stamp: Identity, now: float) -> None:
        """Report to the membership an error in response to a commit under ``stamp``."""
        if self._membership is not None:
            self._membership.expelled(error, stamp, now)

    def objection(self, tp: TopicPartition, before: Identity) -> Objection | None:
        """Return why an offset queued under ``before`` cannot be committed under the current identity, or None."""
        who = self.who
        if before == who:
            return None
        if not before.is_member:
            return Objection("refused", "the commit was made under manual assignment, before the consumer subscribed")
        if who is None or before.member_id != who.member_id:
            return Objection(self._loss(before), f"{_described(before)} is not in the group any more")
        if who.generation_id > before.generation_id + 1:
            # In the missed generation another member may have owned the partition and committed a later offset.
            return Objection("rebalance_in_progress", f"{_described(before)} missed a generation since")
        if self._membership is not None and self._membership.owns(tp):
            return None
        return Objection("rebalance_in_progress", f"{_described(before)} has lost the partition in a rebalance")

    def outside(self) -> Objection:
        """Return why a subscribed consumer that is not a member cannot commit."""
        if self.rebalancing:
            return Objection("rebalance_in_progress", "this member is about to join the group")
        return Objection("unknown_member", "this member is not in the group")

    def _loss(self, before: Identity) -> str:
        membership = self._membership
        kept = membership is not None and membership.is_member and membership.identity.member_id == before.member_id
        return "illegal_generation" if kept else "unknown_member"


def _described(identity: Identity) -> str:
    return f"member {identity.member_id} of generation {identity.generation_id}"
