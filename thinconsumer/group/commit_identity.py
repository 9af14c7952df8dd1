"""Under whose name offsets may be committed now, and whether what was to be committed earlier still may be.

Owns the rules and nothing else. In a rebalance the coordinator takes commits of the old generation until all members
have joined. From then on it refuses them, and until the sync those of the new one as well: what is to be committed then
is held, and is stamped anew afterwards if the partition is still ours.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..errors import KafkaError
from ..types import TopicPartition
from .identity import Identity


class CommittingMember(Protocol):
    """What commits need to know of the group's member, and tell it."""

    @property
    def is_member(self) -> bool:
        """Whether partitions are assigned by the group; else by hand, and commits are nobody's."""
        ...

    @property
    def identity(self) -> Identity:
        """Who we are to the coordinator now."""
        ...

    @property
    def rebalancing(self) -> bool:
        """Whether a JoinGroup or SyncGroup is due or out; over when the sync has been answered."""
        ...

    @property
    def is_asking(self) -> bool:
        """Whether a JoinGroup or SyncGroup is out, whose answer tells what has become of us."""
        ...

    def owns(self, tp: TopicPartition) -> bool:
        """Return whether the partition is still ours after the rebalance that is just over."""
        ...

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Take what the coordinator said of ``identity``: that it knows no such member, generation or instance.

        Or that a rebalance is on, which costs neither member id nor generation.
        """


class Objection(NamedTuple):
    """Why something cannot be committed any more, as :class:`CommitFailedError` has it."""

    reason: str
    why: str


class CommitIdentity:
    """Who commits. Without a membership everything is committed by hand."""

    def __init__(self, membership: CommittingMember | None, group_id: str) -> None:
        self._membership = membership
        #: Of who assigns partitions by hand. No instance id either: a static instance that commits by hand beside its
        #: members would be fenced.
        self.by_hand = Identity(group_id)
        #: Who we were when no rebalance was on; in one, the coordinator may still take commits of that generation.
        self._settled: Identity | None = None
        self._refused: Identity | None = None  #: ... until it has refused one.

    @property
    def who(self) -> Identity | None:
        """Whom to commit as; None while we are expected to be a member and are none."""
        membership = self._membership
        if membership is None or not membership.is_member:
            return self.by_hand
        return membership.identity if membership.identity.is_member else None

    @property
    def asks_as(self) -> Identity | None:
        """As whom what is to be committed from now on was read: after a missed generation, as who we were before it.

        That is over when the share has come, and with it the loss of all that was kept.
        """
        who, before = self.who, self._settled
        if who is None or before is None or who.member_id != before.member_id or not self.rebalancing:
            return who
        return before if who.generation_id > before.generation_id + 1 else who

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance is on for us."""
        return self._membership is not None and self._membership.is_member and self._membership.rebalancing

    @property
    def is_asking(self) -> bool:
        """Whether a rebalance is on, and the coordinator has been asked to let us take part."""
        return self.rebalancing and self._membership is not None and self._membership.is_asking

    @property
    def held(self) -> bool:
        """Whether the coordinator would not take commits now: late in a rebalance."""
        who = self.who
        return self.rebalancing and who is not None and (who != self._settled or who == self._refused)

    def note(self) -> None:
        """Look at where we stand; in every step, so that the beginning of a rebalance is noticed."""
        if not self.rebalancing:
            self._settled, self._refused = self.who, None

    def refused(self, stamp: Identity) -> None:
        """Note that the coordinator does not take commits of this generation any more, or not yet."""
        self._refused = stamp

    def told(self, error: KafkaError, stamp: Identity, now: float) -> None:
        """Hand on to the membership what was said of it."""
        if self._membership is not None:
            self._membership.expelled(error, stamp, now)

    def objection(self, tp: TopicPartition, before: Identity) -> Objection | None:
        """Return why what was to be committed as ``before`` cannot be as who we are now; None if it can."""
        who = self.who
        if before == who:
            return None
        if not before.is_member:
            return Objection("refused", "it was committed by hand, and since then the group assigns partitions")
        if who is None or before.member_id != who.member_id:
            return Objection(self._loss(before), f"{_described(before)} is not in the group any more")
        if who.generation_id > before.generation_id + 1:
            # In a generation whose sync we missed it may have been another's, who went on from an older commit.
            return Objection("rebalance_in_progress", f"{_described(before)} missed a generation since")
        if self._membership is not None and self._membership.owns(tp):
            return None
        return Objection("rebalance_in_progress", f"it was {_described(before)}'s, and went to another member since")

    def outside(self) -> Objection:
        """Return why nothing can be committed by who is in no group."""
        if self.rebalancing:
            return Objection("rebalance_in_progress", "this member is about to join the group")
        return Objection("unknown_member", "this member is not in the group")

    def _loss(self, before: Identity) -> str:
        membership = self._membership
        kept = membership is not None and membership.is_member and membership.identity.member_id == before.member_id
        return "illegal_generation" if kept else "unknown_member"


def _described(identity: Identity) -> str:
    return f"member {identity.member_id} of generation {identity.generation_id}"
