"""A member of a classic group: it joins, syncs, sends heartbeats, leaves, and handles its removal from the group.

Owns the state machine of :mod:`.states`. While a JoinGroup or SyncGroup is in flight, the member sends nothing else on
that connection: the broker reads no further request before it has responded. The member calls the methods of its
:class:`~thinconsumer.group.role.Role` in :meth:`ClassicMember.work`; only ``rejoin_reason`` is called in steps. Follows
Java's ``AbstractCoordinator`` and KIP-62, 345, 394, 559, 800 and 814.
"""

import logging
from functools import partial

from ...errors import KafkaError
from ...failures import EXPULSIONS, Action, Scope, rule
from ...network.request import Answer, Request, Target
from ...support.timers import Random
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.leave_group import LeaveGroupRequest
from ...wire.offset_commit import OffsetCommitRequest
from ...wire.sync_group import SyncGroupRequest
from ..coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator, GroupSettings
from ..coordinator_requests import CoordinatorRequests
from ..identity import Identity
from ..membership import Membership, Task
from ..role import Role
from . import requests
from .rebalance_attempt import READY_WITHIN, RebalanceAttempt
from .states import CALLBACKS, CONFIRMING, DONE, JOINING, TRANSITIONS, ClassicMemberEvent, ClassicMemberState

log = logging.getLogger(__name__)

_S = ClassicMemberState
_E = ClassicMemberEvent


