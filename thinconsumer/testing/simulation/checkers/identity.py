"""Checks member ids and generations in group requests, and that none follows an unanswered JoinGroup or SyncGroup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....wire.heartbeat import HeartbeatRequest
from ....wire.join_group import JoinGroupRequest
from ....wire.offset_commit import OffsetCommitRequest
from ....wire.sync_group import SyncGroupRequest
from ..client_tap import SentRequest
from .base import Checker, Member
from .views import View, Views

PARKED = {JoinGroupRequest.API_KEY: "JoinGroup", SyncGroupRequest.API_KEY: "SyncGroup"}


@dataclass(eq=False)
class IdentityChecker(Checker):
    """Checks that Heartbeat, SyncGroup and OffsetCommit carry the member id and generation of the last response.

    JoinGroup must keep the member id, unless the coordinator rejected it. No request may follow an unanswered JoinGroup
    or SyncGroup on its connection: the broker would not handle it before answering that one.
    """

    views: Views

    def request_written(self, member: Member, line: int, sent: SentRequest, before: Sequence[SentRequest]) -> None:
        view = self.views.of.get(member)
        parked = next((PARKED[other.api_key] for other in before if other.api_key in PARKED), None)
        if parked is not None:
            name = "a request" if sent.message is None else type(sent.message).__name__
            self.accuse(f"{member} says {name} behind a {parked} that is unanswered, on the same connection")
        if view is None:
            return
        request = sent.message
        if isinstance(request, JoinGroupRequest):
            self._check_join(member, view, request)
        elif isinstance(request, HeartbeatRequest):
            self._check_stamp(member, view, "a heartbeat", request.member_id, request.generation_id)
        elif isinstance(request, SyncGroupRequest):
            self._check_stamp(member, view, "a SyncGroup", request.member_id, request.generation_id)
        elif isinstance(request, OffsetCommitRequest) and request.topics:
            stamp = request.member_id, request.generation_id_or_member_epoch
            self._check_stamp(member, view, "a commit", *stamp)

    def _check_join(self, member: Member, view: View, request: JoinGroupRequest) -> None:
        who = request.member_id
        if self._is_of_this_moment(view) and who == view.before[0]:
            return
        if who in view.unknown:
            self.accuse(f"{member} joins as {who}, of whom the coordinator said that it does not know it")
        elif who != view.member_id and who:
            self.accuse(f"{member} joins as {who}, and was told that it is {view.member_id or 'nobody'}")
        elif not who and view.member_id and not view.may_forget:
            self.accuse(f"{member} joins as nobody, although its id, {view.member_id}, holds: it leaves a ghost behind")

    def _is_of_this_moment(self, view: View) -> bool:
        """Return whether the member id or generation changed just now: the request may have been queued before."""
        return view.changed_at == self.views.now()

    def _check_stamp(self, member: Member, view: View, what: str, member_id: str, generation: int) -> None:
        if not member_id or generation < 0:
            self.accuse(f"{member} sends {what} without an identity: id {member_id!r}, generation {generation}")
        elif (member_id, generation) != (view.member_id, view.generation):
            if self._is_of_this_moment(view) and (member_id, generation) == view.before:
                return
            told = f"{view.member_id or 'nobody'} of generation {view.generation}"
            why = f" ({view.expelled})" if view.expelled else ""
            self.accuse(f"{member} sends {what} as {member_id} of generation {generation}, and is {told}{why}")
