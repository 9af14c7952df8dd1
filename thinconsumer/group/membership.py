"""A member of a group: what both group protocols have in common, and the interface for the rest of the client.

``classic/member.py`` implements the protocol of JoinGroup and SyncGroup, in which a leader computes the assignment, and
``consumer/member.py`` the consumer group protocol (KIP-848).
"""

from __future__ import annotations

import enum
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import KafkaError
from ..failures import Action
from ..network.request import Answer, Request, Target
from ..support.lazy_dataclass import dataclass, field
from ..support.state_machine import next_state
from ..support.timers import NEVER, Random
from ..types import TopicPartition
from ..wire import Message
from .coordinator import MEMBERSHIP, Coordinator, GroupSettings, judge
from .coordinator_requests import CoordinatorRequests, LeaveAttempt
from .identity import NO_GENERATION, Identity
from .join_failures import JoinFailurePolicy

log = logging.getLogger(__name__)

#: Seconds until an unfinished task is called again (a revocation may wait for a commit). Meanwhile, steps of the engine
#: send requests and receive responses.
PAUSE = 0.01

#: A part of a rebalance that runs outside of steps, since it may call a listener or an assignor. It gets the current
#: time, and returns whether it is done; if not, it is called again after :data:`PAUSE`.
Task = Callable[[float], bool]


