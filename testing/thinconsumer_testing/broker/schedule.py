"""The cluster's clock and timers.

Owns the timer heap of all nodes. Reads no clock: the caller passes the time to :meth:`Schedule.advance` and asks
:meth:`Schedule.wake_at` when to call again. Within one advance timers fire in time order, each with its own due time as
*now*, so that a cluster advanced once an hour behaves like one that is advanced every millisecond.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from thinconsumer.support.timers import NEVER

#: Cancelled timers leave the heap when due, or once they are at least this many and more than half of the heap.
CANCELLED_MAX = 256


class Timer:
    """A callback that is due at a moment, unless it is cancelled."""

    __slots__ = ("_callback", "_schedule", "moment")

    def __init__(self, moment: float, callback: Callable[[], object], schedule: Schedule | None = None) -> None:
        self.moment: float = moment
        self._callback: Callable[[], object] | None = callback
        self._schedule = schedule  #: The schedule that has this timer in its heap, if one has.

    @property
    def is_pending(self) -> bool:
        """Whether the callback is still due."""
        return self._callback is not None

    def cancel(self) -> None:
        """Cancel the callback; does nothing if it was cancelled or has fired."""
        if self._callback is not None:
            self._callback = None
            if self._schedule is not None:
                self._schedule.on_cancelled()

    def rearm(self, callback: Callable[[], object]) -> None:
        """Make a timer that is just firing pending again, so that it can still be cancelled. The schedule does not fire
        it again: the caller does, with :meth:`fire`. A paused broker thus defers its timers.
        """
        self._callback = callback

    def fire(self) -> None:
        """Call the callback, unless it was cancelled."""
        callback, self._callback = self._callback, None
        self._schedule = None
        if callback is not None:
            callback()


class Schedule:
    """Monotonic time in seconds, wall-clock time, and timers."""

    def __init__(self, now: float = 0.0, wall_time: float = 0.0) -> None:
        #: The current time in monotonic seconds; while a timer fires, the time at which it was due.
        self.now: float = now
        self._wall_offset = wall_time - now
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._cancelled_count = 0  #: The number of cancelled timers that are still in the heap.

    def wall_ms(self) -> int:
        """Return wall-clock milliseconds since the epoch, for timestamps in the protocol."""
        return round((self.now + self._wall_offset) * 1000)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        """Call back at a moment; callbacks of the same moment run in the order of registration."""
        timer = Timer(moment, callback, self)
        heapq.heappush(self._heap, (moment, next(self._numbers), timer))
        return timer

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return self.call_at(self.now + seconds, callback)

    def wake_at(self) -> float:
        """Return the time at which the next timer is due, or infinity if no timer is pending."""
        heap = self._heap
        while heap and not heap[0][2].is_pending:
            heapq.heappop(heap)
            self._cancelled_count -= 1
        return heap[0][0] if heap else NEVER

    def on_cancelled(self) -> None:
        """Count a cancelled timer; remove all cancelled timers from the heap if they are too many (CANCELLED_MAX)."""
        self._cancelled_count += 1
        if self._cancelled_count >= CANCELLED_MAX and self._cancelled_count * 2 > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if entry[2].is_pending]
            heapq.heapify(self._heap)
            self._cancelled_count = 0

    def advance(self, now: float, wall_time: float | None = None) -> None:
        """Advance the time and fire due timers in order. Monotonic time never goes back; wall-clock time may."""
        while self.wake_at() <= now:
            moment, _, timer = heapq.heappop(self._heap)
            self.now = max(self.now, moment)
            timer.fire()
        self.now = max(self.now, now)
        if wall_time is not None:
            self._wall_offset = wall_time - self.now
