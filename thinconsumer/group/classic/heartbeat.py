"""The deadlines of a member's session with the coordinator: when the next heartbeat is due (KIP-62)."""

from ...connection.request import Request
from ...timers import NEVER, Backoff, Random, Retry
from ..settings import GroupSettings


class Heartbeats:
    """Decide when the next heartbeat is due. At most one is in flight."""

    def __init__(self, settings: GroupSettings, random: Random) -> None:
        self.interval = settings.heartbeat_interval_ms / 1000
        self.session = settings.session_timeout_ms / 1000
        #: Seconds until a Heartbeat request times out; a response after the session timeout would be too late.
        self.timeout = min(settings.request_timeout_ms / 1000, self.session)
        self._retry = Retry(Backoff.from_settings(settings), random)
        self._due = -NEVER
        self.in_flight: Request | None = None
        self.sent_at = -NEVER

    def due_at(self) -> float:
        """Return when the next heartbeat is due; NEVER while one is in flight."""
        return NEVER if self.in_flight is not None else max(self._due, self._retry.not_before)

    def sent(self, request: Request, now: float) -> None:
        self.in_flight = request
        self.sent_at = now
        self._due = now + self.interval

    def answered(self) -> None:
        """End the backoff after a response without an error or with REBALANCE_IN_PROGRESS: the coordinator works."""
        self.in_flight = None
        self._retry.succeeded()

    def failed(self, now: float, *, after_interval: bool = False) -> None:
        """Back off after a failed heartbeat; with ``after_interval``, also wait for ``heartbeat_interval_ms``."""
        self.in_flight = None
        self._retry.failed(now)
        if not after_interval:
            self._due = now

    def session_restarted(self, now: float) -> None:
        """Note a successful JoinGroup or SyncGroup: the coordinator restarted the session timeout."""
        self.answered()
        self._due = now + self.interval

    def restart(self, now: float) -> None:
        """Make a heartbeat due at once: the engine restart closed all connections, so one in flight has no response."""
        self.answered()
        self._due = now
