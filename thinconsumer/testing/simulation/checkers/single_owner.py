"""Has any partition two owners, both members of the same generation as far as the coordinator is concerned?"""

from __future__ import annotations

from collections.abc import Collection

from ....types import TopicPartition
from .base import ASSIGNED, Checker, Member, Reader
from .callbacks import CallbackChecker
from .commits import Plan, Plans
from .views import View, Views


class SingleOwnerChecker(Checker):
    """Whoever is given a partition is the only one who has it, among those who take part in the generation.

    Somebody who was cut off and has not heard yet that the group went on without it does not count: it cannot know,
    and nothing it commits is taken.
    """

    def __init__(self, *args: object, views: Views, plans: Plans, callbacks: CallbackChecker) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._views = views
        self._plans = plans
        self._callbacks = callbacks
        self._members: dict[Reader, Member] = {}

    def ended(self, reader: Reader) -> None:
        """It owns nothing any more."""
        self._members.pop(reader, None)

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        """Look who else has it."""
        self._members[member] = member
        view = self._views.of[member]
        if what != ASSIGNED:
            return
        plan = self._plans.of.get(member.group, {}).get(view.shared_in, {})
        for other in self._members.values():
            if other is member or other.group != member.group:
                continue
            theirs = self._views.of[other]
            both = self._callbacks.owned(other) & set(tps)
            if both and self._takes_part(other, theirs, view, plan):
                tp = min(both)
                self.accuse(f"{member} is given {tp.topic}-{tp.partition} in generation {view.shared_in}, and {other}"
                            f" has it still")  # fmt: skip

    @staticmethod
    def _takes_part(other: Member, theirs: View, ours: View, plan: Plan) -> bool:
        """Return whether it is in our generation, and has not been told so long ago that it could not be."""
        # A static member stays in the group for as long as its session lasts, without having joined.
        absent = other.instance_id is not None and theirs.generation < ours.shared_in
        # What comes late may be of a generation that others have left behind.
        is_near = ours.shared_in - 1 <= theirs.shared_in <= ours.shared_in
        return theirs.member_id in plan and is_near and not absent and not theirs.expelled
