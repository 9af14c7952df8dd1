"""Has any partition two owners, both members of the same generation as far as the coordinator is concerned?"""

from __future__ import annotations

from collections.abc import Collection

from .....types import TopicPartition
from ...checkers import Reader
from .base import ASSIGNED, GroupChecker, Member
from .callbacks import CallbackChecker
from .commits import Plans
from .views import Views


class OwnersChecker(GroupChecker):
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

    def hears(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
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
            # A static member stays in the group for as long as its session lasts, without having joined.
            absent = other.instance_id is not None and theirs.generation < view.shared_in
            # It is in this generation, and has not been told so long ago that it could not be.
            if (
                both
                and not absent
                and theirs.member_id in plan
                and theirs.shared_in >= view.shared_in - 1
                and not theirs.expelled
            ):
                tp = min(both)
                self.accuse(f"{member} is given {tp.topic}-{tp.partition} in generation {view.shared_in}, and {other}"
                            f" has it still")  # fmt: skip
