"""The deadlines of a member: its session with the coordinator, and how long its user may stay away.

Owns arithmetic only. Without threads nothing beats by itself: a member that nobody calls is late, and what follows from
that is said in numbers. KIP-62.
"""

from __future__ import annotations

from ...connection.request import Request
from ...timers import NEVER, Backoff, Random, Retry
from ..settings import GroupSettings


class Heartbeats:
    """When the next heartbeat is due. One at a time."""

    def __init__(self, settings: GroupSettings, random: Random) -> None:
        self.interval = settings.heartbeat_interval_ms / 1000
        self.session = settings.session_timeout_ms / 1000
        #: After it the coordinator has given us up, or is none.
        self.timeout = min(settings.request_timeout_ms / 1000, self.session)
        self._retry = Retry(Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000), random)
        self._due = -NEVER
        self.out: Request | None = None  #: Unanswered.
        self.sent_at = -NEVER

    def due_at(self) -> float:
        """Return when to send the next one, if nothing else speaks against it; never while one is out."""
        return NEVER if self.out is not None else max(self._due, self._retry.not_before)

    def sent(self, request: Request, now: float) -> None:
        """Note that one is on its way."""
        self.out = request
        self.sent_at = now
        self._due = now + self.interval

    def answered(self) -> None:
        """Note that it reached the coordinator."""
        self.out = None
        self._retry.succeeded()

    def failed(self, now: float, *, at_leisure: bool = False) -> None:
        """Note that it did not, or was refused: the next one goes after a backoff, or after an interval."""
        self.out = None
        self._retry.failed(now)
        if not at_leisure:
            self._due = now

    def heard(self, now: float) -> None:
        """Note that the coordinator has begun our session anew, as it does with a join and a sync."""
        self.out = None
        self._retry.succeeded()
        self._due = now + self.interval

    def hurry(self, now: float) -> None:
        """Have the next one sent as soon as possible."""
        self._due = now
        self._retry.succeeded()

    def forget(self) -> None:
        """Stop waiting for the one that is out."""
        self.out = None


class PollTimer:
    """When the user was there: in any call that steps us, and in ``poll``."""

    def __init__(self, settings: GroupSettings) -> None:
        self._poll_interval = settings.max_poll_interval_ms / 1000
        self._attended_at: float | None = None
        self.polled_at: float | None = None

    def attended(self, now: float) -> float:
        """Note a call; return how many seconds nobody had called before it."""
        before, self._attended_at = self._attended_at, now
        return 0.0 if before is None else now - before

    def polled(self, now: float) -> None:
        """Note a call of ``poll``."""
        self.polled_at = now

    def away(self, now: float) -> float:
        """Return how many seconds ``poll`` has not been called for; none before the first."""
        return 0.0 if self.polled_at is None else now - self.polled_at

    def overdue_at(self) -> float:
        """Return when ``poll`` will have been due; never, before the first."""
        return NEVER if self.polled_at is None else self.polled_at + self._poll_interval