class Membership(ABC):
    """A member of a group, which is also a manager of the engine. None of its methods waits for a response.

    Steps call no user code. A member that waits for its listener reports so by :meth:`has_work`, and goes on when
    :meth:`work` is called: ``poll`` calls it, ``drive`` does not.
    """

    asker = "member"
    #: Whether the member uses the consumer group protocol (KIP-848), so that its generation is a member epoch.
    has_epochs = False
    _TRANSITIONS: Mapping[Any, Mapping[Any, Any]]
    #: The callback that may run in a state, by its name in the metrics; see also :attr:`callback`.
    _CALLBACKS: Mapping[Any, str]

    def __init__(
        self, settings: GroupSettings, identity: Identity, state: enum.Enum, coordinator: Coordinator, random: Random
    ) -> None:
        #: The state in the protocol's state machine; its ``value`` is for log lines, health and errors.
        self.state: Any = state
        self.identity = identity
        #: The reason for polls to return no records: the membership may have ended, so other members may own the
        #: partitions by now. None if polls may return records.
        self.unconfirmed: str | None = None
        self.heartbeat_interval = settings.heartbeat_interval_ms / 1000  #: Seconds between two heartbeats.
        self.stats = MemberStats()
        #: Closes a connection on which the coordinator holds back a response that the member no longer needs.
        self.drop_connection: Callable[[Target], None] = lambda target: None
        self._settings = settings
        self._coordinator = coordinator
        self._random = random
        self._failures = JoinFailurePolicy(settings, identity.group_id, random, coordinator.agenda)
        self._heartbeats = CoordinatorRequests(self.asker, settings, coordinator, random, MEMBERSHIP)
        self._next = coordinator.agenda.alarm()  #: When the next heartbeat is due, if nothing has changed.
        self._next.expire()
        #: The requests of other APIs than the heartbeat's.
        self._requests: dict[type[Message], CoordinatorRequests] = {}
        self._called_at: float | None = None  #: When the application last called any method.
        self._poll_interval = settings.max_poll_interval_ms / 1000
        #: When ``max_poll_interval_ms`` have passed since the last ``poll`` (KIP-62); not set before the first one.
        self._overdue = coordinator.agenda.alarm()
        self._leave_attempt: LeaveAttempt | None = None
        self._resubscribe: str | None = None  #: The reason to join again as soon as the member has left.
        self._awaits_poll = False  #: Whether the member joins only after the next ``poll``.
        #: The end of the last gap between calls that the membership may not have survived. Only a response to a request
        #: sent after this moment proves that the coordinator has kept the member in the group.
        self._unconfirmed_since = -NEVER
        self._expulsion: Any = None  #: How the membership has ended, until the state shows it; else None.
        self._is_working = False  #: Whether a task is running.
        self._listener_may_have_run = False  #: Whether a rebalance listener may have run since the last step.
        self._moves = 0  #: Number of transitions: :meth:`work` detects one made while a task ran.
        self._pause = coordinator.agenda.alarm()  #: When to call an unfinished task again.

    # -- state

    @property
    def situation(self) -> str:
        """The state in words for health; in a reconciliation (KIP-848), with what is left of it."""
        return str(self.state.value)

    @property
    def error(self) -> KafkaError | None:
        """The last response's error, which polls raise, if it lasts until the application acts; else None."""
        return self._failures.error

    @property
    def is_outside(self) -> bool:
        """Whether the member is in no group, or about to leave it."""
        return self.state.name in ("UNSUBSCRIBED", "LEAVING")

    @property
    def has_left(self) -> bool:
        """Whether the member is in no group, and its request to leave is over, if there was one."""
        return bool(self.state.name == "UNSUBSCRIBED")

    @property
    def has_sent_leave(self) -> bool:
        """Whether the request to leave was written, or there is none. It may have no response yet."""
        return self._leave_attempt is None or self._leave_attempt.is_written

    @property
    def is_settled(self) -> bool:
        """Whether the member has its assignment, and no rebalance is in progress."""
        return bool(self.state.name == "STABLE")

    @property
    @abstractmethod
    def rebalancing(self) -> bool:
        """Whether the member is joining, so that the coordinator may reject its commits."""

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether the response to a request in flight tells more about the membership than an error of a commit."""
        return False

    @property
    def callback(self) -> str | None:
        """The listener's callback that :meth:`work` may call next: revoked, assigned or lost; None if it calls none."""
        return self._CALLBACKS.get(self.state)

    @property
    def delays_group(self) -> bool:
        """Whether the other members wait for :meth:`work`, so that blocking calls run it as well as polls."""
        return False

    def owned_since(self, tp: TopicPartition) -> int:
        """Return the member epoch in which the partition was assigned; -1 without epochs, or if it is not owned."""
        return NO_GENERATION

    # -- calls of the application

    @abstractmethod
    def subscribe(self, reason: str) -> None:
        """Join the group. After a final error this has no effect until :meth:`leave`."""

    @abstractmethod
    def request_rejoin(self, reason: str) -> None:
        """Make the group rebalance, if the protocol lets a member do so (KIP-568)."""

    @abstractmethod
    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        """Leave the group without callbacks: the caller revokes the owned partitions first.

        ``leave_group``: whether to tell the coordinator that the member does not return. By default a dynamic member
        tells it; a static member does not, so that it may restart within its session without a rebalance (KIP-345,
        KIP-1092).
        """

    @abstractmethod
    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        """Return the connection that the request of :meth:`leave` would use now; None if no request would be sent.

        The caller of :meth:`leave` may have it opened while commits still wait for their responses.
        """

    def called(self, now: float, *, polls: bool = False) -> None:
        """Note a call of the application, and whether it is a ``poll``, for which the member may have waited to join.

        There is no heartbeat thread: the client sends heartbeats only while the application calls it. After a gap that
        the membership may not have survived, :attr:`unconfirmed` is set.
        """
        before, self._called_at = self._called_at, now
        if before is not None and now - before > self.heartbeat_interval:
            self._came_back(now - before, now)
        if polls:
            # The join that is now due needs no ``touch`` of the agenda: if a public call has made the member wait for a
            # poll, all managers step after that call; if the end of a membership has, this poll calls the listener, and
            # then steps.
            self._overdue.set(now + self._poll_interval)
            self._awaits_poll = False

    @abstractmethod
    def _came_back(self, gap: float, now: float) -> None:
        """React to a gap between two calls that is longer than the heartbeat interval; see :meth:`called`.

        A heartbeat is due anyway, since the last one was sent before the gap.
        """

    def withholds(self, *, may_wait: bool) -> bool:
        """Return whether polls return no records now, see :attr:`unconfirmed`.

        ``may_wait`` tells whether the poll can still wait for a response. If it cannot, a member may decide by earlier
        responses.
        """
        return self.unconfirmed is not None

    @abstractmethod
    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Act on a membership error that a commit under ``identity`` returned, unless the identity has changed."""

    # -- a manager of the engine

    @abstractmethod
    def step(self, now: float) -> list[Request]:
        """Return the requests that are due."""

    def handle(self, answer: Answer, now: float) -> None:
        """Process a response of the coordinator; drop the response to an abandoned request."""
        attempt = self._leave_attempt
        requests = self._requests.get(answer.request.api, self._heartbeats)
        if attempt is not None and answer.request is attempt.in_flight:
            requests = attempt
        if not requests.take(answer):
            return
        action, error = judge(answer, self.identity.group_id)
        self._coordinator.report(action, error, answer, now)
        if requests is not attempt:
            self._answered(action, error, answer, now)
            return
        attempt.answered(now, again=action in (Action.FIND_COORDINATOR, Action.WAIT_FOR_COORDINATOR, Action.RETRY))
        if attempt.is_over:
            self._leave_attempt = None

    @abstractmethod
    def _answered(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        """Process the response to any request but the one to leave."""

    def restart(self, now: float) -> None:
        """Send the requests in flight again: the engine restart closed all connections, so no response can arrive."""
        self._is_working = False
        self._heartbeats.restart()
        self._next.expire()
        if self._leave_attempt is not None:
            self._leave_attempt.restart()

    # -- callbacks, between two steps

    def has_work(self, now: float, *, every: bool = True) -> bool:
        """Return whether :meth:`work` has a task to run; without ``every``, a task that calls no listener."""
        return not self._is_working and not self._pause.is_ahead(now) and self._task(now, every=every) is not None

    def work(self, now: float, *, every: bool = True) -> bool:
        """Run the task that is due, which may call the listener or an assignor; their exceptions propagate.

        Return whether a task is done: False if none was due, or if the task is to be called again after :data:`PAUSE`.
        Without ``every``, only a task that calls no listener is run.
        """
        task = None if self._is_working or self._pause.is_ahead(now) else self._task(now, every=every)
        if task is None:
            return False
        before, is_done, failure = self._moves, False, None
        self._is_working, self._listener_may_have_run = True, every
        try:
            is_done = task(now)
            if not is_done:
                self._pause.set(now + PAUSE)
        except Exception as error:  # noqa: BLE001 - from a listener or assignor; raised again below
            failure = error
        finally:
            self._is_working = False
            self._coordinator.agenda.touch()
        if (self._expulsion is None or not self._settle()) and (is_done or failure is not None):
            self._worked(failure, now, has_moved=self._moves != before)
        if failure is not None:
            raise failure
        return is_done

    @abstractmethod
    def _task(self, now: float, *, every: bool) -> Task | None:
        """Return the task that is due, or None; without ``every``, only one that calls no listener."""

    @abstractmethod
    def _worked(self, failure: Exception | None, now: float, *, has_moved: bool) -> None:
        """Go on after a task that is done or has failed. ``has_moved``: a call inside the task has changed the state.

        A call of :meth:`leave` changes the state. A step can change it, too, if the task's user code has caught Ctrl-C
        in a call of the client: the next call of the client begins with :meth:`restart`, after which no task counts as
        running.
        """

    @abstractmethod
    def _settle(self) -> bool:
        """Change the state after an expulsion, once no task is running; return whether the state has changed."""

    # -- for both protocols

    def _move(self, event: enum.Enum) -> None:
        after = next_state(self._TRANSITIONS, self.state, event, self)
        states = self.state.value, after.value, event.value
        log.debug("group %s: member state %s -> %s (%s)", self.identity.group_id, *states)
        self._moves += 1
        self.state = after

    def _missed_polls(self, now: float) -> str:
        """Log that the member leaves, as ``max_poll_interval_ms`` has passed without a poll; return this reason."""
        seconds, limit = now - self._overdue.at + self._poll_interval, self._settings.max_poll_interval_ms
        why = f"{seconds:.1f} s between polls, max_poll_interval_ms={limit}"
        log.warning("group %s: %s: left the group; the next poll joins again", self.identity.group_id, why)
        return why

    def _note_listener(self, now: float) -> None:
        """Count a listener that has returned as a poll: max_poll_interval_ms does not limit a listener."""
        self._listener_may_have_run = False
        self._overdue.set(now + self._poll_interval)

    def _note_accepted(self, sent_at: float, now: float) -> None:
        """Note that the coordinator has accepted a request that the member sent at ``sent_at``.

        If the member sent it after the last gap that was too long, polls may return records again.
        """
        self.stats.answered_at = now
        if sent_at >= self._unconfirmed_since:
            self.unconfirmed = None

    def _note_expulsion(self, error: KafkaError, *, is_final: bool, is_expected: bool = False) -> None:
        """Count and log an expulsion: at INFO if it was likely, as after a long gap. A final error has been logged."""
        self.stats.expulsions += 1
        if not is_final:
            is_expected = is_expected or self.unconfirmed is not None or not self.identity.is_member
            level = logging.INFO if is_expected else logging.WARNING
            self._failures.log_limited(level, "group %s: expelled: %s", self.identity.group_id, error)

    def _start_leave_attempt(
        self, api: type[Message], message: Callable[[int], Message], now: float, channel: str, min_version: int = 0
    ) -> None:
        parts = self.asker, self._settings, self._coordinator, self._random, channel
        self._leave_attempt = LeaveAttempt(*parts, api, message, now, min_version=min_version)

    def _send_heartbeat(
        self, api: type[Message], message: Callable[[int], Message], now: float, timeout: float | None, min_version: int
    ) -> Request:
        """Return a heartbeat; the next one is due after the interval."""
        self.stats.heartbeats += 1
        self._next.set(now + self.heartbeat_interval)
        deadline = None if timeout is None else now + timeout
        return self._heartbeats.send(api, message, now, deadline=deadline, min_version=min_version)

    def _leave_request(self, now: float) -> Request | None:
        """Return the request to leave, if one is due; forget an attempt that is over."""
        attempt = self._leave_attempt
        if attempt is None:
            return None
        request = attempt.step(now)
        if attempt.is_over:
            self._leave_attempt = None
        return request


@dataclass(slots=True)
class Timing:
    """Count how often an operation was done, and how long it took in seconds."""

    count: int = 0
    last: float = 0.0
    total: float = 0.0
    highest: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.last = seconds
        self.total += seconds
        self.highest = max(self.highest, seconds)


@dataclass(slots=True)
class MemberStats:
    """Hold a member's counters since it was created; times are monotonic seconds, None before the first event."""

    heartbeats: int = 0  #: Heartbeats sent.
    answered_at: float | None = None  #: When the last heartbeat, JoinGroup or SyncGroup succeeded.
    heartbeat: Timing = field(default_factory=Timing)  #: From each heartbeat to its response.
    joins: Timing = field(default_factory=Timing)
    syncs: Timing = field(default_factory=Timing)
    rebalances: Timing = field(default_factory=Timing)  #: Rebalances; KIP-848: reconciliations, until acknowledged.
    #: Requests to join or to sync that failed, and reconciliations (KIP-848) that the end of the membership cut off.
    failed: int = 0
    rebalanced_at: float | None = None
    expulsions: int = 0
