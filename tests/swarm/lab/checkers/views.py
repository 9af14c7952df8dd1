"""The state of each member according to the responses that it has read: its member id, generation and assignment.

This module records no violations: other checkers compare the requests and callbacks of members with this state. A
response changes the state when the client has read it, not when the coordinator sends it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_protocol import decode_assignment
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.find_coordinator import FindCoordinatorResponse
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse
from thinconsumer_testing.simulation.checkers.base import REVOKED, Checker, Member, SimReader
from thinconsumer_testing.simulation.client_tap import SentRequest

Share = frozenset[TopicPartition]
#: Error codes that tell a member that it is no longer in its generation.
EXPULSIONS = frozenset({Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_INSTANCE_ID})


@dataclass(slots=True)
class View:
    """The state of one member according to the responses that it has read."""

    member_id: str = ""
    generation: int = -1
    share: Share = frozenset()  #: The assignment in the last SyncGroup response; empty after the membership ended.
    shared_in: int = -1  #: The generation of the SyncGroup response that assigned ``share``.
    before: tuple[str, int] = "", -1  #: Member id and generation before one of them last changed.
    #: When member id or generation last changed: a request written at that time may have been built before the change.
    changed_at: float = -1.0
    expelled: str = ""  #: The reason why the membership has ended; empty while it lasts.
    unknown: set[str] = field(default_factory=set)  #: Member ids rejected with UNKNOWN_MEMBER_ID.
    rebalancing: bool = False  #: Whether the group rebalances, as far as the member's requests and responses show.
    #: Whether the member may have given up its member id: after it exceeded max.poll.interval.ms, after an OffsetCommit
    #: response that says that it is no member, or while it closes.
    may_forget: bool = False
    may_forget_at: float = 0.0  #: The time of the last call after ``max_poll_interval_ms``, or of ``close``.
    #: Whether the member missed a generation before its last join, and has called neither on_partitions_assigned nor
    #: on_partitions_lost since.
    missed: bool = False
    parked_on: int = 0  #: Number of the connection on which a JoinGroup or SyncGroup is unanswered; 0: none.
    commits_on: int = 0  #: Number of the connection on which the member sent its last OffsetCommit.
    #: Host and port of the coordinator in the last FindCoordinator response since that OffsetCommit; None: none yet.
    named: tuple[str, int] | None = None
    lines: dict[int, tuple[str, int]] = field(default_factory=dict)  #: By number of a connection: its host and port.
    attended_at: float = 0.0  #: The time at which the last call of the consumer ended.
    polled_at: float = 0.0  #: The time at which the member's last poll began.
    #: The time of the first call after a pause between calls that was longer than the session timeout. None: there was
    #: no such pause, or a response has confirmed the membership since.
    doubted_since: float | None = None
    asked_at: float = 0.0  #: The time at which the member wrote its last Heartbeat, JoinGroup or SyncGroup.
    #: Consumer group protocol: when the last heartbeat was written, if it has succeeded; else None.
    confirmed_at: float | None = None
    survived: float = 0.0  #: The longest time between two heartbeats in a row of this membership that have succeeded.
    heartbeat_interval: float = math.inf  #: The interval that the coordinator has named last, in seconds.
    #: The end of the last gap between calls that was longer than the interval, until a heartbeat sent since succeeds.
    unproven_since: float | None = None
    unproven_gap: float = 0.0  #: The longest gap since the last success.
    is_outpaced: bool = False  #: Whether the gap before the last one was unproven when the last one began.

    @property
    def is_doubted(self) -> bool:
        """Whether a response has to confirm the membership before the member may get records.

        Unproven gaps are harmless for an outpaced member (see :class:`.consumer_views.ConsumerViews`) if its membership
        has lasted through a gap of that length before, and its last heartbeat has not failed.
        """
        is_trusted = self.is_outpaced and self.unproven_gap <= self.survived and self.confirmed_at is not None
        return self.doubted_since is not None and not is_trusted

    def keep_id(self) -> None:
        """Note that the coordinator has accepted a join or heartbeat, so that the member keeps its member id.

        A member that leaves since it was late may read the response to an earlier request meanwhile.
        """
        self.may_forget = self.may_forget and self.asked_at < self.may_forget_at


@dataclass(eq=False)
class Views(Checker):
    """The views of all members. This checker must get each event first, since others compare events with its state."""

    of: dict[SimReader, View] = field(default_factory=dict, init=False)

    def started(self, reader: SimReader) -> None:
        now = self.now()
        self.of[reader] = View(attended_at=now, polled_at=now)

    def ended(self, reader: SimReader) -> None:
        self.of.pop(reader, None)

    def call_began(self, member: Member, polls: bool) -> None:
        view, now = self.of[member], self.now()
        if now - view.attended_at > member.session_timeout_s and view.generation >= 0:
            view.doubted_since = now
        if now - view.polled_at >= member.max_poll_interval_s:
            view.may_forget, view.may_forget_at = True, now
        if polls:
            view.polled_at = now

    def call_ended(self, member: Member) -> None:
        view = self.of.get(member)
        if view is not None:
            view.attended_at = self.now()

    def closing(self, member: Member) -> None:
        view = self.of[member]
        view.may_forget, view.may_forget_at = True, self.now()

    def callback_finished(
        self, member: Member, what: str, tps: Collection[TopicPartition], error: Exception | None
    ) -> None:
        if what != REVOKED:
            self.of[member].missed = False

    def connection_opened(self, member: Member, line: int, host: str, port: int) -> None:
        view = self.of.get(member)
        if view is not None:
            view.lines[line] = host, port

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        view = self.of.get(member)
        if view is None:
            return
        if isinstance(sent.message, (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest)):
            view.asked_at = self.now()
        if isinstance(sent.message, (JoinGroupRequest, SyncGroupRequest)):
            view.rebalancing, view.parked_on = True, line
        if isinstance(sent.message, OffsetCommitRequest):
            view.commits_on, view.named = line, None
        if self.now() - view.polled_at >= member.max_poll_interval_s:
            view.may_forget = True
        if isinstance(sent.message, LeaveGroupRequest):
            leaving = sent.message.member_id, *(one.member_id for one in sent.message.members)
            if view.member_id in leaving:  # a member that has joined again may repeat the request for its id of before
                self._forget(view, "it has left")

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        view = self.of.get(member)
        if view is None:
            return
        before = view.member_id, view.generation
        self._take(view, line, sent.message, response)
        if (view.member_id, view.generation) != before:
            view.before, view.changed_at = before, self.now()

    def _take(self, view: View, line: int, request: Message | None, response: Message) -> None:
        if isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            if line != view.parked_on:
                return  # an old response: the member has sent a JoinGroup or SyncGroup on a newer connection since
            view.parked_on = 0
        if isinstance(response, JoinGroupResponse) and isinstance(request, JoinGroupRequest):
            self._take_join(view, request, response)
        elif isinstance(response, SyncGroupResponse) and isinstance(request, SyncGroupRequest):
            self._take_sync(view, request, response)
        elif isinstance(response, HeartbeatResponse) and isinstance(request, HeartbeatRequest):
            self._take_beat(view, request, response)
        elif isinstance(response, FindCoordinatorResponse):
            self._take_coordinator(view, response)
        elif line != view.commits_on:
            return  # not a commit's response, or an old one: the member has committed on a newer connection since
        elif isinstance(response, OffsetCommitResponse) and isinstance(request, OffsetCommitRequest):
            self._take_commit(view, line, request, response)

    def connection_closed(self, member: Member, line: int) -> None:
        view = self.of.get(member)
        if view is not None and view.parked_on == line:
            view.parked_on = 0

    def _take_join(self, view: View, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        code = response.error_code
        if code == Code.NONE:
            view.missed = view.missed or 0 <= view.generation < response.generation_id - 1
            view.member_id, view.generation = response.member_id, response.generation_id
            view.keep_id()
            self._proven(view)
        elif code == Code.MEMBER_ID_REQUIRED:
            view.member_id, view.generation, view.may_forget = response.member_id, -1, False
        elif request.member_id == view.member_id:
            self._expel(view, code)

    def _take_sync(self, view: View, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        code = response.error_code
        if (request.member_id, request.generation_id) != (view.member_id, view.generation):
            return
        if code == Code.NONE:
            try:
                raw = decode_assignment(bytes(response.assignment))
            except KafkaProtocolError:
                return
            view.share = frozenset(
                TopicPartition(topic.topic, number) for topic in raw.assigned_partitions for number in topic.partitions
            )
            view.shared_in, view.rebalancing, view.expelled = request.generation_id, False, ""
            self._proven(view)
        else:
            self._expel(view, code)

    def _take_beat(self, view: View, request: HeartbeatRequest, response: HeartbeatResponse) -> None:
        if (request.member_id, request.generation_id) != (view.member_id, view.generation):
            return
        code = response.error_code
        if code in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            self._proven(view)
            view.rebalancing = view.rebalancing or code != Code.NONE
        elif not view.parked_on:
            self._expel(view, code)

    def _take_coordinator(self, view: View, response: FindCoordinatorResponse) -> None:
        for row in response.coordinators:  # members send version 4 or later, with an array of coordinators (KIP-699)
            if not row.error_code:
                view.named = row.host, row.port

    def _take_commit(self, view: View, line: int, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        stamp = request.member_id, request.generation_id_or_member_epoch
        codes = {row.error_code for topic in response.topics for row in topic.partitions}
        if stamp != (view.member_id, view.generation) or not codes & EXPULSIONS:
            return
        # The client may ignore such an error, or give up its member id: during a rebalance, when the JoinGroup response
        # decides whether it is a member, and if a former coordinator sent the error, which may not know the member.
        if view.rebalancing or view.named not in (None, view.lines.get(line)):
            view.may_forget = True
            return
        for code in sorted(codes & EXPULSIONS):
            self._expel(view, code)

    def _proven(self, view: View) -> None:
        """Note that a response confirms the membership, if its request was written since ``doubted_since``."""
        if view.doubted_since is not None and view.asked_at >= view.doubted_since:
            view.doubted_since = None

    def _expel(self, view: View, code: int) -> None:
        if code not in EXPULSIONS:
            return
        kept = view.member_id
        if code == Code.UNKNOWN_MEMBER_ID and kept:
            view.unknown.add(kept)
        self._forget(view, Code(code).name)
        if code == Code.ILLEGAL_GENERATION:
            view.member_id = kept

    @staticmethod
    def _forget(view: View, why: str) -> None:
        view.member_id, view.generation, view.share, view.expelled = "", -1, frozenset(), why
        view.doubted_since = None
