"""The Heartbeat requests of a member, and when the next one is due (KIP-62)."""

from collections.abc import Callable

from ...network.request import Request
from ...support.timers import NEVER, Random
from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest
from ..coordinator import MEMBERSHIP, Coordinator
from ..coordinator_requests import CoordinatorRequests
from ..settings import GroupSettings


class Heartbeats(CoordinatorRequests):
    """Send heartbeats at the interval ``heartbeat_interval_ms``, at most one at a time."""

    def __init__(self, asker: str, settings: GroupSettings, coordinator: Coordinator, random: Random) -> None:
        super().__init__(asker, settings, coordinator, random, MEMBERSHIP)
        self.interval = settings.heartbeat_interval_ms / 1000
        self.session = settings.session_timeout_ms / 1000
        #: Seconds until a Heartbeat request times out; a response after the session timeout would be too late.
        self._timeout = min(settings.request_timeout_ms / 1000, self.session)
        self._next = coordinator.agenda.alarm()
        self._next.set(-NEVER)

    def is_due(self, now: float) -> bool:
        """Return whether a heartbeat is due and may be sent."""
        return self._next.is_over(now) and self.may_send(now)

    def beat(self, message: Callable[[int], Message], now: float, min_version: int) -> Request:
        """Return a heartbeat with this content; the next one is due after the interval."""
        self._next.set(now + self.interval)
        return self.send(HeartbeatRequest, message, now, deadline=now + self._timeout, min_version=min_version)

    def failed(self, now: float, *, after_interval: bool = False) -> None:
        """Back off after a failed heartbeat; with ``after_interval``, also wait for ``heartbeat_interval_ms``."""
        self.retry.failed(now)
        if not after_interval:
            self._next.set(now)

    def session_restarted(self, now: float) -> None:
        """Note a successful JoinGroup or SyncGroup: the coordinator restarted the session timeout."""
        super().restart()
        self._next.set(now + self.interval)

    def restart(self) -> None:
        """Make a heartbeat due at once: the engine restart closed all connections, so one in flight has no response."""
        super().restart()
        self._next.set(-NEVER)
