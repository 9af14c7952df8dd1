"""The state of members of the consumer group protocol (KIP-848) according to the responses that they have read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer_testing.simulation.checkers.base import Member, SimReader
from thinconsumer_testing.simulation.client_tap import SentRequest

from .views import Share, View, Views

#: Error codes of a heartbeat after which a member owns nothing any more. GROUP_ID_NOT_FOUND: the coordinator has
#: removed this member, and then the group, which had no other member.
FENCINGS = frozenset(
    {
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_MEMBER_EPOCH,
        Code.FENCED_INSTANCE_ID,
        Code.UNRELEASED_INSTANCE_ID,
        Code.GROUP_ID_NOT_FOUND,
    }
)


def named(rows: Sequence[TopicPartitions], name_of: Callable[[bytes], str]) -> Share:
    """Return the partitions of a heartbeat, with their topics' names."""
    return frozenset(TopicPartition(name_of(row.topic_id), number) for row in rows for number in row.partitions)


@dataclass(eq=False)
class ConsumerViews(Views):
    """The views of members. ``generation`` is the member epoch, ``share`` the last assignment of the coordinator.

    A commit's error does not end a membership: the next heartbeat's response tells whether it has ended.

    A member is not told its session timeout. A program that has not waited for the response to a heartbeat between two
    gaps may take both for harmless if the membership has survived a gap of that length before: between two heartbeats
    that succeeded, and none that failed. The response between the gaps, which it reads after the second one, may be
    what proves that. If it is an error, no session was renewed, and the next heartbeat has to succeed. A coordinator
    that has restarted meanwhile, or has moved away and back, began a new session unnoticed (docs/groups.md).
    """

    name_of: Callable[[bytes], str]
    #: The members that have sent heartbeats of the consumer group protocol; others of the group may be classic ones.
    _members: set[SimReader] = field(default_factory=set, init=False)

    def call_began(self, member: Member, polls: bool) -> None:
        view = self.of[member]
        gap = self.now() - view.attended_at
        super().call_began(member, polls)
        if member not in self._members:
            return
        if gap > view.heartbeat_interval and view.generation >= 0:
            view.is_outpaced = view.unproven_since is not None
            view.unproven_gap = max(gap, view.unproven_gap) if view.is_outpaced else gap
            view.unproven_since = self.now()

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        super().request_written(member, line, sent, before)
        view, request = self.of.get(member), sent.message
        if view is None or not isinstance(request, ConsumerGroupHeartbeatRequest):
            return
        self._members.add(member)
        if view.parked_on:
            view.confirmed_at = None
        view.parked_on = line
        if request.member_epoch < 0:
            self._forget(view, "it has left")
        else:
            view.asked_at = self.now()

    def response_read(self, member: Member, line: int, sent: SentRequest, response: Message) -> None:
        if member not in self._members or not isinstance(sent.message, OffsetCommitRequest):
            super().response_read(member, line, sent, response)

    def _take(self, view: View, line: int, request: Message | None, response: Message) -> None:
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            super()._take(view, line, request, response)
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if line != view.parked_on:
            return  # an old response: the member has sent a heartbeat on a newer connection since
        view.parked_on = 0
        if request.member_epoch < 0:
            return
        self._note_survival(view, is_join=request.member_epoch == 0, has_failed=response.error_code != Code.NONE)
        if response.error_code == Code.NONE:
            view.member_id, view.generation = response.member_id or request.member_id, response.member_epoch
            view.expelled = ""
            view.keep_id()
            if response.assignment is not None:
                view.share = named(response.assignment.topic_partitions, self.name_of)
            view.shared_in = view.generation
            view.heartbeat_interval = response.heartbeat_interval_ms / 1000
            self._proven(view)
        elif response.error_code in FENCINGS:
            self._forget(view, Code(response.error_code).name)

    def _proven(self, view: View) -> None:
        super()._proven(view)
        if view.unproven_since is not None and view.asked_at >= view.unproven_since:
            view.unproven_since, view.is_outpaced = None, False

    @staticmethod
    def _note_survival(view: View, *, is_join: bool, has_failed: bool) -> None:
        if is_join:
            view.survived = 0.0
        elif not has_failed and view.confirmed_at is not None:
            view.survived = max(view.survived, view.asked_at - view.confirmed_at)
        view.confirmed_at = None if has_failed else view.asked_at

    def connection_closed(self, member: Member, line: int) -> None:
        view = self.of.get(member)
        if view is not None and view.parked_on == line:
            view.confirmed_at = None
        super().connection_closed(member, line)