class ClassicMember(Membership):
    """Take part in a classic group: send its requests as a manager of the engine; call role methods in :meth:`work`.

    A prepare, revoke_unassigned or lose that raises counts as done, so that the rebalance goes on. If install raises,
    it is called again. If another method of the role raises, the member joins (again) after a backoff.
    """

    _TRANSITIONS, _CALLBACKS = TRANSITIONS, CALLBACKS

    def __init__(
        self, settings: GroupSettings, identity: Identity, role: Role, coordinator: Coordinator, random: Random
    ) -> None:
        super().__init__(settings, identity, ClassicMemberState.UNSUBSCRIBED, coordinator, random)
        self._role = role
        self._rebalances = CoordinatorRequests(self.asker, settings, coordinator, random, MEMBERSHIP)
        self._requests = {JoinGroupRequest: self._rebalances, SyncGroupRequest: self._rebalances}
        #: By API: the lowest version that can be sent, if that is not 0.
        self._lowest = {} if identity.group_instance_id is None else requests.STATIC_SINCE
        self._session = settings.session_timeout_ms / 1000
        self._attempt = RebalanceAttempt("", 0.0)
        self._readiness = coordinator.agenda.alarm()  #: When a leader assigns even if its role is not ready.
        self._rejoin: str | None = None  #: The reason to join again as soon as this rebalance is over.

    def __repr__(self) -> str:
        return f"<ClassicMember {self.identity.member_id or '?'} {self.state.value}>"

    @property
    def rebalancing(self) -> bool:
        """Whether a JoinGroup or SyncGroup is due or in flight: commits of the old generation may be rejected."""
        # After a missed generation, this stays true until the role has dropped the partitions that the member kept.
        return self.state in JOINING or (self._attempt.missed and not self._attempt.is_decoded)

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether a JoinGroup or SyncGroup was written and has no response yet.

        Meanwhile a membership error in an OffsetCommit response is ignored: the response to the JoinGroup or SyncGroup
        tells whether this consumer is still a member.
        """
        return self._rebalances.in_flight is not None and self._rebalances.is_written

    @property
    def delays_group(self) -> bool:
        """Whether the other members may wait for :meth:`work`, in which a leader computes the assignment."""
        return self.state is _S.COMPLETING_REBALANCE

    @property
    def synced_assignment(self) -> bytes | None:
        """The encoded assignment of this generation, until the role has installed it; None if there is none."""
        return self._attempt.assignment if self.state in CONFIRMING and not self.is_settled else None

    def subscribe(self, reason: str) -> None:
        """Join the group, or as a member join it again. In state FATAL this has no effect until :meth:`leave`."""
        if self.state is _S.UNSUBSCRIBED:
            self._begin_anew(_E.SUBSCRIBE, reason, 0.0)
            self._coordinator.want(self.asker)
        elif self.state is _S.LEAVING:
            self._resubscribe = reason
        else:
            self.request_rejoin(reason)

    def request_rejoin(self, reason: str) -> None:
        """Join again (KIP-568), by an unsent JoinGroup or after this rebalance; JoinGroup has ``reason`` (KIP-800)."""
        self._rejoin = reason
        self._coordinator.agenda.touch()
        if self.state is _S.PREPARING_REBALANCE and self._rebalances.in_flight is None:
            self._attempt.restart_join()  # the subscription in the unsent JoinGroup may be outdated

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        if self.is_outside:
            self._resubscribe = None
            return
        if self._sends_leave(leave_group):
            self._start_leave(why, now)
        if self._rebalances.in_flight is not None:
            # Later requests on the connection would wait for the response that the coordinator holds back.
            self.drop_connection(self._rebalances.in_flight.target)
        self._rebalances.in_flight = self._heartbeats.in_flight = None
        self.identity = self.identity.lost()
        self._move(_E.LEAVE)
        self._expulsion = self._rejoin = self.unconfirmed = None
        self._failures.recovered(now)
        self._finish_leave()

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        if self.is_outside or not self._sends_leave(leave_group):
            return None
        return self._coordinator.target(self._leave_channel)

    @property
    def _leave_channel(self) -> str:
        """The connection for LeaveGroup: one on which no unanswered JoinGroup or SyncGroup blocks it."""
        return MEMBERSHIP if self._rebalances.in_flight is None else LEAVING_CONNECTION

    def _sends_leave(self, leave_group: bool | None) -> bool:
        is_told = self.identity.group_instance_id is None if leave_group is None else leave_group
        return is_told and bool(self.identity.member_id)

    def _start_leave(self, reason: str, now: float) -> None:
        message = partial(requests.leave, self.identity, reason)
        lowest = self._lowest.get(LeaveGroupRequest, 0)
        self._start_leave_attempt(LeaveGroupRequest, message, now, self._leave_channel, lowest)

    def _came_back(self, gap: float, now: float) -> None:
        """Give a leader more time for metadata; after a gap longer than the session timeout, withhold records."""
        self._readiness.set(self._readiness.at + gap)
        if gap > self._session and self.identity.is_member:
            self.unconfirmed = f"{gap:.1f} s between polls, session_timeout_ms={self._settings.session_timeout_ms}"
            self._unconfirmed_since = now
            text = (
                f"group {self.identity.group_id}: {self.unconfirmed}: polls get no records until a heartbeat succeeds"
            )
            self._failures.gap(text, now)

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Act on a membership error that a commit under ``identity`` returned.

        The error is ignored if the identity has changed since, and during :attr:`awaits_rebalance_response`.
        """
        if identity != self.identity or not identity.is_member or self.awaits_rebalance_response:
            return
        action = rule("Heartbeat", getattr(error, "code", 0), Scope.GROUP).action
        if action is Action.REJOIN and self.state not in JOINING:
            self._rejoin = self._rejoin or "the group is rebalancing"
        elif action in EXPULSIONS:
            self._failures.note(action, error, OffsetCommitRequest, now)
            self._failures.back_off(now, at_once=True)
            self._expel(action, error)

    def step(self, now: float) -> list[Request]:
        if self._expulsion is not None:
            self._settle()
        found = [self._leave_request(now)] if self._leave_attempt is not None else []
        if self.state is _S.LEAVING:
            self._finish_leave()
        if not self._is_working:
            self._advance(now)
        if self._rebalances.in_flight is not None or self._heartbeats.in_flight is not None:
            self._abandon_if_moved(now)
        if self._leave_attempt is not None:
            found.append(self._leave_request(now))
        if self.state in JOINING and not self._is_working and self._failures.may_send(now):
            found.append(self._join_or_sync(now))
        if self.identity.is_member:
            found.append(self._heartbeat(now))
        return [request for request in found if request is not None]

    def _leave_request(self, now: float) -> Request | None:
        if self._leave_attempt is not None and self._rebalances.in_flight is not None:
            self._leave_attempt.channel = LEAVING_CONNECTION
        return super()._leave_request(now)

    def _abandon_if_moved(self, now: float) -> None:
        """Abandon requests to a former coordinator, which may hold back their responses."""
        heartbeat, request = self._heartbeats.abandon_if_moved(), self._rebalances.abandon_if_moved()
        if heartbeat is not None:
            self.drop_connection(heartbeat.target)
            self._heartbeats.retry.failed(now)
            self._next.set(now)
        if request is not None:
            self.drop_connection(request.target)
            self._join_anew()

    def _answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        if answer.request.api is HeartbeatRequest:
            self._heartbeat_answered(action, error, now)
        else:
            self._join_or_sync_answered(action, error, answer, now)

    def restart(self, now: float) -> None:
        super().restart(now)
        self._rebalances.restart()
        if self.state is _S.PREPARING_REBALANCE:
            self._attempt.restart_join()

    def _begin_anew(self, event: ClassicMemberEvent, reason: str, now: float) -> None:
        self._attempt = RebalanceAttempt(reason, now)
        self._rejoin = None
        self._move(event)

    def _advance(self, now: float) -> None:
        """Make the state transitions that need no response and no :meth:`work`, such as that after the poll timeout."""
        if self._listener_may_have_run:
            self._note_listener(now)
        is_idle = self.identity.is_member and self._rebalances.in_flight is None
        if is_idle and self._overdue.is_over(now):
            self._leave_after_poll_timeout(now)
        # Another rebalance may begin: the last one is over, or its on_partitions_assigned has failed.
        if self.state is _S.STABLE or (self.state is _S.ASSIGNING and self._attempt.install_called):
            reason = self._rejoin
            if reason is None and self.state is _S.STABLE:
                reason = self._role.rejoin_reason(now)
            if reason is not None:
                self._begin_anew(_E.REJOIN, reason, now)
        if self.state is _S.UNJOINED and not self._awaits_poll and self._coordinator.target() is not None:
            self._attempt.started_at = now
            self._move(_E.BEGIN)

    def _leave_after_poll_timeout(self, now: float) -> None:
        why = self._missed_polls(now)
        if self.identity.group_instance_id is None:
            self._start_leave(why, now)
        self._awaits_poll = True
        self._expel(Action.RESET_MEMBER_ID, KafkaError(why), is_expected=True)

    def _finish_leave(self) -> None:
        attempt = self._leave_attempt
        if attempt is not None and (self._resubscribe is None or attempt.in_flight is None):
            return
        self._coordinator.unwant(self.asker)
        self._move(_E.LEFT)
        if self._resubscribe is not None:
            reason, self._resubscribe = self._resubscribe, None
            self.subscribe(reason)

    def _expel(self, action: Action, error: KafkaError, *, is_expected: bool = False) -> None:
        """Drop the generation, and the member id unless ``action`` keeps it; :meth:`_settle` then moves to LOSING."""
        self._note_expulsion(error, is_final=action is Action.GIVE_UP, is_expected=is_expected)
        self.identity = self.identity.behind() if action is Action.RESET_GENERATION else self.identity.lost()
        self._heartbeats.in_flight = None
        if not self._rebalances.is_written:
            self._rebalances.in_flight = None  # abandon a queued request of the ended membership
        self._expulsion = self.unconfirmed = str(error)
        self._settle()

    def _settle(self) -> bool:
        if self._expulsion is None or self._is_working:
            return False
        self._attempt.reason, self._expulsion = self._expulsion, None
        self._move(_E.EXPELLED)
        return True

    def _join_or_sync(self, now: float) -> Request | None:
        """Return the JoinGroup or SyncGroup that is due, if any; its member id is filled in when it is written."""
        attempt, kind, timeout = self._attempt, self._role.protocol_type, self._settings.request_timeout_ms / 1000
        protocols, plan = attempt.protocols, attempt.plan
        if not self._rebalances.is_open:
            return None
        if self.state is _S.PREPARING_REBALANCE and protocols is not None:
            return self._rebalances.send(
                JoinGroupRequest,
                lambda version: requests.join(self._settings, self.identity, kind, protocols, attempt.reason),
                now,
                deadline=now + max(timeout, self._poll_interval + requests.JOIN_GRACE),
                min_version=self._lowest.get(JoinGroupRequest, 0),
                max_wait=self._poll_interval,  # the coordinator waits for all members to join
            )
        if self.state is _S.COMPLETING_REBALANCE and plan is not None:
            return self._rebalances.send(
                SyncGroupRequest,
                lambda version: requests.sync(self.identity, kind, attempt.protocol, plan),
                now,
                min_version=self._lowest.get(SyncGroupRequest, 0),
                max_wait=0.0 if attempt.leads else timeout,  # a follower's response waits for the leader's SyncGroup
            )
        return None

    def _heartbeat(self, now: float) -> Request | None:
        # The coordinator reads no request behind a JoinGroup or SyncGroup until it has responded.
        if self._rebalances.in_flight is not None or not self._next.is_over(now) or not self._heartbeats.may_send(now):
            return None
        # A response after the session timeout would be too late.
        timeout = min(self._settings.request_timeout_ms / 1000, self._session)
        lowest = self._lowest.get(HeartbeatRequest, 0)
        return self._send_heartbeat(
            HeartbeatRequest, lambda version: requests.heartbeat(self.identity), now, timeout, lowest
        )

    def _join_anew(self) -> None:
        """Go back to PREPARING_REBALANCE, where JoinGroup is due."""
        self._attempt.restart_join()
        if self.state is _S.COMPLETING_REBALANCE:
            self._move(_E.RETRY)

    def _join_or_sync_answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        attempt, is_join = self._attempt, answer.request.api is JoinGroupRequest
        if action is Action.ACCEPT:
            offered = dict(attempt.protocols or ()) if is_join else {attempt.protocol}
            error = requests.unusable(answer, self._role.protocol_type, offered)
        if error is not None:
            self._failed(Action.RAISE if action is Action.ACCEPT else action, error, answer, now)
            return
        timing = self.stats.joins if is_join else self.stats.syncs
        timing.add(now - self._rebalances.sent_at)
        self._heartbeats.restart()
        self._next.set(now + self.heartbeat_interval)  # the coordinator has restarted the session timeout
        if is_join:
            attempt.joined(self.identity, answer.response)
            self._readiness.set(now + READY_WITHIN)
            self.identity = self.identity.joined(answer.response.generation_id, answer.response.member_id)
        else:
            attempt.assignment, attempt.synced_at = bytes(answer.response.assignment), now
            self._failures.recovered(now)
        self._move(_E.JOINED if is_join else _E.SYNCED)
        self._note_accepted(self._rebalances.sent_at, now)

    def _failed(self, action: Action, error: KafkaError, answer: Answer, now: float) -> None:
        """Handle a failed JoinGroup or SyncGroup.

        Take the member id that the coordinator gives, drop the membership, or join again, mostly after a backoff.
        """
        if action is Action.USE_MEMBER_ID and answer.request.api is JoinGroupRequest and answer.response.member_id:
            if self.identity.member_id:
                self._failures.back_off(now)  # MEMBER_ID_REQUIRED, although the JoinGroup had a member id
            # The encoded protocols of this attempt are kept: the next JoinGroup repeats them, under the new member id.
            self.identity = self.identity.named(answer.response.member_id)
            return
        self.stats.failed += 1
        self._failures.note(action, error, answer.request.api, now)
        if action in EXPULSIONS:
            self._failures.back_off(now, at_once=True)
            self._expel(action, error)
            return
        self._failures.back_off(now, at_once=action is Action.REJOIN, at_maximum=action is Action.RAISE)
        self._join_anew()

    def _heartbeat_answered(self, action: Action, error: KafkaError | None, now: float) -> None:
        sent_at = self._heartbeats.sent_at
        if error is None or action is Action.REJOIN:
            self._heartbeats.retry.succeeded()
            self.stats.heartbeat.add(now - sent_at)
            self._note_accepted(sent_at, now)
            self._failures.recovered(now, HeartbeatRequest)
            if error is None and self.state in CONFIRMING:
                self._attempt.is_confirmed = True
                self._failures.heartbeat_succeeded()
            elif error is not None and self.state not in JOINING:
                if self.state in CONFIRMING and not self._attempt.is_confirmed:
                    # The generation ended before its first successful heartbeat, which counts as a failed join. The
                    # backoff runs from the SyncGroup response on.
                    self._failures.back_off(self._attempt.synced_at, at_once=True)
                self._rejoin = self._rejoin or "the group is rebalancing"
            return
        self._heartbeats.retry.failed(now)
        if action is not Action.RAISE:
            self._next.set(now)
        if action is Action.RAISE or (action in EXPULSIONS and self._rebalances.in_flight is None):
            self._failures.note(action, error, HeartbeatRequest, now)
        if action in EXPULSIONS and self._rebalances.in_flight is None:
            self._failures.back_off(now, at_once=True)
            self._expel(action, error)

    def _task(self, now: float, *, every: bool) -> Task | None:
        attempt, is_free = self._attempt, self._rebalances.in_flight is None
        if self.state is _S.PREPARING_REBALANCE:
            due = is_free and attempt.protocols is None and self._failures.may_send(now)
            return self._ask_protocols if due and self._coordinator.target() is not None else None
        if self.state is _S.COMPLETING_REBALANCE:
            return self._plan if is_free and attempt.plan is None else None
        return self._call_role if every and self.state in CALLBACKS else None

    def _ask_protocols(self, now: float) -> bool:
        self._attempt.reason, self._rejoin = self._rejoin or self._attempt.reason, None
        self._attempt.protocols = list(self._role.protocols())
        return True

    def _plan(self, now: float) -> bool:
        attempt, role = self._attempt, self._role
        is_ready = role.ready_to_assign(attempt.protocol, attempt.members, now)
        if not is_ready and self._readiness.is_ahead(now):
            return False
        shares = role.perform_assignment(self.identity.member_id, attempt.protocol, attempt.members, skip=attempt.skips)
        attempt.plan = {} if attempt.skips else {member: bytes(share) for member, share in shares.items()}
        return True

    def _call_role(self, now: float) -> bool:
        """Call the role method of a state in :data:`CALLBACKS`, which may call the listener."""
        role, attempt = self._role, self._attempt
        if self.state is _S.REVOKING_BEFORE_JOIN:
            return role.prepare(self.identity, now)
        if self.state is _S.REVOKING_AFTER_SYNC:
            if not attempt.is_decoded:
                role.accept(self.identity, attempt.protocol, attempt.assignment, now, missed=attempt.missed)
                attempt.is_decoded = True
            return role.revoke_unassigned(self.identity, now)
        if self.state is _S.ASSIGNING:
            attempt.install_called = True
            return role.install(self.identity, now)
        return role.lose(attempt.reason, now)

    def _worked(self, failure: Exception | None, now: float, *, has_moved: bool) -> None:
        if has_moved or (failure is not None and not self._goes_on(now)):
            return  # has_moved: the role method of the new state has not run yet
        event = DONE.get(self.state)
        if event is _E.LOST:
            self.unconfirmed = None
            if self._failures.is_final:
                self._move(_E.GIVE_UP)
                self._coordinator.unwant(self.asker)
            else:
                self._begin_anew(event, self._attempt.reason, now)
        elif event is not None:
            self._move(event)
            if event is _E.ASSIGNED:
                self._rebalanced(now)

    def _goes_on(self, now: float) -> bool:
        """Return whether a role method that raised counts as done, since the rebalance waits for it.

        If not, the next :meth:`work` repeats ``install``; after any other method, the member joins after a backoff.
        """
        if self.state is _S.REVOKING_AFTER_SYNC and not self._attempt.is_decoded:
            # ``accept`` has raised. Without another join, no member would read the partitions in the assignment.
            self._failures.back_off(now)
            self._begin_anew(_E.REJOIN, "its assignment could not be decoded", now)
        elif self.state in JOINING:
            self._failures.back_off(now)
            if self.state is _S.COMPLETING_REBALANCE:
                self._join_anew()
        return self.state in (_S.REVOKING_BEFORE_JOIN, _S.REVOKING_AFTER_SYNC, _S.LOSING)

    def _rebalanced(self, now: float) -> None:
        took = now - self._attempt.started_at
        self.stats.rebalances.add(took)
        self.stats.rebalanced_at = now
        text = "group %s: rebalanced in %.3f s, generation %d%s, because %s: %s"
        identity, leading = self.identity, ", leading" if self._attempt.leads else ""
        values = identity.group_id, took, identity.generation_id, leading, self._attempt.reason, self._role.summary
        self._failures.log_limited(logging.INFO, text, *values)
