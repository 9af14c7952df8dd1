"""Checks the rebalance callbacks of members against their assignments, and their order (KIP-429)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupResponse
from thinconsumer_testing.simulation.checkers.base import ASSIGNED, REVOKED, Checker, Member, SimReader, names
from thinconsumer_testing.simulation.client_tap import SentRequest

from .views import Views


@dataclass(slots=True)
class _CallbackState:
    """The state of one member as its rebalance callbacks show it."""

    #: The partitions that callbacks have assigned and not taken away since, even if the callback raised.
    owned: set[TopicPartition] = field(default_factory=set)
    #: Owned partitions with an ASSIGNED callback that raised: it will be called again.
    pending: set[TopicPartition] = field(default_factory=set)
    topics: Collection[str] | None = None  #: The subscribed topics; None: a pattern.
    #: Topics that a subscription has left out since they were last assigned: their revocation may have begun then.
    left_out: set[str] = field(default_factory=set)
    is_closing: bool = False  #: Whether the application has begun to close the member or to unsubscribe it.
    #: Whether the member must send another JoinGroup, since it has revoked partitions that move to other members.
    must_rejoin: bool = False


@dataclass(eq=False)
class CallbackChecker(Checker):
    """Checks the partitions of callbacks: assigned ones are not owned yet, revoked and lost ones are owned.

    An eager protocol revokes all owned partitions, a cooperative one only those that move. Partitions are reported as
    lost, and not as revoked, if the member is no longer in the generation that assigned them.
    """

    views: Views
    _states: dict[SimReader, _CallbackState] = field(default_factory=dict, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)  #: Number of calls of each callback.

    def started(self, reader: SimReader) -> None:
        self._states[reader] = _CallbackState()

    def ended(self, reader: SimReader) -> None:
        self._states.pop(reader, None)

    def owned(self, reader: SimReader) -> set[TopicPartition]:
        """Return the partitions that a member owns according to its callbacks."""
        found = self._states.get(reader)
        return set() if found is None else found.owned

    def subscribed(self, member: Member, topics: Collection[str] | None) -> None:
        found = self._states[member]
        if found.topics is not None and topics is not None:
            found.left_out |= set(found.topics) - set(topics)
        found.topics = topics

    def closing(self, member: Member) -> None:
        self._states[member].is_closing = True

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        found, view, these = self._states[member], self.views.of[member], set(tps)
        self.counts[what] += 1
        if what == ASSIGNED:
            self._check_assigned(member, found, these)
        elif what == REVOKED:
            self._check_revoked(member, found, these)
        elif these != found.owned:
            self.accuse(f"{member}.on_partitions_lost got {names(these)}, but it owned {names(found.owned)}")
        elif not view.expelled and not view.may_forget and not view.missed:
            self.accuse(f"{member} reports {names(these)} as lost, but no response has ended its membership")

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        """Update the owned partitions. Those of an ASSIGNED callback that raised are owned, too; it is called again."""
        found = self._states[member]
        if what == ASSIGNED:
            found.left_out -= {tp.topic for tp in tps}
            found.owned |= set(tps)
            found.pending = set(tps) if error is not None else set()
        else:
            found.owned -= set(tps)
            found.pending -= set(tps)

    def _check_assigned(self, member: Member, found: _CallbackState, these: set[TopicPartition]) -> None:
        share = self.views.of[member].share
        if these & (found.owned - found.pending):
            self.accuse(f"{member}.on_partitions_assigned got {names(these & found.owned)}, which it already owns")
        if these - share:
            self.accuse(f"{member}.on_partitions_assigned got {names(these - share)}, but was assigned {names(share)}")
        if found.owned - share:
            self.accuse(f"{member}.on_partitions_assigned was called before it revoked {names(found.owned - share)}")

    def _check_revoked(self, member: Member, found: _CallbackState, these: set[TopicPartition]) -> None:
        view = self.views.of[member]
        if these - found.owned:
            self.accuse(f"{member}.on_partitions_revoked got {names(these)}, but it owns only {names(found.owned)}")
        if view.expelled:
            self.accuse(f"{member} reports {names(these)} as revoked after {view.expelled}, but must report it as lost")
        if found.is_closing:
            return
        if not member.cooperative:
            if these != found.owned:
                owned = names(found.owned)
                self.accuse(f"{member} reports {names(these)} as revoked, but an eager member must revoke all: {owned}")
            return
        if view.missed:
            self.accuse(f"{member} missed a generation, and must report {names(these)} as lost, not as revoked")
        topics = set() if found.topics is None else set(found.topics) - found.left_out
        kept = {tp for tp in these & view.share if tp.topic in topics}
        if kept:
            self.accuse(f"{member} reports {names(these)} as revoked, of which {names(kept)} is still assigned to it")
        if not these:
            self.accuse(f"{member}.on_partitions_revoked got no partition, although its protocol is cooperative")
        found.must_rejoin = True

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        found = self._states.get(member)
        if isinstance(sent.message, ConsumerGroupHeartbeatRequest) and found is not None:
            found.must_rejoin = found.must_rejoin and sent.message.topic_partitions is None
        if found is None or not isinstance(sent.message, JoinGroupRequest):
            return
        found.must_rejoin = False
        if not member.cooperative and found.owned:
            self.accuse(f"{member} joins with an eager protocol before it has revoked {names(found.owned)}")

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        found, view = self._states.get(member), self.views.of.get(member)
        if found is not None and view is not None and view.expelled and not isinstance(response, SyncGroupResponse):
            found.must_rejoin = False

    def finish(self) -> None:
        """Check that each member which revoked partitions has joined again: before that, no other member gets them."""
        for reader, found in self._states.items():
            if found.must_rejoin and not found.is_closing:
                self.accuse(f"{reader} has revoked partitions and not joined again, so that no other member gets them")
