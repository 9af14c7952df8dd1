"""A member of a classic group: it joins, syncs, sends heartbeats, leaves, and handles its removal from the group.

Owns the state machine of :mod:`.states`. While a JoinGroup or SyncGroup is in flight, the member sends nothing else on
that connection: the broker reads no further request before it has responded. The member calls the methods of its
:class:`~thinconsumer.group.role.Role` in :meth:`ClassicMember.work`, never in a step. Follows Java's
``AbstractCoordinator`` and KIP-62, 345, 394, 559, 800 and 814.
"""

import logging
from collections.abc import Callable

from ...connection.request import Answer, Request, Target
from ...errors import KafkaError
from ...failures import EXPULSIONS, Action, Scope, rule
from ...state_machine import next_state
from ...timers import NEVER, Random
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.offset_commit import OffsetCommitRequest
from ...wire.sync_group import SyncGroupRequest
from ..coordinator import Coordinator
from ..identity import Identity
from ..join_failures import JoinFailurePolicy
from ..poll_timer import PollTimer
from ..role import Role
from ..settings import GroupSettings
from ..stats import MemberStats
from ..verdicts import judge
from .coordinator_channel import CoordinatorChannel
from .rebalance_attempt import RebalanceAttempt
from .states import AFTER_EXCEPTION, CALLBACKS, CONFIRMING, JOINING, TRANSITIONS, MemberEvent, MemberState
from .verdicts import unusable_join, unusable_sync

log = logging.getLogger(__name__)

_S = MemberState
_E = MemberEvent

#: Seconds before a role method is called again that returned False (not done yet: a revocation may wait for a commit).
#: Meanwhile, steps of the engine send requests and receive responses.
PAUSE = 0.01


