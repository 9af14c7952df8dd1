"""The deadlines of a member (KIP-62): its session with the coordinator, and the time between two polls.

There is no heartbeat thread: the client sends heartbeats only while the application calls it, so :class:`PollTimer`
measures the gaps between calls.
"""

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


class PollTimer:
    """Record when the application last called any method of the client, and when it last called ``poll``."""

    def __init__(self, settings: GroupSettings) -> None:
        self._poll_interval = settings.max_poll_interval_ms / 1000
        self._called_at: float | None = None
        self.polled_at: float | None = None

    def called(self, now: float) -> float:
        """Note a call; return the seconds since the previous call, 0 for the first."""
        before, self._called_at = self._called_at, now
        return 0.0 if before is None else now - before

    def polled(self, now: float) -> None:
        self.polled_at = now

    def seconds_since_poll(self, now: float) -> float:
        """Return the seconds since the last ``poll``; 0 before the first."""
        return 0.0 if self.polled_at is None else now - self.polled_at

    def overdue_at(self) -> float:
        """Return when ``max_poll_interval_ms`` ends; NEVER before the first ``poll``."""
        return NEVER if self.polled_at is None else self.polled_at + self._poll_interval
