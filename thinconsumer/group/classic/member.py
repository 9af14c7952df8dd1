"""A member of a classic group: joins, syncs, heartbeats, leaves, and is expelled.

Owns the state machine of :mod:`.states`. Nothing is sent behind an unanswered JoinGroup or SyncGroup on the same
connection: the coordinator would not read it. The :class:`~thinconsumer.group.role.Role` says what the group is for;
its methods run in :meth:`ClassicMember.work`, never in a step. Follows Java's ``AbstractCoordinator`` and KIP-62, 345,
394, 559, 800 and 814.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...connection.request import Answer, Request, Target
from ...connection.states import next_state
from ...errors import KafkaError
from ...failures import EXPULSIONS, Action, Scope, rule
from ...timers import NEVER, Random
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest, JoinGroupResponse
from ...wire.offset_commit import OffsetCommitRequest
from ...wire.sync_group import SyncGroupRequest, SyncGroupResponse
from ..coordinator import Coordinator
from ..identity import Identity
from ..role import Role
from ..settings import GroupSettings
from .coordinator_channel import CoordinatorChannel
from .heartbeat import PollTimer
from .join_failures import JoinFailurePolicy
from .rebalance_attempt import RebalanceAttempt
from .states import TRANSITIONS, MemberEvent, MemberState
from .stats import MemberStats
from .verdicts import judge, unusable_join, unusable_sync

log = logging.getLogger(__name__)

_S = MemberState
_E = MemberEvent

#: How long to leave a role alone that was not ready, in seconds; something else may have to happen first.
PAUSE = 0.01

#: Where the coordinator counts on hearing from us.
_BEATING = frozenset(
    {
        _S.UNJOINED,
        _S.REVOKING_BEFORE_JOIN,
        _S.PREPARING_REBALANCE,
        _S.COMPLETING_REBALANCE,
        _S.REVOKING_AFTER_SYNC,
        _S.ASSIGNING,
        _S.STABLE,
    }
)
#: Where a join or a sync is due or out.
_JOINING = frozenset({_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE})
#: Where a heartbeat that is answered well shows that the generation holds, and not only its predecessor.
_PROVEN = frozenset({_S.REVOKING_AFTER_SYNC, _S.ASSIGNING, _S.STABLE})


class ClassicMember:
    """One member. A manager, and the keeper of the role's work."""

    asker = "member"

    def __init__(
        self, settings: GroupSettings, identity: Identity, role: Role, coordinator: Coordinator, random: Random
    ) -> None:
        self.state = MemberState.UNSUBSCRIBED
        self.identity = identity
        #: Why no records may be handed out: they may be somebody else's by now. None while they may.
        self.held: str | None = None
        self.stats = MemberStats()
        self._settings = settings
        self._role = role
        self._coordinator = coordinator
        self._join_failures = JoinFailurePolicy(settings, identity.group_id, random)
        self._channel = CoordinatorChannel(self.asker, settings, coordinator, random)
        self._poll_timer, self._attempt = PollTimer(settings), RebalanceAttempt("", 0.0)
        self._rejoin: str | None = None  #: Why to join again as soon as this round is over.
        self._resubscribe: str | None = None  #: Why to join again as soon as we have left.
        self._awaits_poll = False
        self._away_at = -NEVER  #: Only what was asked after this moment shows that we are members still.
        self._expulsion: str | None = None  #: Identity is changed already; the state follows when no work is running.
        self._working = False
        self._worked = False  #: Whether users' code has run since the last step.
        #: Ends a connection on which the coordinator holds back an answer that is not wanted any more.
        self.drop_connection: Callable[[Target], None] = lambda target: None
        self._moved = 0  #: Counts moves, so that work notices that the world has changed under it.
        self._again_at = -NEVER  #: When to ask the role again that was not ready.
        #: What users' code is waited for in; the rest of the group does not wait for any of it.
        self._tasks: dict[MemberState, Callable[[float], MemberEvent | None]] = {
            _S.REVOKING_BEFORE_JOIN: self._prepare,
            _S.REVOKING_AFTER_SYNC: self._revoke,
            _S.ASSIGNING: self._install,
            _S.LOSING: self._lose,
        }

    def __repr__(self) -> str:
        return f"<ClassicMember {self.identity.member_id or '?'} {self.state.value}>"

    # -- what others read

    @property
    def error(self) -> KafkaError | None:
        """Why we are not in the group, if that does not pass by itself; raised once for each answer that says so."""
        return self._join_failures.error

    @property
    def rebalancing(self) -> bool:
        """Whether a join or a sync is due or out, so that what is said of the old generation may not be taken."""
        return self.state in _JOINING or self._attempt.loses

    @property
    def is_asking(self) -> bool:
        """Whether a join or a sync has left us: its answer tells what has become of us, whatever others hear."""
        return self._channel.is_asking

    @property
    def leads(self) -> bool:
        """Whether we made, or would make, the plan of this generation."""
        return self.identity.is_member and self._attempt.leads

    @property
    def has_left(self) -> bool:
        """Whether there is nothing more to say to the coordinator."""
        return self.state is _S.UNSUBSCRIBED

    # -- what the user wants

    def subscribe(self, reason: str) -> None:
        """Be in the group from now on; a member joins again. In vain once :attr:`error` is final: leave first."""
        if self.state is _S.UNSUBSCRIBED:
            self._begin_anew(_E.SUBSCRIBE, reason, 0.0)
            self._coordinator.want(self.asker)
        elif self.state is _S.LEAVING:
            self._resubscribe = reason
        else:
            self.request_rejoin(reason)

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as the rebalance that may be going on is over (KIP-568); ``reason`` as in KIP-800."""
        self._rejoin = reason
        if self.state is _S.PREPARING_REBALANCE and self._channel.out is None:
            self._attempt.again()  # what it says may have changed

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        """Leave the group. What is owned has to be given up before: no callbacks are called.

        ``leave_group`` says whether the coordinator is told; None: unless we are static (KIP-345, KIP-1092).
        """
        if self.state in (_S.UNSUBSCRIBED, _S.LEAVING):
            self._resubscribe = None
            return
        tell = self.identity.group_instance_id is None if leave_group is None else leave_group
        if tell and self.identity.member_id:
            self._channel.say_goodbye(self.identity, why, now)
        self._channel.hang_up()
        self._channel.beats.forget()
        self.identity = self.identity.lost()
        self._move(_E.LEAVE)
        self._expulsion = self._rejoin = self.held = None
        self._join_failures.cured(now)
        self._leave_when_said()

    def polled(self, now: float) -> None:
        """Note that the user polls, which is what membership is for (KIP-62)."""
        self._poll_timer.polled(now)
        self._awaits_poll = False

    def attended(self, now: float) -> None:
        """Note that the user is in any call that steps us. After too long an absence nothing is ours for certain."""
        gap = self._poll_timer.attended(now)
        if gap <= self._channel.beats.interval:
            return
        self._attempt.ready_by += gap
        if gap <= self._channel.beats.session or not self.identity.is_member:
            return
        self.held = f"{gap:.1f} s between polls, session_timeout_ms={self._settings.session_timeout_ms}"
        self._away_at = now
        log.warning("group %s: %s: asking whether we are still a member", self.identity.group_id, self.held)

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Act on the coordinator's answer to a commit sent as ``identity``, unless that has changed since.

        The answer to a JoinGroup that was written says more. One that waits for its connection may do so for long.
        """
        if identity != self.identity or not identity.is_member or self.is_asking:
            return
        action = rule("Heartbeat", getattr(error, "code", 0), Scope.GROUP).action
        if action is Action.REJOIN and self.state not in _JOINING:
            self._rejoin = self._rejoin or "the group is rebalancing"
        elif action in EXPULSIONS:
            self._join_failures.note(action, error, OffsetCommitRequest, now)
            self._join_failures.pace(now, at_once=True)
            self._expel(action, error, now)

    # -- the manager

    def step(self, now: float) -> list[Request]:
        """Return what is to be said now."""
        self._settle()
        goodbye = self._channel.goodbye(now)  # first: whether one is over decides on how to go on
        if self.state is _S.LEAVING:
            self._leave_when_said()
        if not self._working:
            self._advance(now)
        self._doubt(now)
        found = (goodbye or self._channel.goodbye(now), self._join_or_sync(now), self._beat(now))
        drops, self._channel.drops = self._channel.drops, []
        for target in drops:
            self.drop_connection(target)
        return [request for request in found if request is not None]

    def wake_at(self, now: float) -> float:
        """Return when :meth:`step` has something to do by itself, or a role that was not ready is worth another try."""
        due = [self._again_at if self._again_at > now else NEVER, self._channel.goodbye_at()]
        if self._channel.out is None and self.identity.is_member and not self._working:
            due.append(self._poll_timer.overdue_at())
        if self._channel.is_open:
            due += self._wakes(now)
        return max(now, min(due))

    def _wakes(self, now: float) -> list[float]:
        """Return when there is something to say to a coordinator that is known."""
        due = [self._channel.beats.due_at() if self._beats_now() else NEVER]
        if self.state is _S.UNJOINED and not self._awaits_poll and not self._working:
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
        """Take the coordinator's answer, if it still matters."""
        if not self._channel.awaits(answer.request):
            log.debug("group %s: an answer came too late to matter", self.identity.group_id)
            return
        action, error = judge(answer, self.identity.group_id)
        self._channel.report(action, error, answer, now)
        if answer.request.api is JoinGroupRequest:
            self._join_answered(action, error, answer, now)
        elif answer.request.api is SyncGroupRequest:
            self._sync_answered(action, error, answer, now)
        elif answer.request.api is HeartbeatRequest:
            self._beat_answered(action, error, now)
        else:
            again = action in (Action.FIND_COORDINATOR, Action.WAIT_FOR_COORDINATOR, Action.RETRY)
            self._channel.goodbye_answered(now, again=again)

    def restart(self, now: float) -> None:
        """Forget what is under way, since who would have answered is gone, and say it again."""
        self._working = False
        self._channel.restart(now)
        if self.state is _S.PREPARING_REBALANCE:
            self._attempt.again()

    # -- moves

    def _move(self, event: MemberEvent) -> None:
        after = next_state(TRANSITIONS, {}, self.state, event, self)
        if after is not None:
            log.debug("group %s: %s -> %s (%s)", self.identity.group_id, self.state.value, after.value, event.value)
            self._moved += 1
            self.state = after

    def _begin_anew(self, event: MemberEvent, reason: str, now: float) -> None:
        self._attempt = RebalanceAttempt(reason, now)
        self._rejoin = None
        self._move(event)

    def _advance(self, now: float) -> None:
        """Make the moves that wait for nothing but the time or somebody else's news."""
        if self._worked:
            self._worked = False
            self._poll_timer.polled(now)  # users' code was called by poll, however long it took
        if self.identity.is_member and self._channel.out is None and now >= self._poll_timer.overdue_at():
            self._forget_group(now)
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
        """Return whether a round is over, or as good as: users' code that has had its chance holds nobody up."""
        done = self.state is _S.STABLE or (self.state is _S.ASSIGNING and self._attempt.tried)
        return done and not self._working

    def _leave_when_said(self) -> None:
        farewell = self._channel.farewell
        said = farewell is None or farewell.over or (self._resubscribe is not None and farewell.out is not None)
        if not said:
            return
        self._coordinator.unwant(self.asker)
        self._move(_E.LEFT)
        if self._resubscribe is not None:
            reason, self._resubscribe = self._resubscribe, None
            self.subscribe(reason)

    def _forget_group(self, now: float) -> None:
        """Leave, since the user is busy with something else; the next poll joins again."""
        limit = f"max_poll_interval_ms={self._settings.max_poll_interval_ms}"
        why = f"{self._poll_timer.away(now):.1f} s between polls, {limit}"
        log.warning("group %s: %s: leaving the group until the next poll", self.identity.group_id, why)
        if self.identity.group_instance_id is None:
            self._channel.say_goodbye(self.identity, why, now)
        self._awaits_poll = True
        self._expel(Action.RESET_MEMBER_ID, KafkaError(why), now, said=True)

    def _expel(self, action: Action, error: KafkaError, now: float, *, said: bool = False) -> None:
        """Be nobody at once; the state, and the role, follow."""
        group_id = self.identity.group_id
        said = said or self.held is not None or not self.identity.is_member
        self.identity = self.identity.behind() if action is Action.RESET_GENERATION else self.identity.lost()
        self._channel.take_back()
        self._expulsion = self.held = str(error)
        self.stats.expulsions += 1
        if action is not Action.GIVE_UP:
            level = logging.INFO if said else logging.WARNING
            self._join_failures.say(level, "group %s: expelled: %s", group_id, error)
        self._settle()

    def _settle(self) -> None:
        """Let the state follow an expulsion."""
        if self._expulsion is not None and not self._working:
            self._attempt.reason = self._expulsion
            self._expulsion = None
            self._move(_E.EXPELLED)

    # -- saying

    def _join_or_sync(self, now: float) -> Request | None:
        if self._working or now < self._join_failures.not_before:
            return None
        if self.state is _S.PREPARING_REBALANCE and self._attempt.protocols is not None:
            return self._channel.join(self._who, self._role.protocol_type, self._attempt, now)
        if self.state is _S.COMPLETING_REBALANCE and self._attempt.plan is not None:
            return self._channel.sync(self._who, self._role.protocol_type, self._attempt, now)
        return None

    def _who(self) -> Identity:
        return self.identity

    def _beats_now(self) -> bool:
        return self.identity.is_member and self.state in _BEATING

    def _beat(self, now: float) -> Request | None:
        request = self._channel.beat(self._who, now) if self._beats_now() else None
        if request is not None:
            self.stats.heartbeats += 1
            self.stats.heartbeat_at = now
        return request

    def _doubt(self, now: float) -> None:
        if self._channel.doubt(now):
            self._join_anew()

    def _join_anew(self) -> None:
        """Go back to where the join begins."""
        self._attempt.again()
        if self.state is _S.COMPLETING_REBALANCE:
            self._move(_E.RETRY)

    # -- hearing

    def _join_answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        self._channel.out = None
        response: JoinGroupResponse = answer.response
        if action is Action.ACCEPT:
            error = unusable_join(answer, self._role.protocol_type, self._offered())
        if error is None:
            self.stats.joins.add(now - self._channel.out_at)
            self._attempt.joined(self.identity, response, now)
            self.identity = self.identity.joined(response.generation_id, response.member_id)
            self._channel.beats.heard(now)
            self._move(_E.JOINED)
            self._heard(self._channel.out_at, now)
        elif action is Action.USE_MEMBER_ID and response.member_id:
            if self.identity.member_id:
                self._join_failures.pace(now)  # it had named us before
            # With the same protocols: nothing has happened since.
            self.identity = self.identity.named(response.member_id)
        else:
            self._failed(Action.RAISE if action is Action.ACCEPT else action, error, answer, now)

    def _sync_answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        self._channel.out = None
        response: SyncGroupResponse = answer.response
        if action is Action.ACCEPT:
            error = unusable_sync(answer, self._role.protocol_type, self._attempt.protocol)
        if error is None:
            self.stats.syncs.add(now - self._channel.out_at)
            self._attempt.share = bytes(response.assignment)
            self._attempt.synced_at = now
            self._channel.beats.heard(now)
            self._join_failures.cured(now)
            self._move(_E.SYNCED)
            self._heard(self._channel.out_at, now)
        else:
            self._failed(Action.RAISE if action is Action.ACCEPT else action, error, answer, now)

    def _offered(self) -> set[str]:
        return {name for name, _ in self._attempt.protocols or ()}

    def _failed(self, action: Action, error: KafkaError, answer: Answer, now: float) -> None:
        """Go back to where the join begins, or further."""
        self.stats.failed += 1
        self._join_failures.note(action, error, answer.request.api, now)
        if action in EXPULSIONS:
            self._join_failures.pace(now, at_once=True)
            self._expel(action, error, now)
            return
        self._join_failures.pace(now, at_once=action is Action.REJOIN, at_leisure=action is Action.RAISE)
        self._join_anew()

    def _beat_answered(self, action: Action, error: KafkaError | None, now: float) -> None:
        sent_at = self._channel.beats.sent_at
        if error is None or action is Action.REJOIN:
            self._channel.beats.answered()
            self.stats.heartbeat.add(now - sent_at)
            self._heard(sent_at, now)
            self._join_failures.cured(now, HeartbeatRequest)
            if error is None and self.state in _PROVEN:
                self._attempt.proven = True
                self._join_failures.over()
            elif error is not None and self.state not in _JOINING:
                if self.state in _PROVEN and not self._attempt.proven:
                    # A generation that did not last for one heartbeat; but that long we have waited already.
                    self._join_failures.pace(self._attempt.synced_at, at_once=True)
                self._rejoin = self._rejoin or "the group is rebalancing"
            return
        self._channel.beats.failed(now, at_leisure=action is Action.RAISE)
        if action is Action.RAISE or (action in EXPULSIONS and self._channel.out is None):
            self._join_failures.note(action, error, HeartbeatRequest, now)
        if action in EXPULSIONS and self._channel.out is None:
            self._join_failures.pace(now, at_once=True)
            self._expel(action, error, now)

    def _heard(self, sent_at: float, now: float) -> None:
        """Note that the coordinator took us for a member when it got what we sent at ``sent_at``."""
        self.stats.answered_at = now
        if sent_at >= self._away_at:
            self.held = None

    # -- the role's work

    def has_work(self, now: float, *, every: bool = True) -> bool:
        """Return whether the role has something to do; without ``every``, whether something the group waits for."""
        return not self._working and now >= self._again_at and self._task(now, every=every) is not None

    def work(self, now: float, *, every: bool = True) -> bool:
        """Run one call of the role, which may run users' code. Return whether that got us any further.

        Raises:
            Exception: what the role raised. Giving up (prepare, revoke, lose) counts as done nevertheless, and so does
                the member's part of it: the group goes on. Planning is tried again in another round, after a backoff;
                taking what is new, by the next call.
        """
        task = self._task(now, every=every)
        if task is None or self._working:
            return False
        before = self._moved
        self._worked = every
        failure: Exception | None = None
        event: MemberEvent | None = None
        self._working = True
        try:
            event = task(now)
        except Exception as error:  # noqa: BLE001 - it is users' code; raised again below
            failure = error
        finally:
            self._working = False
        if self._expulsion is not None:
            self._settle()
        elif self._moved == before:  # else it has left the group, or more, in the meantime
            if failure is not None:
                event = self._after_failure(now)
            if event is not None:
                self._finish(event, now)
        if failure is not None:
            raise failure
        return self._again_at <= now

    def _task(self, now: float, *, every: bool) -> Callable[[float], MemberEvent | None] | None:
        """Return what to run now."""
        if self.state is _S.PREPARING_REBALANCE:
            due = self._channel.out is None and self._attempt.protocols is None
            due = due and now >= self._join_failures.not_before
            return self._ask_protocols if due and self._coordinator.target() is not None else None
        if self.state is _S.COMPLETING_REBALANCE:
            due = self._channel.out is None and self._attempt.plan is None
            return self._plan if due else None
        return self._tasks.get(self.state) if every else None

    def _unless_done(self, done: bool, event: MemberEvent, now: float) -> MemberEvent | None:
        if done:
            return event
        self._again_at = now + PAUSE
        return None

    def _prepare(self, now: float) -> MemberEvent | None:
        return self._unless_done(self._role.prepare(self.identity, now), _E.PREPARED, now)

    def _ask_protocols(self, now: float) -> MemberEvent | None:
        self._attempt.reason, self._rejoin = self._rejoin or self._attempt.reason, None
        self._attempt.protocols = list(self._role.protocols())
        return None

    def _plan(self, now: float) -> MemberEvent | None:
        plan = self._attempt
        if not plan.ready and now < plan.ready_by:
            if not self._role.ready_to_assign(plan.protocol, plan.members, now):
                self._again_at = now + PAUSE
                return None
            plan.ready = True
            return None
        shares = self._role.perform_assignment(self.identity.member_id, plan.protocol, plan.members, skip=plan.skips)
        plan.plan = {} if plan.skips else {member: bytes(share) for member, share in shares.items()}
        return None

    def _revoke(self, now: float) -> MemberEvent | None:
        attempt = self._attempt
        if not attempt.taken:
            self._role.take(self.identity, attempt.protocol, attempt.share, now, missed=attempt.missed)
            attempt.taken = True
            return None
        return self._unless_done(self._role.revoke(self.identity, now), _E.REVOKED, now)

    def _install(self, now: float) -> MemberEvent | None:
        self._attempt.tried = True
        return self._unless_done(self._role.install(self.identity, now), _E.ASSIGNED, now)

    def _lose(self, now: float) -> MemberEvent | None:
        return self._unless_done(self._role.lose(self._attempt.reason, now), _E.LOST, now)

    def _after_failure(self, now: float) -> MemberEvent | None:
        """Return how to go on after the role raised."""
        if self.state is _S.REVOKING_AFTER_SYNC and not self._attempt.taken:
            # What we were given cannot be read, and as long as we keep it nobody else is given it.
            self._join_failures.pace(now)
            return _E.REJOIN
        if self.state is _S.COMPLETING_REBALANCE:
            self._join_failures.pace(now)
            return _E.RETRY
        if self.state is _S.PREPARING_REBALANCE:
            self._join_failures.pace(now)
        return _GIVEN_UP.get(self.state)

    def _finish(self, event: MemberEvent, now: float) -> None:
        if event is _E.RETRY:
            self._join_anew()
        elif event is _E.REJOIN:
            self._begin_anew(event, "the share given could not be read", now)
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
        self._join_failures.say(
            logging.INFO,
            "group %s: rebalanced in %.3f s, generation %d%s, because %s: %s",
            self.identity.group_id,
            took,
            self.identity.generation_id,
            ", leading" if self._attempt.leads else "",
            self._attempt.reason,
            self._role.describe(),
        )


#: Giving up counts as done, even if it has failed: it runs once, and the others wait.
_GIVEN_UP = {
    _S.REVOKING_BEFORE_JOIN: _E.PREPARED,
    _S.REVOKING_AFTER_SYNC: _E.REVOKED,
    _S.LOSING: _E.LOST,
}