class ClassicMember:
    """Take part in a classic group: send its requests as a manager of the engine; call role methods in :meth:`work`.

    Implements :class:`~thinconsumer.group.membership.Membership`.
    """

    asker = "member"

    def __init__(
        self, settings: GroupSettings, identity: Identity, role: Role, coordinator: Coordinator, random: Random
    ) -> None:
        self.state = MemberState.UNSUBSCRIBED
        self.identity = identity
        #: The reason for polls to return no records: the membership may have ended, so other members may own the
        #: partitions by now. None if polls may return records.
        self.held: str | None = None
        self.stats = MemberStats()
        self._settings = settings
        self._role = role
        self._coordinator = coordinator
        self._join_failures = JoinFailurePolicy(settings, identity.group_id, random)
        self._channel = CoordinatorChannel(self.asker, settings, coordinator, random, lambda: self.identity)
        self._poll_timer, self._attempt = PollTimer(settings), RebalanceAttempt("", 0.0)
        self._rejoin: str | None = None  #: The reason to join again as soon as this rebalance is over.
        self._resubscribe: str | None = None  #: The reason to join again as soon as LeaveGroup is done.
        self._awaits_poll = False
        #: The end of the last gap between calls longer than the session timeout. Only a response to a request sent
        #: after this moment proves that the coordinator has kept the member in the group.
        self._unconfirmed_since = -NEVER
        self._expulsion: str | None = None  #: Why the membership has ended, until the state is LOSING; else None.
        self._in_role_method = False
        self._listener_may_have_run = False  #: Whether a rebalance listener may have run since the last step.
        #: Closes a connection on which the coordinator holds back a response that the member no longer needs.
        self.drop_connection: Callable[[Target], None] = lambda target: None
        self._transitions = 0  #: Number of transitions: :meth:`work` detects one made while a role method ran.
        self._call_again_at = -NEVER  #: When to call a role method again that returned False.
        #: The role method that is due in each state, for those methods that may call the rebalance listener.
        self._tasks: dict[MemberState, Callable[[float], MemberEvent | None]] = {
            _S.REVOKING_BEFORE_JOIN: lambda now: self._unless_done(role.prepare(self.identity, now), _E.PREPARED, now),
            _S.REVOKING_AFTER_SYNC: self._revoke,
            _S.ASSIGNING: self._install,
            _S.LOSING: lambda now: self._unless_done(role.lose(self._attempt.reason, now), _E.LOST, now),
        }

    def __repr__(self) -> str:
        return f"<ClassicMember {self.identity.member_id or '?'} {self.state.value}>"

    @property
    def error(self) -> KafkaError | None:
        """The last response's error, which polls raise once, if it lasts until the application acts; else None."""
        return self._join_failures.error

    @property
    def rebalancing(self) -> bool:
        """Whether a JoinGroup or SyncGroup is due or in flight: commits of the old generation may be rejected."""
        return self.state in JOINING or self._attempt.drops_kept_partitions

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether a JoinGroup or SyncGroup is in flight.

        If so, a membership error in an OffsetCommit response is ignored, as the response to the JoinGroup or SyncGroup
        tells whether this consumer is still a member.
        """
        requests = self._channel.rebalances
        return requests.in_flight is not None and requests.is_written

    @property
    def is_outside(self) -> bool:
        """Whether the member is in no group, or about to leave it."""
        return self.state in (_S.UNSUBSCRIBED, _S.LEAVING)

    @property
    def is_settled(self) -> bool:
        """Whether the member has its assignment, and no rebalance is in progress."""
        return self.state is _S.STABLE

    @property
    def callback(self) -> str | None:
        """The listener's callback that :meth:`work` calls next: revoked, assigned or lost; None if it calls none."""
        return CALLBACKS.get(self.state)

    @property
    def delays_group(self) -> bool:
        """Whether the other members wait for :meth:`work`: for the leader's assignment, or this member's SyncGroup."""
        return self.state is _S.COMPLETING_REBALANCE

    @property
    def heartbeat_interval(self) -> float:
        """Seconds between two heartbeats."""
        return self._channel.heartbeats.interval

    @property
    def has_left(self) -> bool:
        """Whether the member is in no group and has no LeaveGroup to send."""
        return self.state is _S.UNSUBSCRIBED

    @property
    def synced_assignment(self) -> bytes | None:
        """The encoded assignment of this generation, until the role has installed it; None if there is none."""
        return self._attempt.assignment if self.state in CONFIRMING and not self.is_settled else None

    @property
    def has_sent_leave(self) -> bool:
        """Whether no LeaveGroup remains to be written. It may have no response yet."""
        return self._channel.leave_attempt is None or self._channel.leave_attempt.is_written

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
        """Join again (KIP-568), after any rebalance in progress; JoinGroup carries the ``reason`` (KIP-800)."""
        self._rejoin = reason
        if self.state is _S.PREPARING_REBALANCE and self._channel.rebalances.in_flight is None:
            self._attempt.restart_join()  # the subscription in the unsent JoinGroup may be outdated

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        """Leave the group without callbacks: the caller revokes the owned partitions first.

        ``leave_group`` says whether to send LeaveGroup; by default a dynamic member does, a static one does not
        (KIP-345, KIP-1092).
        """
        if self.state in (_S.UNSUBSCRIBED, _S.LEAVING):
            self._resubscribe = None
            return
        if self._channel.sends_leave(leave_group):
            self._channel.start_leave(why, now)
        self._channel.abandon_rebalance_request()
        self._channel.heartbeats.in_flight = None
        self.identity = self.identity.lost()
        self._move(_E.LEAVE)
        self._expulsion = self._rejoin = self.held = None
        self._join_failures.recovered(now)
        self._finish_leave()

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        """Return the connection that the request of :meth:`leave` would use now; None if there would be no request."""
        return None if self.is_outside else self._channel.leave_target(leave_group)

    def polled(self, now: float) -> bool:
        """Note a ``poll``. Return whether the member waited for this poll to join again after a poll timeout."""
        self._poll_timer.polled(now)
        waited, self._awaits_poll = self._awaits_poll, False
        return waited

    def withholds(self, *, may_wait: bool) -> bool:
        return self.held is not None

    def called(self, now: float) -> bool:
        """Note a call of the application, and react to a long gap since the previous call.

        If the gap is longer than the session timeout, the coordinator may have removed the member: polls return no
        records until a heartbeat succeeds.

        Return whether the gap changed a deadline, so that a step is due.
        """
        gap = self._poll_timer.called(now)
        if gap <= self._channel.heartbeats.interval:
            return False
        self._attempt.ready_by += gap
        if gap <= self._channel.heartbeats.session or not self.identity.is_member:
            return True
        self.held = f"{gap:.1f} s between polls, session_timeout_ms={self._settings.session_timeout_ms}"
        self._unconfirmed_since = now
        log.warning("group %s: %s: polls get no records until a heartbeat succeeds", self.identity.group_id, self.held)
        return True

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Act on a membership error that a commit under ``identity`` returned, unless the identity has changed.

        The error is ignored while a JoinGroup or SyncGroup is in flight: its response tells whether this consumer is
        still a member.
        """
        if identity != self.identity or not identity.is_member or self.awaits_rebalance_response:
            return
        action = rule("Heartbeat", getattr(error, "code", 0), Scope.GROUP).action
        if action is Action.REJOIN and self.state not in JOINING:
            self._rejoin = self._rejoin or "the group is rebalancing"
        elif action in EXPULSIONS:
            self._join_failures.note(action, error, OffsetCommitRequest, now)
            self._join_failures.back_off(now, at_once=True)
            self._expel(action, error, now)

    def step(self, now: float) -> list[Request]:
        """Return the requests that are due."""
        self._settle()
        leave_request = self._channel.leave_request(now)  # may end the leave attempt, which _finish_leave() checks
        if self.state is _S.LEAVING:
            self._finish_leave()
        if not self._in_role_method:
            self._advance(now)
        if self._channel.abandon_if_moved(now):
            self._join_anew()
        found = (leave_request or self._channel.leave_request(now), self._join_or_sync(now), self._heartbeat(now))
        connections_to_drop, self._channel.connections_to_drop = self._channel.connections_to_drop, []
        for target in connections_to_drop:
            self.drop_connection(target)
        return [request for request in found if request is not None]

    def wake_at(self, now: float) -> float:
        """Return when :meth:`step` or a role method is due next, if no response arrives before."""
        due = [self._call_again_at if self._call_again_at > now else NEVER]
        if self._channel.leave_attempt is not None:
            due.append(self._channel.leave_attempt.wake_at())
        if self._channel.rebalances.in_flight is None and self.identity.is_member and not self._in_role_method:
            due.append(self._poll_timer.overdue_at())
        if self._channel.rebalances.is_open:
            due += self._wakes(now)
        return max(now, min(due))

    def _wakes(self, now: float) -> list[float]:
        """Return when the next requests and transitions are due, if no JoinGroup or SyncGroup is in flight."""
        due = [self._channel.heartbeats.due_at() if self.identity.is_member else NEVER]
        if self.state is _S.UNJOINED and not self._awaits_poll and not self._in_role_method:
            due.append(now)
        if self._rejoin is not None and self._may_rejoin():
            due.append(now)
        attempt, not_before = self._attempt, self._join_failures.not_before
        if self.state is _S.PREPARING_REBALANCE and (attempt.protocols is not None or now < not_before):
            due.append(not_before)
        if self.state is _S.COMPLETING_REBALANCE and (attempt.plan is not None or now < attempt.ready_by):
            due.append(now if attempt.plan is not None else attempt.ready_by)
        return due

    def handle(self, answer: Answer, now: float) -> None:
        """Process a response of the coordinator; drop the response to an abandoned request."""
        if not self._channel.take(answer):
            return
        action, error = judge(answer, self.identity.group_id)
        self._coordinator.report(action, error, answer, now)
        if answer.request.api in (JoinGroupRequest, SyncGroupRequest):
            self._join_or_sync_answered(action, error, answer, now)
        elif answer.request.api is HeartbeatRequest:
            self._heartbeat_answered(action, error, now)
        else:
            again = action in (Action.FIND_COORDINATOR, Action.WAIT_FOR_COORDINATOR, Action.RETRY)
            self._channel.leave_answered(now, again=again)

    def restart(self, now: float) -> None:
        """Send the requests in flight again: the engine restart closed all connections, so no response can arrive."""
        self._in_role_method = False
        self._channel.restart()
        if self.state is _S.PREPARING_REBALANCE:
            self._attempt.restart_join()

    def _move(self, event: MemberEvent) -> None:
        after = next_state(TRANSITIONS, self.state, event, self)
        states = self.state.value, after.value, event.value
        log.debug("group %s: member state %s -> %s (%s)", self.identity.group_id, *states)
        self._transitions += 1
        self.state = after

    def _begin_anew(self, event: MemberEvent, reason: str, now: float) -> None:
        self._attempt = RebalanceAttempt(reason, now)
        self._rejoin = None
        self._move(event)

    def _advance(self, now: float) -> None:
        """Make the state transitions that need neither a response nor a role method, such as the poll timeout."""
        if self._listener_may_have_run:
            self._listener_may_have_run = False
            self._poll_timer.polled(now)  # max_poll_interval_ms does not limit a listener, which runs inside poll
        is_idle = self.identity.is_member and self._channel.rebalances.in_flight is None
        if is_idle and now >= self._poll_timer.overdue_at():
            self._leave_after_poll_timeout(now)
        if self._may_rejoin():
            reason = self._rejoin
            if reason is None and self.state is _S.STABLE:
                reason = self._role.rejoin_reason(now)
            if reason is not None:
                self._begin_anew(_E.REJOIN, reason, now)
        if self.state is _S.UNJOINED and not self._awaits_poll and self._coordinator.target() is not None:
            self._attempt.started_at = now
            self._move(_E.BEGIN)

    def _may_rejoin(self) -> bool:
        """Return whether another rebalance may begin: the last is over, or its on_partitions_assigned has failed."""
        done = self.state is _S.STABLE or (self.state is _S.ASSIGNING and self._attempt.install_called)
        return done and not self._in_role_method

    def _finish_leave(self) -> None:
        leave_attempt = self._channel.leave_attempt
        said = (
            leave_attempt is None
            or leave_attempt.is_over
            or (self._resubscribe is not None and leave_attempt.in_flight is not None)
        )
        if not said:
            return
        self._coordinator.unwant(self.asker)
        self._move(_E.LEFT)
        if self._resubscribe is not None:
            reason, self._resubscribe = self._resubscribe, None
            self.subscribe(reason)

    def _leave_after_poll_timeout(self, now: float) -> None:
        """Leave the group because ``max_poll_interval_ms`` has passed without a poll; the next poll joins again."""
        limit = f"max_poll_interval_ms={self._settings.max_poll_interval_ms}"
        why = f"{self._poll_timer.seconds_since_poll(now):.1f} s between polls, {limit}"
        log.warning("group %s: %s: left the group; the next poll joins again", self.identity.group_id, why)
        if self.identity.group_instance_id is None:
            self._channel.start_leave(why, now)
        self._awaits_poll = True
        self._expel(Action.RESET_MEMBER_ID, KafkaError(why), now, said=True)

    def _expel(self, action: Action, error: KafkaError, now: float, *, said: bool = False) -> None:
        """Drop the generation and, if it is invalid, the member id; :meth:`_settle` then moves to LOSING."""
        group_id = self.identity.group_id
        said = said or self.held is not None or not self.identity.is_member
        self.identity = self.identity.behind() if action is Action.RESET_GENERATION else self.identity.lost()
        self._channel.withdraw_unwritten()
        self._expulsion = self.held = str(error)
        self.stats.expulsions += 1
        if action is not Action.GIVE_UP:
            level = logging.INFO if said else logging.WARNING
            self._join_failures.log_limited(level, "group %s: expelled: %s", group_id, error)
        self._settle()

    def _settle(self) -> None:
        """Move to LOSING after an expulsion, once no role method is running."""
        if self._expulsion is not None and not self._in_role_method:
            self._attempt.reason = self._expulsion
            self._expulsion = None
            self._move(_E.EXPELLED)

    def _join_or_sync(self, now: float) -> Request | None:
        if self._in_role_method or now < self._join_failures.not_before:
            return None
        if self.state is _S.PREPARING_REBALANCE and self._attempt.protocols is not None:
            return self._channel.join(self._role.protocol_type, self._attempt, now)
        if self.state is _S.COMPLETING_REBALANCE and self._attempt.plan is not None:
            return self._channel.sync(self._role.protocol_type, self._attempt, now)
        return None

    def _heartbeat(self, now: float) -> Request | None:
        request = self._channel.heartbeat(now) if self.identity.is_member else None
        if request is not None:
            self.stats.heartbeats += 1
            self.stats.heartbeat_at = now
        return request

    def _join_anew(self) -> None:
        """Go back to PREPARING_REBALANCE, where JoinGroup is due."""
        self._attempt.restart_join()
        if self.state is _S.COMPLETING_REBALANCE:
            self._move(_E.RETRY)

    def _join_or_sync_answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        attempt, protocol_type = self._attempt, self._role.protocol_type
        is_join = answer.request.api is JoinGroupRequest
        if action is Action.ACCEPT and is_join:
            error = unusable_join(answer, protocol_type, dict(attempt.protocols or ()))
        elif action is Action.ACCEPT:
            error = unusable_sync(answer, protocol_type, attempt.protocol)
        if error is not None:
            self._failed(Action.RAISE if action is Action.ACCEPT else action, error, answer, now)
            return
        timing = self.stats.joins if is_join else self.stats.syncs
        timing.add(now - self._channel.rebalances.sent_at)
        self._channel.heartbeats.session_restarted(now)
        if is_join:
            attempt.joined(self.identity, answer.response, now)
            self.identity = self.identity.joined(answer.response.generation_id, answer.response.member_id)
        else:
            attempt.assignment, attempt.synced_at = bytes(answer.response.assignment), now
            self._join_failures.recovered(now)
        self._move(_E.JOINED if is_join else _E.SYNCED)
        self._note_accepted(self._channel.rebalances.sent_at, now)

    def _failed(self, action: Action, error: KafkaError, answer: Answer, now: float) -> None:
        """Handle a failed JoinGroup or SyncGroup: join again after a backoff, or drop the membership."""
        if action is Action.USE_MEMBER_ID and answer.request.api is JoinGroupRequest and answer.response.member_id:
            if self.identity.member_id:
                self._join_failures.back_off(now)  # MEMBER_ID_REQUIRED, although the JoinGroup had a member id
            # The encoded protocols of this attempt are kept: the next JoinGroup repeats them, under the new member id.
            self.identity = self.identity.named(answer.response.member_id)
            return
        self.stats.failed += 1
        self._join_failures.note(action, error, answer.request.api, now)
        if action in EXPULSIONS:
            self._join_failures.back_off(now, at_once=True)
            self._expel(action, error, now)
            return
        self._join_failures.back_off(now, at_once=action is Action.REJOIN, at_maximum=action is Action.RAISE)
        self._join_anew()

    def _heartbeat_answered(self, action: Action, error: KafkaError | None, now: float) -> None:
        sent_at = self._channel.heartbeats.sent_at
        if error is None or action is Action.REJOIN:
            self._channel.heartbeats.retry.succeeded()
            self.stats.heartbeat.add(now - sent_at)
            self._note_accepted(sent_at, now)
            self._join_failures.recovered(now, HeartbeatRequest)
            if error is None and self.state in CONFIRMING:
                self._attempt.is_confirmed = True
                self._join_failures.heartbeat_succeeded()
            elif error is not None and self.state not in JOINING:
                if self.state in CONFIRMING and not self._attempt.is_confirmed:
                    # The generation ended before its first successful heartbeat, so this counts as a failed join. The
                    # backoff starts at the SyncGroup response, so the time that has passed since then is part of it.
                    self._join_failures.back_off(self._attempt.synced_at, at_once=True)
                self._rejoin = self._rejoin or "the group is rebalancing"
            return
        self._channel.heartbeats.failed(now, after_interval=action is Action.RAISE)
        if action is Action.RAISE or (action in EXPULSIONS and self._channel.rebalances.in_flight is None):
            self._join_failures.note(action, error, HeartbeatRequest, now)
        if action in EXPULSIONS and self._channel.rebalances.in_flight is None:
            self._join_failures.back_off(now, at_once=True)
            self._expel(action, error, now)

    def _note_accepted(self, sent_at: float, now: float) -> None:
        """Note that the coordinator accepted the member in a request sent at ``sent_at``.

        If the request was sent after the last gap longer than the session timeout, polls may return records again.
        """
        self.stats.answered_at = now
        if sent_at >= self._unconfirmed_since:
            self.held = None

    def has_work(self, now: float, *, every: bool = True) -> bool:
        """Return whether a role method is due.

        Without ``every``, count only the methods that JoinGroup and SyncGroup need (to encode the subscription and to
        compute the assignment), not those that may call the rebalance listener.
        """
        return not self._in_role_method and now >= self._call_again_at and self._task(now, every=every) is not None

    def work(self, now: float, *, every: bool = True) -> bool:
        """Call the role method that is due, which may call the listener or assignor.

        Return True unless no method was due, or the method is not done and is called again after :data:`PAUSE`.

        Raises:
            Exception: raised by the role. A prepare, revoke or lose that raises counts as done, so that the rebalance
                goes on. After a failed perform_assignment the member joins again, after a backoff. A failed install is
                repeated by the next call.
        """
        task = self._task(now, every=every)
        if task is None or self._in_role_method:
            return False
        before = self._transitions
        self._listener_may_have_run = every
        failure: Exception | None = None
        event: MemberEvent | None = None
        self._in_role_method = True
        try:
            event = task(now)
        except Exception as error:  # noqa: BLE001 - from a listener or assignor; raised again below
            failure = error
        finally:
            self._in_role_method = False
        if self._expulsion is not None:
            self._settle()
        elif self._transitions == before:  # no call inside the role method, such as leave(), has changed the state
            if failure is not None:
                event = self._after_failure(now)
            if event is not None:
                self._finish(event, now)
        if failure is not None:
            raise failure
        return self._call_again_at <= now

    def _task(self, now: float, *, every: bool) -> Callable[[float], MemberEvent | None] | None:
        """Return the role method that is due, or None."""
        if self.state is _S.PREPARING_REBALANCE:
            due = self._channel.rebalances.in_flight is None and self._attempt.protocols is None
            due = due and now >= self._join_failures.not_before
            return self._ask_protocols if due and self._coordinator.target() is not None else None
        if self.state is _S.COMPLETING_REBALANCE:
            due = self._channel.rebalances.in_flight is None and self._attempt.plan is None
            return self._plan if due else None
        return self._tasks.get(self.state) if every else None

    def _unless_done(self, done: bool, event: MemberEvent, now: float) -> MemberEvent | None:
        if done:
            return event
        self._call_again_at = now + PAUSE
        return None

    def _ask_protocols(self, now: float) -> MemberEvent | None:
        self._attempt.reason, self._rejoin = self._rejoin or self._attempt.reason, None
        self._attempt.protocols = list(self._role.protocols())
        return None

    def _plan(self, now: float) -> MemberEvent | None:
        plan = self._attempt
        if not plan.ready and now < plan.ready_by:
            if not self._role.ready_to_assign(plan.protocol, plan.members, now):
                self._call_again_at = now + PAUSE
                return None
            plan.ready = True
            return None
        shares = self._role.perform_assignment(self.identity.member_id, plan.protocol, plan.members, skip=plan.skips)
        plan.plan = {} if plan.skips else {member: bytes(share) for member, share in shares.items()}
        return None

    def _revoke(self, now: float) -> MemberEvent | None:
        attempt = self._attempt
        if not attempt.is_decoded:
            self._role.accept(self.identity, attempt.protocol, attempt.assignment, now, missed=attempt.missed)
            attempt.is_decoded = True
            return None
        return self._unless_done(self._role.revoke(self.identity, now), _E.REVOKED, now)

    def _install(self, now: float) -> MemberEvent | None:
        self._attempt.install_called = True
        return self._unless_done(self._role.install(self.identity, now), _E.ASSIGNED, now)

    def _after_failure(self, now: float) -> MemberEvent | None:
        """Return the event that follows a role method that raised."""
        if self.state is _S.REVOKING_AFTER_SYNC and not self._attempt.is_decoded:
            # The assignment cannot be decoded: join again, or no member reads the partitions assigned to this one.
            self._join_failures.back_off(now)
            return _E.REJOIN
        if self.state is _S.COMPLETING_REBALANCE:
            self._join_failures.back_off(now)
            return _E.RETRY
        if self.state is _S.PREPARING_REBALANCE:
            self._join_failures.back_off(now)
        return AFTER_EXCEPTION.get(self.state)

    def _finish(self, event: MemberEvent, now: float) -> None:
        if event is _E.RETRY:
            self._join_anew()
        elif event is _E.REJOIN:
            self._begin_anew(event, "its assignment could not be decoded", now)
        elif event is _E.LOST:
            self.held = None
            if self._join_failures.is_final:
                self._move(_E.GIVE_UP)
                self._coordinator.unwant(self.asker)
            else:
                self._begin_anew(event, self._attempt.reason, now)
        else:
            self._move(event)
            if event is _E.ASSIGNED:
                self._rebalanced(now)

    def _rebalanced(self, now: float) -> None:
        took = now - self._attempt.started_at
        self.stats.rebalances.add(took)
        self.stats.rebalanced_at = now
        text = "group %s: rebalanced in %.3f s, generation %d%s, because %s: %s"
        identity, leading = self.identity, ", leading" if self._attempt.leads else ""
        values = identity.group_id, took, identity.generation_id, leading, self._attempt.reason, self._role.describe()
        self._join_failures.log_limited(logging.INFO, text, *values)
