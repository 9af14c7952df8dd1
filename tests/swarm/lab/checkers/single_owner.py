"""Checks that no partition is owned by two members of the same generation."""

from collections.abc import Collection
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, Checker, Member, SimReader

from .callbacks import CallbackChecker
from .commits import Plan, Plans
from .views import View, Views


@dataclass(eq=False)
class SingleOwnerChecker(Checker):
    """Checks, when a partition is assigned to a member, that no other member of the generation still owns it.

    A member that was cut off while its group rebalanced is ignored: it may still own the partition by its callbacks,
    but the coordinator rejects its commits.
    """

    views: Views
    plans: Plans
    callbacks: CallbackChecker
    _members: dict[SimReader, Member] = field(default_factory=dict, init=False)

    def ended(self, reader: SimReader) -> None:
        self._members.pop(reader, None)

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        self._members[member] = member
        view = self.views.of[member]
        if what != ASSIGNED:
            return
        plan = self.plans.of.get(member.group, {}).get(view.shared_in, {})
        for other in self._members.values():
            if other is member or other.group != member.group:
                continue
            theirs = self.views.of[other]
            both = self.callbacks.owned(other) & set(tps)
            if both and self._takes_part(other, theirs, view, plan):
                tp = min(both)
                self.accuse(f"{tp.topic}-{tp.partition} is assigned to {member} in generation {view.shared_in}, but"
                            f" {other} still owns it")  # fmt: skip

    @staticmethod
    def _takes_part(other: Member, theirs: View, ours: View, plan: Plan) -> bool:
        """Return whether ``other`` is in the generation of the member that is assigned partitions (``ours``)."""
        # Until its session times out, a static member is assigned partitions even if it has not joined this generation.
        absent = other.instance_id is not None and theirs.generation < ours.shared_in
        # A member that has not read its SyncGroup response of this generation has the assignment of the one before.
        is_near = ours.shared_in - 1 <= theirs.shared_in <= ours.shared_in
        return theirs.member_id in plan and is_near and not absent and not theirs.expelled
