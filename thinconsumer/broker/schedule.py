"""The cluster's time: moments that its shell tells it, and what is to happen at later ones.

Owns the heap of timers of all nodes. Reads no clock: whoever steps the cluster says what time it is, and asks
:meth:`Schedule.wake_at` when to come back. Within one step timers run in the order of their moments, each seeing its
own moment as *now*, so that a cluster stepped once an hour does the same as one that is stepped every millisecond.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from ..timers import NEVER

#: So many cancelled timers may always lie about.
CANCELLED_MAX = 256


class Timer:
    """Something that is to happen at a moment; :meth:`cancel` it if it is not to happen after all."""

    __slots__ = ("_callback", "_schedule", "moment")

    def __init__(self, moment: float, callback: Callable[[], object], schedule: Schedule | None = None) -> None:
        self.moment = moment
        self._callback: Callable[[], object] | None = callback
        self._schedule = schedule  #: Whose heap it lies in, if any.

    @property
    def is_pending(self) -> bool:
        """Whether it is still to happen."""
        return self._callback is not None

    def cancel(self) -> None:
        """Forget it. Again, or after it has happened: nothing."""
        if self._callback is not None:
            self._callback = None
            if self._schedule is not None:
                self._schedule.on_cancelled()

    def rearm(self, callback: Callable[[], object]) -> None:
        """Let it be pending again, for whoever could not let it happen now; :meth:`fire` is theirs to call."""
        self._callback = callback

    def fire(self) -> None:
        """Let it happen, unless it was cancelled."""
        callback, self._callback = self._callback, None
        self._schedule = None
        if callback is not None:
            callback()


class Schedule:
    """Monotonic seconds, the calendar beside them, and timers."""

    def __init__(self, now: float = 0.0, wall_time: float = 0.0) -> None:
        self.now = now  #: Monotonic seconds of the input, or the timer, that is being worked on.
        self._wall_offset = wall_time - now
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._cancelled_count = 0  #: Entries of the heap that were cancelled.

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for what the protocol dates."""
        return round((self.now + self._wall_offset) * 1000)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        """Call back at a moment; those of one moment in the order they were asked for."""
        timer = Timer(moment, callback, self)
        heapq.heappush(self._heap, (moment, next(self._numbers), timer))
        return timer

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back after a while."""
        return self.call_at(self.now + seconds, callback)

    def wake_at(self) -> float:
        """Return the moment of the next timer."""
        heap = self._heap
        while heap and not heap[0][2].is_pending:
            heapq.heappop(heap)
            self._cancelled_count -= 1
        return heap[0][0] if heap else NEVER

    def on_cancelled(self) -> None:
        """Clear up once most of the heap is cancelled: requests with timeouts of weeks would stay that long."""
        self._cancelled_count += 1
        if self._cancelled_count >= CANCELLED_MAX and self._cancelled_count * 2 > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if entry[2].is_pending]
            heapq.heapify(self._heap)
            self._cancelled_count = 0

    def advance(self, now: float, wall_time: float | None = None) -> None:
        """Let time pass: run what is due, in order. Time never goes back, the calendar may."""
        while self.wake_at() <= now:
            moment, _, timer = heapq.heappop(self._heap)
            self.now = max(self.now, moment)
            timer.fire()
        self.now = max(self.now, now)
        if wall_time is not None:
            self._wall_offset = wall_time - self.now
