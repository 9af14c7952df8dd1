"""A clock that stands still until a test or a driver advances it. All clients and brokers of a test share one."""

#: A day in 2023, so that timestamps of records and batches are plausible dates.
SOME_DAY = 1_700_000_000.0


class VirtualClock:
    """Two clocks that advance together: a monotonic one, and the wall clock in seconds since the epoch."""

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
        """Advance both times by ``seconds``."""
        self.advance_to(self._now + seconds)

    def advance_to(self, moment: float) -> None:
        """Advance until :meth:`now` is ``moment``; do nothing if that time has passed."""
        self._now = max(self._now, moment)

    def set_wall_time(self, wall_time: float) -> None:
        """Set the seconds since the epoch, forward or back; monotonic time stays."""
        self._wall_offset = wall_time - self._now
