"""A member's requests in flight to its coordinator: which request may follow, and when to stop waiting.

No request may follow a JoinGroup or SyncGroup on the membership connection until its response has arrived: the
coordinator holds back these responses until the whole group has joined or synced, and reads no later request on the
connection, such as a heartbeat, before it has responded.
"""

from collections.abc import Callable
from functools import partial

from ...connection.request import Request, Target
from ...errors import IllegalStateError
from ...timers import NEVER, Random
from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.leave_group import LeaveGroupRequest
from ...wire.sync_group import SyncGroupRequest
from ..coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator
from ..identity import Identity
from ..leave_attempt import LeaveAttempt
from ..settings import GroupSettings
from . import requests
from .heartbeat import Heartbeats
from .rebalance_attempt import RebalanceAttempt

#: Seconds that a JoinGroup may take beyond the rebalance timeout, as in Java.
JOIN_GRACE = 5.0


class CoordinatorChannel:
    """Build the requests of one member to its coordinator, and track those in flight."""

    def __init__(
        self,
        asker: str,
        settings: GroupSettings,
        coordinator: Coordinator,
        random: Random,
        current_identity: Callable[[], Identity],
    ) -> None:
        self._asker = asker
        #: Returns the member id and generation. Called when a request is queued, and again when the request is written,
        #: since the membership may change in between.
        self._current_identity = current_identity
        self._settings = settings
        self._coordinator = coordinator
        self._random = random
        self._request_timeout = settings.request_timeout_ms / 1000
        self._rebalance_timeout = settings.max_poll_interval_ms / 1000
        self.heartbeats = Heartbeats(settings, random)
        self.in_flight: Request | None = None  #: The JoinGroup or SyncGroup in flight.
        self.sent_at = 0.0
        self._is_written = False  #: Whether ``in_flight`` was written; False while it waits for its connection.
        self.leave_attempt: LeaveAttempt | None = None
        self.connections_to_drop: list[Target] = []

    @property
    def is_open(self) -> bool:
        """Whether the coordinator is known, and no JoinGroup or SyncGroup is in flight."""
        return self.in_flight is None and self._coordinator.target(MEMBERSHIP) is not None

    @property
    def awaits_rebalance_response(self) -> bool:
        """Whether a JoinGroup or SyncGroup was written and has no response yet."""
        return self.in_flight is not None and self._is_written

    def join(self, protocol_type: str, attempt: RebalanceAttempt, now: float) -> Request | None:
        """Return a JoinGroup; None while the coordinator is unknown, or a JoinGroup or SyncGroup is in flight."""

        def message(identity: Identity) -> Message:
            return requests.join(self._settings, identity, protocol_type, attempt.protocols or (), attempt.reason)

        timeout = max(self._request_timeout, self._rebalance_timeout + JOIN_GRACE)
        return self._send(JoinGroupRequest, message, now, timeout, self._rebalance_timeout)

    def sync(self, protocol_type: str, attempt: RebalanceAttempt, now: float) -> Request | None:
        """Return a SyncGroup request; None in the same cases as :meth:`join`.

        The coordinator responds to followers only after the leader has sent the assignment, so a follower may wait for
        its response as long as the request timeout without a fault of the coordinator.
        """

        def message(identity: Identity) -> Message:
            return requests.sync(identity, protocol_type, attempt.protocol, attempt.plan or {})

        held_back = 0.0 if attempt.leads else self._request_timeout
        return self._send(SyncGroupRequest, message, now, self._request_timeout, held_back)

    def _send(
        self, api: type[Message], message: Callable[[Identity], Message], now: float, timeout: float, held_back: float
    ) -> Request | None:
        if not self.is_open:
            return None
        self.in_flight = self._request(api, message, now + timeout, held_back)
        self.sent_at = now
        self._is_written = False
        return self.in_flight

    def heartbeat(self, now: float) -> Request | None:
        """Return a Heartbeat request, if one is due."""
        if not self.is_open or now < self.heartbeats.due_at():
            return None
        request = self._request(HeartbeatRequest, requests.heartbeat, now + self.heartbeats.timeout, 0.0)
        self.heartbeats.sent(request, now)
        return request

    def _request(
        self, api: type[Message], message: Callable[[Identity], Message], deadline: float, held_back: float
    ) -> Request:
        target = self._coordinator.target(MEMBERSHIP)
        if target is None:
            raise IllegalStateError("cannot build a group request: the coordinator is not known")

        def build(version: int) -> Message:
            if request is not self.in_flight and request is not self.heartbeats.in_flight:
                raise IllegalStateError("this group request was abandoned before it was written")
            self._is_written = self._is_written or request is self.in_flight
            return message(self._current_identity())

        identity = self._current_identity()
        lowest = requests.lowest_version(api, identity)
        request = Request(self._asker, api, target, build, deadline, identity, lowest, held_back=held_back)
        return request

    def awaits(self, request: Request) -> bool:
        """Return whether this request is in flight and was not abandoned."""
        return request in (self.in_flight, self.heartbeats.in_flight) or (
            self.leave_attempt is not None and request is self.leave_attempt.in_flight
        )

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        """Return where a LeaveGroup would be sent now; None if there is none to send, or the coordinator is unknown."""
        if not self.sends_leave(leave_group):
            return None
        return self._coordinator.target(MEMBERSHIP if self.in_flight is None else LEAVING_CONNECTION)

    def sends_leave(self, leave_group: bool | None) -> bool:
        """Return whether the member sends LeaveGroup: by default a dynamic one does, a static one not (KIP-345)."""
        identity = self._current_identity()
        is_told = identity.group_instance_id is None if leave_group is None else leave_group
        return is_told and bool(identity.member_id)

    def start_leave(self, reason: str, now: float) -> None:
        """Start a LeaveGroup, on a connection that no unanswered JoinGroup or SyncGroup blocks."""
        channel = MEMBERSHIP if self.in_flight is None else LEAVING_CONNECTION
        identity = self._current_identity()
        message = partial(requests.leave, identity, reason)
        lowest = requests.lowest_version(LeaveGroupRequest, identity)
        self.leave_attempt = LeaveAttempt(
            self._settings, LeaveGroupRequest, message, channel, now, self._random, min_version=lowest
        )

    def leave_request(self, now: float) -> Request | None:
        """Return the LeaveGroup, if one is due."""
        if self.leave_attempt is None:
            return None
        channel = self.leave_attempt.channel if self.in_flight is None else LEAVING_CONNECTION
        request = self.leave_attempt.step(self._asker, self._coordinator.target(channel), now)
        if self.leave_attempt.is_over:
            self.leave_attempt = None
        return request

    def leave_answered(self, now: float, *, again: bool) -> None:
        """Process the LeaveGroup response. With ``again`` the coordinator has not processed the request: repeat it."""
        if self.leave_attempt is not None:
            self.leave_attempt.answered(now, again=again)
            self.leave_attempt = None if self.leave_attempt.is_over else self.leave_attempt

    def leave_at(self) -> float:
        """Return when :meth:`leave_request` is due next."""
        return NEVER if self.leave_attempt is None else self.leave_attempt.wake_at(self._coordinator.target(MEMBERSHIP))

    def withdraw_unwritten(self) -> None:
        """Withdraw an unwritten JoinGroup or SyncGroup and abandon the heartbeat: their membership has ended."""
        self.heartbeats.in_flight = None
        if self.in_flight is not None and not self._is_written:
            self.in_flight = None

    def abandon_rebalance_request(self) -> None:
        """Abandon a JoinGroup or SyncGroup in flight, and close its connection: later requests would wait behind it."""
        if self.in_flight is not None:
            self._drop(self.in_flight.target)
            self.in_flight = None

    def check_pending(self, now: float) -> bool:
        """Report pending responses to ``Coordinator``, and abandon requests to a former coordinator.

        The report says since when the oldest response is pending: after a long wait, ``Coordinator`` asks other brokers
        whether the group has moved.

        Return whether a JoinGroup or SyncGroup was abandoned.
        """
        node_id = self._coordinator.node_id
        if node_id is None:
            return False  # the coordinator is unknown: keep the requests, FindCoordinator may name the same node again
        moved = self.in_flight is not None and self.in_flight.target.node_id != node_id
        if moved:
            self.abandon_rebalance_request()
        if self.heartbeats.in_flight is not None and self.heartbeats.in_flight.target.node_id != node_id:
            self._drop(self.heartbeats.in_flight.target)
            self.heartbeats.failed(now)
        pending_since = [self.sent_at] if self.in_flight is not None else []
        pending_since += [self.heartbeats.sent_at] if self.heartbeats.in_flight is not None else []
        self._coordinator.waiting(min(pending_since, default=None), now, self._asker)
        return moved

    def _drop(self, target: Target) -> None:
        if target not in self.connections_to_drop:
            self.connections_to_drop.append(target)

    def restart(self, now: float) -> None:
        """Forget the JoinGroup or SyncGroup in flight; repeat heartbeat and LeaveGroup after the engine restart."""
        self.in_flight = None
        self.heartbeats.restart(now)
        self.connections_to_drop.clear()
        if self.leave_attempt is not None:
            self.leave_attempt.in_flight = None
