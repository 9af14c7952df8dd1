"""A member's requests in flight to its coordinator: which request may follow, and when to stop waiting.

Owns the rule that nothing follows a JoinGroup or SyncGroup on the membership connection: the coordinator holds back
their responses until the whole group has joined or synced, and would read a heartbeat behind one too late. The member
decides what to send and what a response means.
"""

from __future__ import annotations

from collections.abc import Callable

from ...connection.request import Answer, Request, Target
from ...errors import IllegalStateError, KafkaError
from ...failures import Action
from ...timers import NEVER, Random
from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.sync_group import SyncGroupRequest
from ..coordinator import FAREWELL, MEMBERSHIP, Coordinator
from ..identity import Identity
from ..settings import GroupSettings
from . import requests
from .heartbeat import Heartbeats
from .leave_attempt import LeaveGroupAttempt
from .rebalance_attempt import RebalanceAttempt

#: Seconds that a JoinGroup may take beyond the rebalance timeout, as in Java.
JOIN_GRACE = 5.0


class CoordinatorChannel:
    """Hold the requests that one member has in flight to its coordinator."""

    def __init__(self, asker: str, settings: GroupSettings, coordinator: Coordinator, random: Random) -> None:
        self._asker = asker
        self._settings = settings
        self._coordinator = coordinator
        self._random = random
        self._request_timeout = settings.request_timeout_ms / 1000
        self._rebalance_timeout = settings.max_poll_interval_ms / 1000
        self.beats = Heartbeats(settings, random)
        self.out: Request | None = None  #: The JoinGroup or SyncGroup in flight.
        self.out_at = 0.0
        self._is_written = False  #: Whether ``out`` was written; else it waits for its connection.
        self.farewell: LeaveGroupAttempt | None = None
        self.drops: list[Target] = []

    @property
    def is_open(self) -> bool:
        """Whether the coordinator is known, and no JoinGroup or SyncGroup is in flight."""
        return self.out is None and self._coordinator.target(MEMBERSHIP) is not None

    @property
    def is_asking(self) -> bool:
        """Whether a JoinGroup or SyncGroup was written and has no response yet."""
        return self.out is not None and self._is_written

    # -- requests

    def join(
        self, who: Callable[[], Identity], protocol_type: str, attempt: RebalanceAttempt, now: float
    ) -> Request | None:
        """Return a JoinGroup request, if the channel is open."""

        def message() -> Message:
            protocols = attempt.protocols or ()
            return requests.join(self._settings, who(), protocol_type, protocols, attempt.reason)

        patience = max(self._request_timeout, self._rebalance_timeout + JOIN_GRACE)
        return self._hold(JoinGroupRequest, who(), message, now, patience, self._rebalance_timeout)

    def sync(
        self, who: Callable[[], Identity], protocol_type: str, attempt: RebalanceAttempt, now: float
    ) -> Request | None:
        """Return a SyncGroup request, if the channel is open. A follower's response is held back for the leader's."""

        def message() -> Message:
            return requests.sync(who(), protocol_type, attempt.protocol, attempt.plan or {})

        held_back = 0.0 if attempt.leads else self._request_timeout
        return self._hold(SyncGroupRequest, who(), message, now, self._request_timeout, held_back)

    def _hold(
        self,
        api: type[Message],
        who: Identity,
        message: Callable[[], Message],
        now: float,
        patience: float,
        held: float,
    ) -> Request | None:
        if not self.is_open:
            return None
        self.out = self._request(api, who, message, now + patience, held)
        self.out_at = now
        self._is_written = False
        return self.out

    def beat(self, who: Callable[[], Identity], now: float) -> Request | None:
        """Return a Heartbeat request, if one is due."""
        if not self.is_open or now < self.beats.due_at():
            return None
        deadline = now + self.beats.timeout
        request = self._request(HeartbeatRequest, who(), lambda: requests.heartbeat(who()), deadline, 0.0)
        self.beats.sent(request, now)
        return request

    def _request(
        self, api: type[Message], who: Identity, message: Callable[[], Message], deadline: float, held_back: float
    ) -> Request:
        target = self._coordinator.target(MEMBERSHIP)
        if target is None:
            raise IllegalStateError("there is no coordinator to talk to")

        def build(version: int) -> Message:
            if request is not self.out and request is not self.beats.out:
                raise IllegalStateError("this request was abandoned before it was written")
            self._is_written = self._is_written or request is self.out
            return message()

        lowest = requests.lowest_version(api, who)
        request = Request(
            self._asker, api, target, build, deadline, context=who, min_version=lowest, held_back=held_back
        )
        return request

    # -- responses

    def awaits(self, request: Request) -> bool:
        """Return whether this request is in flight and was not abandoned."""
        return request in (self.out, self.beats.out) or (self.farewell is not None and request is self.farewell.out)

    def report(self, action: Action, error: KafkaError | None, answer: Answer, now: float) -> None:
        """Report to ``Coordinator`` whether a response, or a missing one, shows it to be lost, loading or alive."""
        node_id = answer.request.target.node_id
        if action is Action.FIND_COORDINATOR:
            self._coordinator.lost(node_id, str(error), now)
        elif action is Action.WAIT_FOR_COORDINATOR:
            self._coordinator.loading(now)
        elif answer.response is not None:
            self._coordinator.answered(node_id)

    # -- leaving

    def say_goodbye(self, who: Identity, reason: str, now: float) -> None:
        """Start a LeaveGroup, on a connection without an unanswered JoinGroup or SyncGroup."""
        channel = MEMBERSHIP if self.out is None else FAREWELL
        self.farewell = LeaveGroupAttempt(self._settings, who, reason, channel, now, self._random)

    def goodbye(self, now: float) -> Request | None:
        """Return the LeaveGroup, if one is due."""
        if self.farewell is None:
            return None
        channel = self.farewell.channel if self.out is None else FAREWELL
        request = self.farewell.step(self._asker, self._coordinator.target(channel), now)
        if self.farewell.over:
            self.farewell = None
        return request

    def goodbye_answered(self, now: float, *, again: bool) -> None:
        """Take the response to LeaveGroup; with ``again`` the coordinator did not process it, and it is retried."""
        if self.farewell is not None:
            self.farewell.answered(now, again=again)
            self.farewell = None if self.farewell.over else self.farewell

    def goodbye_at(self) -> float:
        """Return when :meth:`goodbye` is due next."""
        return NEVER if self.farewell is None else self.farewell.wake_at(self._coordinator.target(MEMBERSHIP))

    # -- abandoned requests

    def take_back(self) -> None:
        """Withdraw an unwritten JoinGroup or SyncGroup, which has a dropped member id, and abandon the heartbeat."""
        self.beats.forget()
        if self.out is not None and not self._is_written:
            self.out = None

    def hang_up(self) -> None:
        """Abandon a JoinGroup or SyncGroup in flight and close its connection, which it would block."""
        if self.out is not None:
            self._drop(self.out.target)
            self.out = None

    def doubt(self, now: float) -> bool:
        """Report to ``Coordinator`` since when a response is pending; abandon requests to a former coordinator.

        Return whether a JoinGroup or SyncGroup was abandoned.
        """
        node_id = self._coordinator.node_id
        if node_id is None:
            return False  # FindCoordinator may name the same node again
        moved = self.out is not None and self.out.target.node_id != node_id
        if moved:
            self.hang_up()
        if self.beats.out is not None and self.beats.out.target.node_id != node_id:
            self._drop(self.beats.out.target)
            self.beats.failed(now)
        waits = [self.out_at] if self.out is not None else []
        waits += [self.beats.sent_at] if self.beats.out is not None else []
        self._coordinator.waiting(min(waits, default=None), now, self._asker)
        return moved

    def _drop(self, target: Target) -> None:
        if target not in self.drops:
            self.drops.append(target)

    def restart(self, now: float) -> None:
        """Forget requests in flight: after a restart of the engine their responses cannot arrive."""
        self.out = None
        self.beats.forget()
        self.beats.hurry(now)
        self.drops.clear()
        if self.farewell is not None:
            self.farewell.restart()
