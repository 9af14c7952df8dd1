"""Time that passes when it is told to. Owns nothing else; every part of a test shares one."""

from __future__ import annotations

#: Some day in 2023, so that what the protocol dates looks like a date.
SOME_DAY = 1_700_000_000.0


class VirtualClock:
    """Monotonic seconds and, beside them, seconds since the epoch."""

    def __init__(self, now: float = 1000.0, wall_time: float = SOME_DAY) -> None:
        self._now = now
        self._wall_offset = wall_time - now

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._now

    def wall_time(self) -> float:
        """Return seconds since the epoch."""
        return self._now + self._wall_offset

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.advance_to(self._now + seconds)

    def advance_to(self, moment: float) -> None:
        """Let time pass until ``moment``, unless it is past already."""
        self._now = max(self._now, moment)

    def set_wall_time(self, wall_time: float) -> None:
        """Set the calendar's clock, which can jump either way, without monotonic time passing."""
        self._wall_offset = wall_time - self._now
