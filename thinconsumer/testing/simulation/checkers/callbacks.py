"""Checks the rebalance callbacks of members against their assignments, and their order (KIP-429)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ....types import TopicPartition
from ....wire import Message
from ....wire.join_group import JoinGroupRequest
from ....wire.sync_group import SyncGroupResponse
from ..client_tap import SentRequest
from .base import ASSIGNED, REVOKED, Checker, Member, SimReader, names
from .views import Views


@dataclass(slots=True)
class _Heard:
    """The state of one member according to its callbacks."""

    owned: set[TopicPartition] = field(default_factory=set)  #: Owned partitions, also if the callback raised.
    pending: set[TopicPartition] = field(default_factory=set)  #: Owned partitions whose ASSIGNED callback raised.
    topics: Collection[str] | None = None  #: The subscribed topics; None: a pattern.
    is_parting: bool = False
    owes_join: bool = False  #: Whether it must rejoin, since it gave partitions up for others.


@dataclass(eq=False)
class CallbackChecker(Checker):
    """Checks the partitions of callbacks: assigned ones are not owned yet, revoked and lost ones are owned.

    An eager protocol revokes all owned partitions, a cooperative one only those that move. Partitions are reported as
    lost, and not as revoked, if the member is no longer in the generation that assigned them.
    """

    views: Views
    _heard: dict[SimReader, _Heard] = field(default_factory=dict, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)  #: Calls of each callback.

    def started(self, reader: SimReader) -> None:
        self._heard[reader] = _Heard()

    def ended(self, reader: SimReader) -> None:
        self._heard.pop(reader, None)

    def owned(self, reader: SimReader) -> set[TopicPartition]:
        """Return the partitions that a member owns according to its callbacks."""
        found = self._heard.get(reader)
        return set() if found is None else found.owned

    def subscribed(self, member: Member, topics: Collection[str] | None) -> None:
        self._heard[member].topics = topics

    def closing(self, member: Member) -> None:
        self._heard[member].is_parting = True

    # -- callbacks

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        found, view, these = self._heard[member], self.views.of[member], set(tps)
        self.counts[what] += 1
        if what == ASSIGNED:
            self._check_assigned(member, found, these)
        elif what == REVOKED:
            self._check_revoked(member, found, these)
        elif these != found.owned:
            self.accuse(f"{member} hears that {names(these)} is lost, and owned {names(found.owned)}")
        elif not view.expelled and not view.may_forget and not view.missed:
            self.accuse(f"{member} hears that {names(these)} is lost, and nobody has told it so")

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        """Update the owned partitions. An ASSIGNED callback that raised is called again."""
        found = self._heard[member]
        if what == ASSIGNED:
            found.owned |= set(tps)
            found.pending = set(tps) if error is not None else set()
        else:
            found.owned -= set(tps)
            found.pending -= set(tps)

    def _check_assigned(self, member: Member, found: _Heard, these: set[TopicPartition]) -> None:
        share = self.views.of[member].share
        if these & (found.owned - found.pending):
            self.accuse(
                f"{member} hears that {names(these)} is assigned, and owns {names(these & found.owned)} already"
            )
        if these - share:
            self.accuse(f"{member} hears that {names(these - share)} is assigned, and its share is {names(share)}")
        if found.owned - share:
            self.accuse(f"{member} hears of what is assigned before it has given up {names(found.owned - share)}")

    def _check_revoked(self, member: Member, found: _Heard, these: set[TopicPartition]) -> None:
        view = self.views.of[member]
        if these - found.owned:
            self.accuse(f"{member} hears that {names(these)} is revoked, and owns only {names(found.owned)}")
        if view.expelled:
            self.accuse(f"{member} hears that {names(these)} is revoked, and was told {view.expelled}: it is lost")
        if found.is_parting:
            return
        if not member.cooperative:
            if these != found.owned:
                self.accuse(
                    f"{member} hears that {names(these)} is revoked, and owns {names(found.owned)}: eager is all"
                )
            return
        if view.missed:
            self.accuse(f"{member} hears that {names(these)} is revoked, after a generation without it: it is lost")
        kept = {tp for tp in these & view.share if found.topics is not None and tp.topic in found.topics}
        if kept:
            self.accuse(f"{member} hears that {names(these)} is revoked, of which {names(kept)} is its share")
        if not these:
            self.accuse(f"{member} hears that nothing is revoked: cooperative members do not")
        found.owes_join = True

    # -- on the wire

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        found = self._heard.get(member)
        if found is None or not isinstance(sent.message, JoinGroupRequest):
            return
        found.owes_join = False
        if not member.cooperative and found.owned:
            self.accuse(f"{member} joins while it owns {names(found.owned)}: its protocol is eager")

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        found, view = self._heard.get(member), self.views.of.get(member)
        if found is not None and view is not None and view.expelled and not isinstance(response, SyncGroupResponse):
            found.owes_join = False

    def finish(self) -> None:
        """Check that members rejoined after giving partitions up: until then, no other member gets them."""
        for reader, found in self._heard.items():
            if found.owes_join and not found.is_parting:
                self.accuse(f"{reader} has given partitions up and did not join again, so that nobody gets them")
