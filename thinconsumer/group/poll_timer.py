"""The time between two polls of an application (KIP-62), which no thread measures.

There is no heartbeat thread: the client sends heartbeats only while the application calls it, so :class:`PollTimer`
measures the gaps between calls.
"""

from ..timers import NEVER
from .settings import GroupSettings


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
