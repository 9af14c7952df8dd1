"""Checks the heartbeats of members of the consumer group protocol (KIP-848), as their clients write and read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.simulation.checkers.base import (
    ASSIGNED,
    REVOKED,
    Checker,
    Member,
    SimReader,
    by_reader,
    names,
)
from thinconsumer_testing.simulation.client_tap import SentRequest

from .callbacks import CallbackChecker
from .consumer_views import named
from .views import Share, View, Views

#: The most heartbeats of one member within WINDOW_S: about three times as many as without a bug.
WINDOW_S, BEATS_MAX = 10.0, 120
LEAVE, LEAVE_STATIC = -1, -2


@dataclass(slots=True)
class _Beats:
    """The heartbeats of one member."""

    member_id: str = ""  #: That of the first heartbeat; a client makes its id once (KIP-1082).
    line: int = 0  #: Number of the connection on which a heartbeat is unanswered; 0: none.
    must_be_full: bool = True  #: Whether the coordinator may not have seen the last heartbeat.
    has_left: bool = (
        False  #: Whether the last heartbeat has left the group, and the application has not subscribed since.
    )
    is_polling: bool = False
    times: deque[float] = field(default_factory=deque)
    #: Every partition that was assigned in this membership.
    assigned: set[TopicPartition] = field(default_factory=set)
    calling: set[TopicPartition] = field(default_factory=set)  #: Those of an on_partitions_assigned that runs.
    #: Those whose on_partitions_revoked has returned, and which are owned until the commits inside it are answered.
    draining: set[TopicPartition] = field(default_factory=set)
    #: A connection with an unanswered heartbeat that the client must have closed when it wrote the next, and when.
    doubled: tuple[int, float] | None = None
    owned_before: Share = frozenset()  #: What the member owned before its last callback ended, at ``changed_at``.
    changed_at: float = -1.0


@dataclass(eq=False)
class HeartbeatChecker(Checker):
    """Checks that one heartbeat is in flight at a time, with the member's id and epoch, and what it acknowledges.

    A heartbeat must not leave out a partition that the member still owns by its callbacks, and must not name one that
    it was not assigned. After an error or a lost connection it must have all fields. A member that joins owns nothing.
    One that has left joins again only inside a poll, or after ``subscribe``.
    """

    views: Views
    callbacks: CallbackChecker
    name_of: Callable[[bytes], str]
    #: Whether no fault or change occurs that could be a reason to join, leave, or begin a new epoch.
    is_quiet: bool = field(default=False, init=False)
    _of: dict[SimReader, _Beats] = by_reader(_Beats)

    def ended(self, reader: SimReader) -> None:
        self._of.pop(reader, None)

    def subscribed(self, member: Member, topics: Collection[str] | None) -> None:
        self._of[member].has_left = False

    def call_began(self, member: Member, polls: bool) -> None:
        self._of[member].is_polling = polls

    def call_ended(self, member: Member) -> None:
        if member in self._of:
            self._of[member].is_polling = False

    def callback_started(self, member: Member, what: str, tps: Collection[TopicPartition]) -> None:
        self._of[member].calling = set(tps) if what == ASSIGNED else set()

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        """Note what the member owned before: CallbackChecker, which keeps what it owns, gets this event later."""
        beats = self._of[member]
        if beats.changed_at != self.now():
            beats.owned_before, beats.changed_at = frozenset(self.callbacks.owned(member)), self.now()
        if what == REVOKED:
            beats.draining |= set(tps)
        else:
            beats.draining -= set(tps)

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        view, request = self.views.of.get(member), sent.message
        if view is None or not isinstance(request, ConsumerGroupHeartbeatRequest):
            return
        beats = self._of[member]
        beats.member_id = beats.member_id or request.member_id
        if not request.member_id or request.member_id != beats.member_id:
            self.accuse(f"{member} sends a heartbeat with member id {request.member_id!r}, not {beats.member_id!r}")
        if request.member_epoch < 0:
            self._check_leave(member, beats, request)
            beats.has_left = True
            return
        self._check_single(member, beats)
        if beats.line == line:
            self.accuse(f"{member} sends a heartbeat while another is unanswered")
        elif beats.line:
            beats.doubled, beats.must_be_full = (beats.line, self.now()), True
        if request.member_epoch == 0:
            self._check_join(member, view, request)
        elif view.generation != request.member_epoch and not self._has_just_changed(view, request):
            why = f", since {view.expelled}" if view.expelled else ""
            self.accuse(f"{member} sends a heartbeat with epoch {request.member_epoch}, not {view.generation}{why}")
        if beats.must_be_full and not _is_full(member, request):
            self.accuse(f"{member} leaves out fields, but the coordinator may not have seen its last heartbeat")
        if request.topic_partitions is not None and request.member_epoch > 0:
            self._check_owned(member, view, beats, named(request.topic_partitions, self.name_of))
        beats.line = line
        self._count(member, beats)

    def _check_single(self, member: Member, beats: _Beats) -> None:
        """Check that the connection of an unanswered heartbeat was closed in the step that wrote the next heartbeat."""
        if beats.doubled is not None and self.now() > beats.doubled[1]:
            self.accuse(f"{member} has sent a heartbeat while another was unanswered on connection {beats.doubled[0]}")

    def _has_just_changed(self, view: View, request: ConsumerGroupHeartbeatRequest) -> bool:
        return view.changed_at == self.now() and view.before[1] == request.member_epoch

    def _check_leave(self, member: Member, beats: _Beats, request: ConsumerGroupHeartbeatRequest) -> None:
        epoch = LEAVE if member.instance_id is None else LEAVE_STATIC
        if request.member_epoch != epoch:
            self.accuse(f"{member} leaves with epoch {request.member_epoch}, not {epoch}")
        if self.is_quiet:
            self.accuse(f"{member} leaves its group without a cause")
        beats.line, beats.must_be_full = 0, True

    def _check_join(self, member: Member, view: View, request: ConsumerGroupHeartbeatRequest) -> None:
        if view.generation > 0 and not view.may_forget:
            self.accuse(f"{member} joins again, but it is a member in epoch {view.generation}")
        beats = self._of[member]
        if beats.has_left and not beats.is_polling:
            self.accuse(f"{member} has left its group, and joins again although its application does not poll")
        beats.has_left = False
        if self.is_quiet:
            self.accuse(f"{member} joins its group again without a cause")
        if request.topic_partitions is None or request.topic_partitions:
            self.accuse(f"{member} joins, but does not say that it owns nothing")
        owned = self.callbacks.owned(member)
        if owned:
            self.accuse(f"{member} joins before its callbacks were told that it has lost {names(owned)}")
        self._of[member].assigned.clear()

    def _check_owned(self, member: Member, view: View, beats: _Beats, reported: Share) -> None:
        owned = frozenset(self.callbacks.owned(member))
        is_new = beats.changed_at == self.now()
        known = owned & beats.owned_before if is_new else owned
        if known - reported:
            self.accuse(f"{member} acknowledges that it has given up {names(known - reported)}, which it still owns")
        beats.draining &= reported
        allowed = owned | beats.calling | beats.draining | (beats.owned_before if is_new else frozenset())
        if reported - allowed:
            self.accuse(f"{member} says that it owns {names(reported - allowed)}, but owns {names(owned)}")
        foreign = reported - beats.assigned - view.share
        if foreign:
            self.accuse(f"{member} says that it owns {names(foreign)}, which was never assigned to it")

    def _count(self, member: Member, beats: _Beats) -> None:
        now, times = self.now(), beats.times
        times.append(now)
        while times[0] < now - WINDOW_S:
            times.popleft()
        if len(times) > BEATS_MAX:
            self.accuse(f"{member} has sent {len(times)} heartbeats within {WINDOW_S:g} s")

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        beats, request = self._of[member], sent.message
        self._check_single(member, beats)
        if not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_epoch < 0 or line != beats.line:
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        beats.line, beats.must_be_full = 0, response.error_code != Code.NONE
        if response.assignment is not None:
            beats.assigned |= named(response.assignment.topic_partitions, self.name_of)
        if self.is_quiet and not response.error_code and response.member_epoch != request.member_epoch:
            self.accuse(f"{member} gets epoch {response.member_epoch} after {request.member_epoch} without a cause")

    def connection_closed(self, member: Member, line: int) -> None:
        beats = self._of.get(member)
        if beats is None:
            return
        if beats.doubled is not None and beats.doubled[0] == line:
            beats.doubled = None
        if beats.line == line:
            beats.line, beats.must_be_full = 0, True


def _is_full(member: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.rebalance_timeout_ms != -1
        and request.subscribed_topic_names is not None
        and request.topic_partitions is not None
        and (bool(request.subscribed_topic_regex) or not member.uses_broker_pattern)
    )
