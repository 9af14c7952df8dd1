"""A member of a consumer group (KIP-848): one request, ConsumerGroupHeartbeat, joins, acknowledges and leaves.

The coordinator assigns partitions in its responses. The member reconciles in :meth:`ConsumerMember.work`, never in a
step, since the reconciliation calls the listener. One heartbeat is in flight at a time. After a lost response or an
error the next heartbeat has all fields, since the coordinator may or may not have processed the last one. Follows
Java's ``AbstractMembershipManager`` and ``ConsumerHeartbeatRequestManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ...errors import KafkaError, KafkaProtocolError
from ...failures import Action
from ...network.request import Answer, Request, Target
from ...support.timers import NEVER, Random
from ...types import TopicPartition
from ...wire import Message
from ...wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ...wire.error_codes import Code
from ..coordinator import MEMBERSHIP, Coordinator, GroupSettings
from ..identity import Identity
from ..membership import Membership, Task
from .assignment import MemberAssignment, PartitionIds, read_assignment
from .heartbeat import (
    FIRST_INTERVAL,
    INTERVAL_MAX,
    INTERVAL_MIN,
    REGEX_SINCE,
    Gaps,
    HeartbeatFields,
    KnownFields,
    bare_heartbeat,
    explain,
    heartbeat,
    leave_epoch,
    new_member_id,
)
from .states import ACTIVE, CALLBACKS, LOSING, TRANSITIONS, ConsumerMemberEvent, ConsumerMemberState

log = logging.getLogger(__name__)

_S = ConsumerMemberState
_E = ConsumerMemberEvent


class ConsumerMember(Membership):
    """Take part in a consumer group.

    ``read_subscription`` returns the subscribed names, and the regular expression that the coordinator evaluates; None
    while the names are not known yet.
    """

    has_epochs = True
    _TRANSITIONS, _CALLBACKS = TRANSITIONS, CALLBACKS

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
        identity = identity._replace(member_id=new_member_id(random))
        super().__init__(settings, identity, ConsumerMemberState.UNSUBSCRIBED, coordinator, random)
        self.heartbeat_interval = FIRST_INTERVAL
        self.assignment = assignment
        self._read_subscription = read_subscription
        self._rack, self._assignor = rack, assignor
        self._known = KnownFields()
        self._gaps = Gaps()
        self._is_late = False  #: Whether the member leaves because of the poll timeout.
        self._has_to_lose = False  #: Whether partitions are still to be dropped as lost; the state FATAL does not tell.
        self._began_at: float | None = None  #: When the reconciliation in progress has begun.

    def __repr__(self) -> str:
        return f"<ConsumerMember {self.identity.member_id} {self.state.value}>"

    @property
    def situation(self) -> str:
        left = f": {self.assignment.describe()}" if self.state is _S.RECONCILING else ""
        return f"{self.state.value}{left}"

    @property
    def has_sent_subscription(self) -> bool:
        """Whether the coordinator has the current subscription, or it is uncertain what the coordinator has."""
        return self._known.fields in (None, self._fields())

    @property
    def rebalancing(self) -> bool:
        """Whether the member has not joined yet. Afterwards commits are accepted at any time."""
        return self.state is _S.JOINING

    @property
    def callback(self) -> str | None:
        if self.state is _S.RECONCILING:
            return "revoked" if self.assignment.revokes else "assigned"
        return super().callback

    def owned_since(self, tp: TopicPartition) -> int:
        return self.assignment.owned_since(tp)

    def subscribe(self, reason: str) -> None:
        """Join the group. A changed subscription of a member goes into the next heartbeat by itself."""
        if self.state is _S.UNSUBSCRIBED:
            self._awaits_poll = True
            self._join()
        elif self.state is _S.LEAVING and not self._is_late:  # after the poll timeout, the next poll joins anyway
            self._awaits_poll, self._resubscribe = True, reason

    def _join(self) -> None:
        self._move(_E.SUBSCRIBE)
        self._join_anew()
        self._coordinator.want(self.asker)

    def request_rejoin(self, reason: str) -> None:
        """Log that a member cannot make this group rebalance: the coordinator decides, as for Java's consumer."""
        text = "group %s: a member cannot enforce a rebalance in the consumer group protocol; ignored: %s"
        log.warning(text, self.identity.group_id, reason)

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        if self.is_outside:
            self._resubscribe, self._is_late = None, False
            return
        if self.state in LOSING:
            self._end_membership(now)
            self._move(_E.LEFT)
            self._coordinator.unwant(self.asker)
            return
        self._start_leave(leave_group, now)
        self._finish_leave()

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        is_told = self.state in ACTIVE and self._leave_epoch(leave_group) is not None
        return self._coordinator.target(MEMBERSHIP) if is_told else None

    def _leave_epoch(self, leave_group: bool | None) -> int | None:
        return leave_epoch(self.identity, leave_group) if self._known.may_have_member else None

    def _start_leave(self, leave_group: bool | None, now: float) -> None:
        epoch = self._leave_epoch(leave_group)
        if epoch is not None:
            message = bare_heartbeat(self.identity, epoch)
            self._start_leave_attempt(ConsumerGroupHeartbeatRequest, lambda version: message, now, MEMBERSHIP)
        self._end_membership(now)
        self._move(_E.LEAVE)

    def _end_membership(self, now: float) -> None:
        self._fail_reconciliation()
        self._heartbeats.in_flight = self._known.fields = self._expulsion = self.unconfirmed = None
        self._has_to_lose = self._known.may_have_member = False
        self.identity = self.identity.outside()
        self.assignment.forget()
        self._failures.recovered(now)

    def _came_back(self, gap: float, now: float) -> None:
        if not self.identity.is_member:
            return
        self._gaps = self._gaps.away(gap, is_unconfirmed=self.unconfirmed is not None)
        interval = f"the broker's heartbeat interval is {self.heartbeat_interval:g} s"
        self.unconfirmed = f"{gap:.1f} s between calls, {interval}: a heartbeat has to confirm the membership first"
        self._unconfirmed_since = now
        log.debug("group %s: polls get no records: %s", self.identity.group_id, self.unconfirmed)

    def withholds(self, *, may_wait: bool) -> bool:
        """Return whether polls return no records now; ``may_wait`` tells whether this poll can wait for a response.

        A program that calls ``poll(0)`` every few seconds receives each response only after one more gap. If only
        responses to requests that were sent after the last gap counted, its polls would never return records. A poll
        that cannot wait therefore returns records if a session has survived a pause as long as the gaps before. A
        heartbeat that has failed has renewed no session: after it, another one has to succeed first.
        """
        if self.unconfirmed is None:
            return False
        is_certain = self._known.fields is not None and self.identity.is_member
        return may_wait or not (is_certain and self._gaps.are_survivable)

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Send a heartbeat at once after a membership error of a commit: the heartbeat's response tells the cause."""
        if identity == self.identity and identity.is_member:
            self._send_all_fields(now)

    def step(self, now: float) -> list[Request]:
        self._settle()
        if self._listener_may_have_run and not self._is_working:
            self._note_listener(now)
        if self.state in ACTIVE and not self._is_working and self._overdue.is_over(now):
            why = self._missed_polls(now)
            self.stats.expulsions += 1
            self._is_late = True
            self._start_leave(None, now)
            self.unconfirmed = why
        if self.state is _S.LEAVING:
            request = self._leave_request(now)
            self._finish_leave()
            return [] if request is None else [request]
        if self.state in ACTIVE:
            self.assignment.look_up(now)
            self._check_acknowledged(now)
        abandoned = self._heartbeats.abandon_if_moved()
        if abandoned is not None:
            self.drop_connection(abandoned.target)
            self._send_all_fields(now)
        request = self._heartbeat(now)
        return [] if request is None else [request]

    def _finish_leave(self) -> None:
        if self._leave_attempt is not None:
            return
        if self._is_late:
            self._is_late = False
            self._move(_E.POLL_TIMED_OUT)
            return
        self._coordinator.unwant(self.asker)
        self._move(_E.LEFT)
        if self._resubscribe is not None:
            self._resubscribe = None
            self._join()

    @property
    def _may_send(self) -> bool:
        """Whether a heartbeat may be sent once it is due.

        After an expulsion while a listener runs, no heartbeat is sent until the partitions are dropped: it would join,
        and the listener could then commit offsets of lost partitions under the new membership.
        """
        is_allowed = self._expulsion is None and self.state in ACTIVE and not self._awaits_poll
        return is_allowed and self._heartbeats.is_open

    def _send_all_fields(self, now: float) -> None:
        """Make a heartbeat with all fields due at once."""
        self._known.fields = None
        self._next.set(now)

    def _fields(self) -> HeartbeatFields | None:
        """Return the fields of a full heartbeat; None while the subscription is not known."""
        found = self._read_subscription()
        if found is None:
            return None
        return HeartbeatFields(self._settings.max_poll_interval_ms, *found, self._assignor, self.assignment.owned())

    def _heartbeat(self, now: float) -> Request | None:
        fields = self._fields() if self._may_send and self._failures.may_send(now) else None
        if fields is None:
            return None
        is_urgent = self.state is _S.ACKNOWLEDGING or self._known.fields not in (None, fields)
        if not is_urgent and not self._next.is_over(now):
            return None
        lowest = REGEX_SINCE if fields.regex is not None else 0
        self._known.written = None
        self._failures.heartbeat_sent(now)
        return self._send_heartbeat(ConsumerGroupHeartbeatRequest, self._build, now, None, lowest)

    def _build(self, version: int) -> Message:
        fields = self._fields()
        if fields is None:
            raise KafkaProtocolError("the subscription has ended before the heartbeat was written")
        self._known.wrote(fields)
        had_regex = self._known.may_have_regex and version >= REGEX_SINCE
        return heartbeat(self.identity, self._rack, fields, self._known.fields, had_regex=had_regex)

    def _answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        if getattr(error, "code", None) == Code.GROUP_ID_NOT_FOUND and self.identity.is_member:
            # The coordinator has removed this member, and then the group; or it has made the group a classic one again,
            # as only members of the classic protocol were left. A join can make it a consumer group once more.
            action = Action.RESET_GENERATION
        if error is None:
            error = self._accept(answer.response, now)
            action = Action.RETRY
        if error is not None:
            self._failed(action, error, now)

    def _accept(self, response: ConsumerGroupHeartbeatResponse, now: float) -> KafkaError | None:
        """Take over the epoch and the assignment of a response; return an error if one of them is invalid."""
        who = self.identity
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
        sent_at, is_join = self._heartbeats.sent_at, not who.is_member
        self._next.set(sent_at + self.heartbeat_interval)
        is_session = not is_join and self._known.fields is not None
        self._gaps = self._gaps.confirmed(sent_at, is_first=is_join, is_session=is_session)
        self._known.answered(is_join=is_join)
        self.stats.heartbeat.add(now - sent_at)
        self._note_accepted(sent_at, now)
        self._failures.recovered(now)
        if is_join:
            self.assignment.joined()
            self.stats.joins.add(now - sent_at)
            target = target if target is not None else frozenset()
        else:  # a join ends no backoff: the next heartbeat may end the membership again
            self._failures.heartbeat_succeeded()
        self._receive(target, now)
        self._check_acknowledged(now)
        return None

    def _receive(self, target: PartitionIds | None, now: float) -> None:
        if target is None or target == self.assignment.target or self.state not in ACTIVE:
            return
        unseen = (self.assignment.target or frozenset()) - target - self.assignment.owned()
        self._known.count_as_owned(unseen)
        if self._began_at is None:
            self._began_at = now
        self._move(_E.RECEIVED)
        # Last: if Ctrl-C comes before this line, the assignment still counts as a new one when it is repeated.
        self.assignment.receive(target)

    def _check_acknowledged(self, now: float) -> None:
        """Leave ACKNOWLEDGING once the coordinator has received the owned partitions."""
        known = self._known.fields
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
        self._send_all_fields(now)  # the coordinator may or may not have processed the last one
        self.stats.failed += not self.identity.is_member
        self._failures.note(action, error, ConsumerGroupHeartbeatRequest, now)
        if action is Action.GIVE_UP:
            self._expel(_E.REFUSED, error)
        elif action is Action.RESET_GENERATION:
            self._failures.back_off(now, at_once=True)
            self._expel(_E.EXPELLED, error)
        else:
            at_once = action in (Action.FIND_COORDINATOR, Action.WAIT_FOR_COORDINATOR)  # ``Coordinator`` backs off
            self._failures.back_off(now, at_once=at_once, at_maximum=action is Action.RAISE)

    def _expel(self, event: ConsumerMemberEvent, error: KafkaError) -> None:
        """Drop the epoch at once; the state changes when the listener, if it runs, has returned."""
        self._note_expulsion(error, is_final=event is _E.REFUSED)
        self.identity = self.identity.outside()
        self.unconfirmed = str(error)
        self._known.may_have_member = False
        self._expulsion = event
        self._settle()

    def _settle(self) -> bool:
        if self._expulsion is None or self._is_working or self.state not in ACTIVE:
            return False
        event, self._expulsion = self._expulsion, None
        self._has_to_lose = True
        self._fail_reconciliation()
        self._move(event)
        if event is _E.REFUSED:
            self._coordinator.unwant(self.asker)
        return True

    def _fail_reconciliation(self) -> None:
        """Count a reconciliation that the end of the membership cuts off as a failed rebalance, as Java does."""
        self.stats.failed += self._began_at is not None
        self._began_at = None

    def _join_anew(self) -> None:
        self._send_all_fields(-NEVER)
        self.unconfirmed = None

    def restart(self, now: float) -> None:
        super().restart(now)
        self._known.fields = None
        self.assignment.restart()

    def _task(self, now: float, *, every: bool) -> Task | None:
        if not every:
            return None  # only a task that calls no listener is asked for, and each of these may call one
        if self.state is _S.RECONCILING:
            is_due = self.assignment.is_due or self.assignment.is_complete
            return partial(self.assignment.advance, self.identity.generation_id) if is_due else None
        is_lost = self.state in (_S.FENCED, _S.STALE) or (self.state is _S.FATAL and self._has_to_lose)
        return self._lose if is_lost else None

    def _worked(self, failure: Exception | None, now: float, *, has_moved: bool) -> None:
        # A call inside the listener, such as unsubscribe() or a commit, may have ended this membership.
        if failure is None and self.state is _S.RECONCILING:
            self._move(_E.RECONCILED)
            self._check_acknowledged(now)

    def _lose(self, now: float) -> bool:
        state, self._has_to_lose = self.state, False
        try:
            self.assignment.lose(now)
        finally:
            if self.state is state and state is not _S.FATAL:
                self._move(_E.LOST)
                self._join_anew()
        return True
