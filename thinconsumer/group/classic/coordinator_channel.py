"""A member's requests in flight to its coordinator: which request may follow, and when to stop waiting.

No request may follow a JoinGroup or SyncGroup on the membership connection until its response has arrived: the
coordinator holds back these responses until the whole group has joined or synced, and reads no later request on the
connection, such as a heartbeat, before it has responded.
"""

from collections.abc import Callable
from functools import partial

from ...connection.request import Answer, Request, Target
from ...timers import Random
from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest
from ...wire.leave_group import LeaveGroupRequest
from ...wire.sync_group import SyncGroupRequest
from ..coordinator import LEAVING_CONNECTION, MEMBERSHIP, Coordinator
from ..coordinator_requests import CoordinatorRequests
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
        #: JoinGroup and SyncGroup.
        self.rebalances = CoordinatorRequests(asker, settings, coordinator, random, MEMBERSHIP)
        self.heartbeats = Heartbeats(asker, settings, coordinator, random)
        self.leave_attempt: LeaveAttempt | None = None
        self.connections_to_drop: list[Target] = []

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
        if not self.rebalances.is_open:
            return None
        lowest = requests.lowest_version(api, self._current_identity())
        return self.rebalances.send(
            api, self._message(message), now, deadline=now + timeout, min_version=lowest, held_back=held_back
        )

    def _message(self, message: Callable[[Identity], Message]) -> Callable[[int], Message]:
        return lambda version: message(self._current_identity())

    def heartbeat(self, now: float) -> Request | None:
        """Return a Heartbeat request, if one is due."""
        if not self.rebalances.is_open or now < self.heartbeats.due_at():
            return None
        lowest = requests.lowest_version(HeartbeatRequest, self._current_identity())
        return self.heartbeats.beat(self._message(requests.heartbeat), now, lowest)

    def take(self, answer: Answer) -> bool:
        """End the request in flight; return False if the answer is to an abandoned one, which is to be dropped."""
        if answer.request.api is LeaveGroupRequest:
            return self.leave_attempt is not None and self.leave_attempt.take(answer)
        return (self.heartbeats if answer.request.api is HeartbeatRequest else self.rebalances).take(answer)

    def leave_target(self, leave_group: bool | None = None) -> Target | None:
        """Return where a LeaveGroup would be sent now; None if there is none to send, or the coordinator is unknown."""
        if not self.sends_leave(leave_group):
            return None
        return self._coordinator.target(MEMBERSHIP if self.rebalances.in_flight is None else LEAVING_CONNECTION)

    def sends_leave(self, leave_group: bool | None) -> bool:
        """Return whether the member sends LeaveGroup: by default a dynamic one does, a static one not (KIP-345)."""
        identity = self._current_identity()
        is_told = identity.group_instance_id is None if leave_group is None else leave_group
        return is_told and bool(identity.member_id)

    def start_leave(self, reason: str, now: float) -> None:
        """Start a LeaveGroup, on a connection that no unanswered JoinGroup or SyncGroup blocks."""
        channel = MEMBERSHIP if self.rebalances.in_flight is None else LEAVING_CONNECTION
        identity = self._current_identity()
        message = partial(requests.leave, identity, reason)
        lowest = requests.lowest_version(LeaveGroupRequest, identity)
        self.leave_attempt = LeaveAttempt(
            self._asker, self._settings, self._coordinator, self._random, channel, LeaveGroupRequest, message, now,
            min_version=lowest,
        )  # fmt: skip

    def leave_request(self, now: float) -> Request | None:
        """Return the LeaveGroup, if one is due."""
        if self.leave_attempt is None:
            return None
        if self.rebalances.in_flight is not None:
            self.leave_attempt.channel = LEAVING_CONNECTION
        request = self.leave_attempt.step(now)
        if self.leave_attempt.is_over:
            self.leave_attempt = None
        return request

    def leave_answered(self, now: float, *, again: bool) -> None:
        """Process the LeaveGroup response. With ``again`` the coordinator has not processed the request: repeat it."""
        if self.leave_attempt is not None:
            self.leave_attempt.answered(now, again=again)
            self.leave_attempt = None if self.leave_attempt.is_over else self.leave_attempt

    def withdraw_unwritten(self) -> None:
        """Withdraw an unwritten JoinGroup or SyncGroup and abandon the heartbeat: their membership has ended."""
        self.heartbeats.in_flight = None
        if not self.rebalances.is_written:
            self.rebalances.in_flight = None

    def abandon_rebalance_request(self) -> None:
        """Abandon a JoinGroup or SyncGroup in flight, and close its connection: later requests would wait behind it."""
        self._drop(self.rebalances.in_flight)
        self.rebalances.in_flight = None

    def abandon_if_moved(self, now: float) -> bool:
        """Abandon requests to a former coordinator; return whether a JoinGroup or SyncGroup was among them."""
        request = self.rebalances.abandon_if_moved()
        self._drop(request)
        heartbeat = self.heartbeats.abandon_if_moved()
        if heartbeat is not None:
            self._drop(heartbeat)
            self.heartbeats.failed(now)
        return request is not None

    def _drop(self, request: Request | None) -> None:
        if request is not None and request.target not in self.connections_to_drop:
            self.connections_to_drop.append(request.target)

    def restart(self) -> None:
        """Forget the JoinGroup or SyncGroup in flight; repeat heartbeat and LeaveGroup after the engine restart."""
        self.rebalances.restart()
        self.heartbeats.restart()
        self.connections_to_drop.clear()
        if self.leave_attempt is not None:
            self.leave_attempt.restart()
