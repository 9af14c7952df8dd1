"""Checks the member id and generation in group requests, and that none follows an unanswered JoinGroup or SyncGroup."""

from collections.abc import Sequence
from dataclasses import dataclass

from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer_testing.simulation.checkers.base import Checker, Member
from thinconsumer_testing.simulation.client_tap import SentRequest

from .views import View, Views

#: Requests that the coordinator may leave unanswered until other members join.
HELD_BACK = {JoinGroupRequest.API_KEY: "JoinGroup", SyncGroupRequest.API_KEY: "SyncGroup"}


@dataclass(eq=False)
class IdentityChecker(Checker):
    """Checks that Heartbeat, SyncGroup and OffsetCommit carry the member id and generation of the last response.

    JoinGroup must keep the member id, unless the coordinator has rejected the id. No request may follow an unanswered
    JoinGroup or SyncGroup on the same connection: the broker would not handle it before that one is answered.
    """

    views: Views

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        view = self.views.of.get(member)
        parked = next((HELD_BACK[other.api_key] for other in before if other.api_key in HELD_BACK), None)
        if parked is not None:
            name = "a request" if sent.message is None else type(sent.message).__name__
            self.accuse(f"{member} writes {name} to a connection on which a {parked} is unanswered")
        if view is None:
            return
        request = sent.message
        if isinstance(request, JoinGroupRequest):
            self._check_join(member, view, request)
        elif isinstance(request, HeartbeatRequest):
            self._check_identity(member, view, "a heartbeat", request.member_id, request.generation_id)
        elif isinstance(request, SyncGroupRequest):
            self._check_identity(member, view, "a SyncGroup", request.member_id, request.generation_id)
        elif isinstance(request, OffsetCommitRequest) and request.topics:
            stamp = request.member_id, request.generation_id_or_member_epoch
            self._check_identity(member, view, "a commit", *stamp)

    def _check_join(self, member: Member, view: View, request: JoinGroupRequest) -> None:
        who = request.member_id
        if self._has_just_changed(view) and who == view.before[0]:
            return
        if who in view.unknown:
            self.accuse(f"{member} joins with member id {who}, which the coordinator rejected with UNKNOWN_MEMBER_ID")
        elif who != view.member_id and who:
            self.accuse(f"{member} joins with member id {who}, but its id is {view.member_id!r}")
        elif not who and view.member_id and not view.may_forget:
            self.accuse(f"{member} joins without its member id {view.member_id}: the group would wait for the old id")

    def _has_just_changed(self, view: View) -> bool:
        """Return whether member id or generation changed just now: a request may have been built before the change."""
        return view.changed_at == self.views.now()

    def _check_identity(self, member: Member, view: View, what: str, member_id: str, generation: int) -> None:
        if not member_id or generation < 0:
            self.accuse(f"{member} sends {what} with member id {member_id!r} and generation {generation}: not a member")
        elif (member_id, generation) != (view.member_id, view.generation):
            if self._has_just_changed(view) and (member_id, generation) == view.before:
                return
            own = f"{view.member_id!r} and {view.generation}"
            why = f", since {view.expelled}" if view.expelled else ""
            self.accuse(f"{member} sends {what} with member id and generation {member_id!r} and {generation}, but has"
                        f" {own}{why}")  # fmt: skip
