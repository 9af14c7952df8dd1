"""A member of a consumer group (KIP-848): one request, ConsumerGroupHeartbeat, joins, acknowledges and leaves.

Owns the state machine of :mod:`.states`. The coordinator assigns partitions in its responses; the member reconciles in
:meth:`ConsumerMember.work`, never in a step, since this calls the listener. One heartbeat is in flight at a time. After
a lost response or an error the next one has all fields, because the coordinator may or may not have seen the last.
Follows Java's ``AbstractMembershipManager`` and ``ConsumerHeartbeatRequestManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ...connection.request import Answer, Request, Target
from ...errors import KafkaError, KafkaProtocolError
from ...failures import Action
from ...state_machine import next_state
from ...timers import NEVER, Random
from ...types import TopicPartition
from ...wire import Message
from ...wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ..coordinator import MEMBERSHIP, Coordinator
from ..coordinator_requests import CoordinatorRequests
from ..identity import Identity
from ..join_failures import JoinFailurePolicy
from ..leave_attempt import LeaveAttempt
from ..poll_timer import PollTimer
from ..settings import GroupSettings
from ..stats import MemberStats
from ..verdicts import judge
from .assignment import MemberAssignment, Progress
from .heartbeat import (
    FIRST_INTERVAL,
    INTERVAL_MAX,
    INTERVAL_MIN,
    REGEX_SINCE,
    HeartbeatFields,
    explain,
    group_is_gone,
    heartbeat,
    leave,
    leave_epoch,
    new_member_id,
)
from .reconciliation import PartitionIds, read_assignment
from .states import ACTIVE, CALLBACKS, LOSING, TRANSITIONS, MemberEvent, MemberState

log = logging.getLogger(__name__)

_S = MemberState
_E = MemberEvent

#: Seconds before a reconciliation that waits for a commit goes on; steps of the engine send and receive meanwhile.
PAUSE = 0.01


class ConsumerMember:
    """Take part in a consumer group: send heartbeats as a manager of the engine; reconcile in :meth:`work`.

    Implements :class:`~thinconsumer.group.membership.Membership`. ``read_subscription`` returns the subscribed names,
    and the regular expression that the coordinator evaluates; None while the names are not known yet.
    """

    asker = "member"

    def __init__(
        self,
        settings: GroupSettings,
        identity: Identity,
        assignment: MemberAssignment,
        read_subscription: Callable[[], tuple[frozenset[str], str | None] | None],
        coordinator: Coordinator,
        random: Random,
        *,
        rack: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.state = MemberState.UNSUBSCRIBED
        self.identity = identity._replace(member_id=new_member_id(random))
        self.held: str | None = None
        self.stats = MemberStats()
        self.heartbeat_interval = FIRST_INTERVAL
        self.drop_connection: Callable[[Target], None] = lambda target: None
        self.assignment = assignment
        self._settings = settings
        self._read_subscription = read_subscription
        self._coordinator = coordinator
        self._random = random
        self._rack, self._assignor = rack, assignor
        self._failures = JoinFailurePolicy(settings, identity.group_id, random)
        self._poll_timer = PollTimer(settings)
        self._heartbeats = CoordinatorRequests(self.asker, settings, coordinator, random, MEMBERSHIP)
        self._confirmed_at = -NEVER  #: When the last heartbeat was sent that has succeeded.
        self._due = -NEVER  #: When the next heartbeat is due, if nothing has changed.
        self._written: HeartbeatFields | None = None  #: The fields of the heartbeat in flight, once it is written.
        self._known: HeartbeatFields | None = None  #: The fields that the coordinator has; None if that is uncertain.
        self._may_be_known = False  #: Whether the coordinator may count this consumer as a member.
        self._had_regex = False  #: Whether a heartbeat was written that had a regular expression.
        self._leave_attempt: LeaveAttempt | None = None
        self._resubscribes = False  #: Whether to join again as soon as the member has left.
        #: Whether the next ``poll`` is the first since subscribe(). A member that is never polled would own partitions.
        self._awaits_poll = False
        self._is_late = False  #: Whether the member leaves because of the poll timeout.
        self._unconfirmed_since = -NEVER
        #: The longest time between two heartbeats that this membership has survived: the session lasts at least that.
        self._survived = 0.0
        self._gap = 0.0  #: The longest gap between calls that is not confirmed yet: the reason for :attr:`held`.
        #: Whether the last gap began before the response to a heartbeat after the gap before it was read.
        self._is_outpaced = False
        self._expulsion: MemberEvent | None = None  #: The state change that follows when :meth:`work` has returned.
        self._is_working = self._listener_may_have_run = False
        self._loss_due = False
        self._call_again_at = -NEVER
        self._began_at: float | None = None  #: When the reconciliation in progress has begun.

    def __repr__(self) -> str:
        return f"<ConsumerMember {self.identity.member_id} {self.state.value}>"

    @property
    def situation(self) -> str:
        """The state, and while the member reconciles what is left to do, in words for health."""
        left = f": {self.assignment.describe()}" if self.state is _S.RECONCILING else ""
        return f"{self.state.value}{left}"

    @property
    def error(self) -> KafkaError | None:
        """The last response's error, which polls raise once, if it lasts until the application acts; else None."""
        return self._failures.error

    @property
    def is_outside(self) -> bool:
        """Whether the member is in no group, or about to leave it."""
        return self.state in (_S.UNSUBSCRIBED, _S.LEAVING)

    @property
    def is_settled(self) -> bool:
        """Whether the member owns the assigned partitions, and the coordinator has received that."""
        return self.state is _S.STABLE

    @property
    def has_sent_subscription(self) -> bool:
        """Whether the coordinator has the current subscription, or it is uncertain what the coordinator has."""
        return self._known in (None, self._fields())

    @property
    def rebalancing(self) -> bool:
        """Whether the member has not joined yet. Afterwards commits are accepted at any time."""
        return self.state is _S.JOINING

    awaits_rebalance_response = delays_group = False

    @property
    def has_left(self) -> bool:
        """Whether the member is in no group and has no request to leave to send."""
        return self.state is _S.UNSUBSCRIBED

    @property
    def has_sent_leave(self) -> bool:
        """Whether no heartbeat to leave remains to be written. It may have no response yet."""
        return self._leave_attempt is None or self._leave_attempt.is_written

    @property
    def callback(self) -> str | None:
        """The listener's callback that :meth:`work` calls next: revoked, assigned or lost; None if it calls none."""
        if self.state is _S.RECONCILING:
            return "revoked" if self.assignment.revokes else "assigned"
        return CALLBACKS.get(self.state)

    def owned_since(self, tp: TopicPartition) -> int:
        """Return the member epoch in which the partition was assigned; -1 if it is not owned."""
        return self.assignment.owned_since(tp)

    def subscribe(self, reason: str) -> None:
        """Join the group. A changed subscription of a member goes into the next heartbeat by itself."""
        if self.state is _S.UNSUBSCRIBED:
            self._awaits_poll = True
            self._join()
        elif self.state is _S.LEAVING and not self._is_late:  # after the poll timeout, the next poll joins anyway
            self._awaits_poll = self._resubscribes = True

    def _join(self) -> None:
        self._move(_E.SUBSCRIBE)
        self._join_anew()
        self._coordinator.want(self.asker)

    def request_rejoin(self, reason: str) -> None:
        """Log that a member cannot make this group rebalance: the coordinator decides, as for Java's consumer."""
        text = "group %s: a member cannot enforce a rebalance in the consumer group protocol; ignored: %s"
        log.warning(text, self.identity.group_id, reason)

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        """Leave the group without callbacks: the caller revokes the owned partitions first."""
        if self.is_outside:
            self._resubscribes = self._is_late = False
            return
        epoch = leave_epoch(self.identity, leave_group)
        if self.state in LOSING:
            self._end_membership(now)
            self._move(_E.LEFT)
            self._coordinator.unwant(self.asker)
            return
        self._start_leave(epoch if self._may_be_known else None, now)
        self._finish_leave()

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        """Return the connection that the request of :meth:`leave` would use now; None if there would be no request."""
        is_told = self.state in ACTIVE and self._may_be_known and leave_epoch(self.identity, leave_group) is not None
        return self._coordinator.target(MEMBERSHIP) if is_told else None

    def _start_leave(self, epoch: int | None, now: float) -> None:
        self._move(_E.PREPARE)
        if epoch is not None:
            message, api = partial(leave, self.identity, epoch), ConsumerGroupHeartbeatRequest
            parts = self.asker, self._settings, self._coordinator, self._random, MEMBERSHIP
            self._leave_attempt = LeaveAttempt(*parts, api, message, now)
        self._end_membership(now)
        self._move(_E.LEAVE)

    def _end_membership(self, now: float) -> None:
        self._fail_reconciliation()
        self._heartbeats.in_flight = self._known = self._expulsion = self.held = None
        self._loss_due = self._may_be_known = False
        self.identity = self.identity.outside()
        self.assignment.forget()
        self._failures.recovered(now)

    def polled(self, now: float) -> bool:
        """Note a ``poll``. Return whether the member waited for this poll to join, also again after a poll timeout."""
        self._poll_timer.polled(now)
        waited, self._awaits_poll = self._awaits_poll, False
        return waited or self.state is _S.STALE

    def called(self, now: float) -> bool:
        """Note a call of the application. Return whether the gap since the previous call makes a step due.

        The client does not know the broker's session timeout, only that it is longer than the heartbeat interval. After
        a longer gap, polls return no records until a heartbeat succeeds: others may own the partitions.
        """
        gap = self._poll_timer.called(now)
        if gap <= self.heartbeat_interval or not self.identity.is_member:
            return False
        self._is_outpaced = self.held is not None
        self._gap = max(gap, self._gap) if self._is_outpaced else gap
        interval = f"the broker's heartbeat interval is {self.heartbeat_interval:g} s"
        self.held = f"{gap:.1f} s between calls, {interval}: a heartbeat has to confirm the membership first"
        self._unconfirmed_since = now
        log.debug("group %s: polls get no records: %s", self.identity.group_id, self.held)
        return True

    def withholds(self, *, may_wait: bool) -> bool:
        """Return whether polls return no records now; ``may_wait`` tells whether this poll can wait for a response.

        A program that calls ``poll(0)`` every few seconds gets each response in the call after the next gap. If only
        responses to requests that were sent after the last gap counted, its polls would never return records. Such a
        poll therefore returns records if the membership has survived a gap of that length before. If the last heartbeat
        has failed, it has renewed no session, and the next one has to succeed first.
        """
        if self.held is None:
            return False
        is_uncertain = self._known is None or not self.identity.is_member
        return may_wait or not self._is_outpaced or is_uncertain or self._gap > self._survived

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Send a heartbeat at once after a membership error of a commit: its response tells what has changed."""
        if identity == self.identity and identity.is_member:
            self._known = None
            self._due = now

    def step(self, now: float) -> list[Request]:
        """Return the requests that are due."""
        self._settle()
        if self._listener_may_have_run and not self._is_working:
            self._listener_may_have_run = False
            self._poll_timer.polled(now)  # max_poll_interval_ms does not limit a listener, which runs inside poll
        if self.state in ACTIVE and not self._is_working and now >= self._poll_timer.overdue_at():
            self._leave_after_poll_timeout(now)
        if self.state is _S.LEAVING:
            return self._step_leave(now)
        if self.state in ACTIVE:
            self.assignment.look_up(now)
            self._check_acknowledged(now)
        abandoned = self._heartbeats.abandon_if_moved()
        if abandoned is not None:
            self.drop_connection(abandoned.target)
            self._known = None
            self._due = now
        request = self._heartbeat(now)
        return [] if request is None else [request]

    def _step_leave(self, now: float) -> list[Request]:
        request = None
        if self._leave_attempt is not None:
            request = self._leave_attempt.step(now)
        self._finish_leave()
        return [] if request is None else [request]

    def _finish_leave(self) -> None:
        if self._leave_attempt is not None and not self._leave_attempt.is_over:
            return
        self._leave_attempt = None
        if self._is_late:
            self._is_late = False
            self._move(_E.POLL_TIMED_OUT)
            return
        self._coordinator.unwant(self.asker)
        self._move(_E.LEFT)
        if self._resubscribes:
            self._resubscribes = False
            self._join()

    def _leave_after_poll_timeout(self, now: float) -> None:
        """Leave the group because ``max_poll_interval_ms`` has passed without a poll; the next poll joins again."""
        limit = f"max_poll_interval_ms={self._settings.max_poll_interval_ms}"
        why = f"{self._poll_timer.seconds_since_poll(now):.1f} s between polls, {limit}"
        log.warning("group %s: %s: left the group; the next poll joins again", self.identity.group_id, why)
        self.stats.expulsions += 1
        self._is_late = True
        self._start_leave(leave_epoch(self.identity, None) if self._may_be_known else None, now)
        self.held = why

    def wake_at(self, now: float) -> float:
        """Return when :meth:`step` or :meth:`work` is due next, if no response arrives before."""
        due = [self._call_again_at if self._call_again_at > now else NEVER]
        if self.state is _S.LEAVING:
            attempt = self._leave_attempt
            due.append(now if attempt is None else attempt.wake_at())
        elif self.state in ACTIVE:
            due.append(self.assignment.look_up_at())
            due.append(NEVER if self._is_working else self._poll_timer.overdue_at())
            if self._may_send:
                due.append(self._heartbeat_at())
        return max(now, min(due))

    @property
    def _may_send(self) -> bool:
        """Whether a heartbeat may be sent once it is due.

        After an expulsion inside a listener none is sent until the partitions are dropped: it would join, and the
        listener could then commit offsets of lost partitions under the new membership.
        """
        is_allowed = self._expulsion is None and self.state in ACTIVE and not self._awaits_poll
        return is_allowed and self._heartbeats.is_open

    def _heartbeat_at(self) -> float:
        """Return when the next heartbeat is due, if none is in flight; NEVER while the subscription is not known."""
        fields = self._fields()
        if fields is None:
            return NEVER
        is_urgent = self._known is not None and fields != self._known
        return max(-NEVER if is_urgent or self.state is _S.ACKNOWLEDGING else self._due, self._failures.not_before)

    def _fields(self) -> HeartbeatFields | None:
        found = self._read_subscription()
        if found is None:
            return None
        return HeartbeatFields(self._settings.max_poll_interval_ms, *found, self._assignor, self.assignment.owned())

    def _heartbeat(self, now: float) -> Request | None:
        if not self._may_send or now < self._heartbeat_at():
            return None
        found = self._fields()
        lowest = REGEX_SINCE if found is not None and found.regex is not None else 0
        self._written = None
        self.stats.heartbeat_at = now
        self._due = now + self.heartbeat_interval
        self._failures.heartbeat_sent(now)
        self.stats.heartbeats += 1
        return self._heartbeats.send(ConsumerGroupHeartbeatRequest, self._build, now, min_version=lowest)

    def _build(self, version: int) -> Message:
        fields = self._written = self._fields()
        if fields is None:
            raise KafkaProtocolError("the subscription has ended before the heartbeat was written")
        self._may_be_known = True
        self._had_regex = self._had_regex or fields.regex is not None
        had_regex = self._had_regex and version >= REGEX_SINCE
        return heartbeat(self.identity, self._rack, fields, self._known, had_regex=had_regex)

    def handle(self, answer: Answer, now: float) -> None:
        """Process a response of the coordinator; drop the response to an abandoned request."""
        attempt = self._leave_attempt
        leaves = attempt is not None and answer.request is attempt.in_flight
        if not (attempt if attempt is not None and leaves else self._heartbeats).take(answer):
            return
        action, error = judge(answer, self.identity.group_id)
        if group_is_gone(error) and self.identity.is_member:
            # The coordinator has removed this member, and then the group, or made it a classic group again because
            # only members of the classic protocol were left. A join can make it a consumer group once more.
            action = Action.RESET_GENERATION
        self._coordinator.report(action, error, answer, now)
        if attempt is not None and leaves:
            attempt.answered(now, again=action.is_retried and action not in (Action.RAISE, Action.RESET_GENERATION))
            return
        if error is None:
            error = self._accept(answer.response, now)
            action = Action.RETRY
        if error is not None:
            self._failed(action, error, now)

    def _accept(self, response: ConsumerGroupHeartbeatResponse, now: float) -> KafkaError | None:
        """Take over the epoch and the assignment of a response; return an error if they are impossible."""
        before, who = self.identity, self.identity
        try:
            target = None if response.assignment is None else read_assignment(response.assignment)
        except KafkaProtocolError as error:
            return error
        if response.member_epoch <= 0 or response.member_epoch < who.generation_id:
            return KafkaProtocolError(
                f"the coordinator answered member epoch {response.member_epoch} to epoch {max(0, who.generation_id)}"
            )
        self.identity = who.joined(response.member_epoch, response.member_id or who.member_id)
        self.heartbeat_interval = min(max(INTERVAL_MIN, response.heartbeat_interval_ms / 1000), INTERVAL_MAX)
        self._due = self._heartbeats.sent_at + self.heartbeat_interval
        is_session = before.is_member and self._known is not None
        self._known = self._written
        if not before.is_member:
            # The response to a join assumes that this member owns nothing, as the request said.
            self._known = None if self._written is None else self._written._replace(owned=frozenset())
            self.assignment.joined()
            self.stats.joins.add(now - self._heartbeats.sent_at)
            target = target if target is not None else frozenset()
        self.stats.heartbeat.add(now - self._heartbeats.sent_at)
        self.stats.answered_at = now
        self._confirm(is_first=not before.is_member, is_session=is_session)
        self._failures.recovered(now)
        if before.is_member:  # a join ends no backoff: the next heartbeat may end the membership again
            self._failures.heartbeat_succeeded()
        self._receive(target, now)
        self._check_acknowledged(now)
        return None

    def _confirm(self, *, is_first: bool, is_session: bool) -> None:
        """Note that the membership has lasted until the request was sent, which may let polls return records again.

        The time since the request before counts as survived, too, unless a heartbeat has failed meanwhile: the
        coordinator may have moved, and then began a new session.
        """
        if is_first:
            self._survived = 0.0
        elif is_session:
            self._survived = max(self._survived, self._heartbeats.sent_at - self._confirmed_at)
        self._confirmed_at = self._heartbeats.sent_at
        if self._heartbeats.sent_at >= self._unconfirmed_since:
            self.held = None

    def _receive(self, target: PartitionIds | None, now: float) -> None:
        if target is None or target == self.assignment.target or self.state not in ACTIVE:
            return
        unseen = (self.assignment.target or frozenset()) - target - self.assignment.owned()
        if unseen and self._known is not None:
            # The coordinator counts these as owned since it assigned them, and waits until a heartbeat does not name
            # them. What is owned has not changed, so that without this the next heartbeats would name nothing.
            self._known = self._known._replace(owned=self._known.owned | unseen)
        self.assignment.receive(target)
        if self._began_at is None:
            self._began_at = now
        self._move(_E.RECEIVED)

    def _check_acknowledged(self, now: float) -> None:
        """Leave ACKNOWLEDGING once the coordinator has received the owned partitions."""
        known = self._known
        if self.state is not _S.ACKNOWLEDGING or known is None or known.owned != self.assignment.owned():
            return
        if not self.assignment.is_complete:
            self._move(_E.UNFINISHED)
            return
        self._move(_E.ACKNOWLEDGED)
        took = now - (now if self._began_at is None else self._began_at)
        self._began_at = None
        self.stats.rebalances.add(took)
        self.stats.rebalanced_at = now
        who, count = self.identity, len(self.assignment.owned())
        text = "group %s: reconciled in %.3f s, member epoch %d: %d partitions"
        self._failures.log_limited(logging.INFO, text, who.group_id, took, who.generation_id, count)

    def _failed(self, action: Action, error: KafkaError, now: float) -> None:
        if action is Action.GIVE_UP:
            found = self._read_subscription()
            error = explain(error, has_regex=found is not None and found[1] is not None)
        self._known = None  # the coordinator may or may not have seen the last heartbeat: the next has all fields
        self._due = now
        self.stats.failed += not self.identity.is_member
        self._failures.note(action, error, ConsumerGroupHeartbeatRequest, now)
        if action is Action.GIVE_UP:
            self._expel(_E.REFUSED, error)
        elif action is Action.RESET_GENERATION:
            self._failures.back_off(now, at_once=True)
            self._expel(_E.EXPELLED, error)
        else:
            at_once = action in (Action.FIND_COORDINATOR, Action.WAIT_FOR_COORDINATOR)  # these have their own backoff
            self._failures.back_off(now, at_once=at_once, at_maximum=action is Action.RAISE)

    def _expel(self, event: MemberEvent, error: KafkaError) -> None:
        """Drop the epoch at once; the state changes when the listener, if it runs, has returned."""
        level = logging.INFO if self.held is not None or not self.identity.is_member else logging.WARNING
        if event is _E.EXPELLED:
            self._failures.log_limited(level, "group %s: expelled: %s", self.identity.group_id, error)
        self.identity = self.identity.outside()
        self.held = str(error)
        self.stats.expulsions += 1
        self._may_be_known = False
        self._expulsion = event
        self._settle()

    def _settle(self) -> None:
        if self._expulsion is None or self._is_working or self.state not in ACTIVE:
            return
        event, self._expulsion = self._expulsion, None
        self._loss_due = True
        self._fail_reconciliation()
        self._move(event)
        if event is _E.REFUSED:
            self._coordinator.unwant(self.asker)

    def _fail_reconciliation(self) -> None:
        """Count a reconciliation that the end of the membership cuts off as a failed rebalance, as Java does."""
        self.stats.failed += self._began_at is not None
        self._began_at = None

    def _join_anew(self) -> None:
        self._known, self._due = None, -NEVER
        self.held = None

    def restart(self, now: float) -> None:
        """Send a full heartbeat: the engine restart closed all connections, so no response can arrive."""
        self._is_working = False
        self._heartbeats.restart()
        self._known, self._due = None, now
        self.assignment.restart()
        if self._leave_attempt is not None:
            self._leave_attempt.restart()

    def has_work(self, now: float, *, every: bool = True) -> bool:
        """Return whether :meth:`work` has something to do: only with ``every``, since all of it may call listeners."""
        if not every or self._is_working or now < self._call_again_at:
            return False
        if self.state is _S.RECONCILING:
            return self.assignment.is_due or self.assignment.is_complete
        return self.state in (_S.FENCED, _S.STALE) or (self.state is _S.FATAL and self._loss_due)

    def work(self, now: float, *, every: bool = True) -> bool:
        """Do the next step of the reconciliation, or drop all partitions as lost. Exceptions of listeners propagate.

        Return True unless nothing was due, or a revocation waits for a commit and has to be repeated a little later.
        """
        if not self.has_work(now, every=every):
            return False
        before = self.state
        self._is_working = self._listener_may_have_run = True
        try:
            done = self._reconcile(now) if before is _S.RECONCILING else self._lose(now)
        finally:
            self._is_working = False
            self._settle()
        return done

    def _reconcile(self, now: float) -> bool:
        progress = self.assignment.advance(self.identity.generation_id, now)
        if progress is Progress.WAITING:
            self._call_again_at = now + PAUSE
            return False
        # A call inside the listener, such as unsubscribe() or a commit, may have ended this membership.
        if self.state is _S.RECONCILING and self._expulsion is None:
            self._move(_E.RECONCILED)
            self._check_acknowledged(now)
        return True

    def _lose(self, now: float) -> bool:
        state, self._loss_due = self.state, False
        try:
            self.assignment.lose(now)
        finally:
            if self.state is state and state is not _S.FATAL:
                self._move(_E.LOST)
                self._join_anew()
        return True

    def _move(self, event: MemberEvent) -> None:
        after = next_state(TRANSITIONS, self.state, event, self)
        states = self.state.value, after.value, event.value
        log.debug("group %s: member state %s -> %s (%s)", self.identity.group_id, *states)
        self.state = after
