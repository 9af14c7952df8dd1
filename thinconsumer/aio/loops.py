"""The event loops that a consumer may run in: they watch its descriptor, and have one alarm for it.

asyncio needs the standard library alone; uvloop is an asyncio loop. Under trio a system task waits for the descriptor.
anyio runs on either of the two, so that programs written for anyio need nothing else.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConcurrentAccessError, IllegalStateError

if TYPE_CHECKING:
    import trio

#: Longest time in seconds until an alarm, which comes early then: event loops reject or overflow very long times.
LONGEST_ALARM = 3600.0


class UnsupportedLoopError(IllegalStateError):
    """The running event loop cannot watch the descriptor of a consumer, or there is no event loop."""


class Event(Protocol):
    """The methods of asyncio's and trio's events that a waiting call needs."""

    def set(self) -> None:
        """End the wait."""

    async def wait(self) -> Any:
        """Wait for :meth:`set`."""


class EventLoop(Protocol):
    """The loop of one consumer. It calls ``ready`` when the descriptor is readable, or the alarm's time has come."""

    def watch(self, descriptor: int) -> None:
        """Begin to watch the descriptor, unless that is done already.

        Raises:
            UnsupportedLoopError: this loop watches no descriptors.
        """

    def unwatch(self) -> None:
        """End the watch and the alarm. Call this before the descriptor is closed."""

    def alarm(self, seconds: float) -> None:
        """Call ``ready`` in so many seconds, in place of the time set before."""

    def event(self) -> Event:
        """Return a new event to wait for."""

    def task(self) -> object:
        """Return the running task.

        Raises:
            ConcurrentAccessError: this is another thread, or another event loop runs.
        """

    async def give_way(self) -> None:
        """Let other tasks run once."""

    async def ended(self) -> None:
        """Wait until nothing of this object is left in the loop. Call :meth:`unwatch` before."""


class AsyncioLoop:
    """Implements :class:`EventLoop` over ``add_reader`` and ``call_later`` of the running asyncio loop."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready = ready
        self._thread = get_ident()
        self._watched: int | None = None
        self._at = 0.0  #: When the alarm rings, by the loop's clock.
        self._timer: asyncio.Handle | None = None  #: Rings then or earlier.
        self._timer_at = 0.0  #: uvloop's timer for a time within half a millisecond does not say its time itself.

    def watch(self, descriptor: int) -> None:
        if self._watched is not None:
            return
        try:
            self._loop.add_reader(descriptor, self._ready)
        except NotImplementedError:
            raise UnsupportedLoopError(
                f"{type(self._loop).__name__} cannot watch descriptors (add_reader): on Windows, use a Consumer in a "
                "thread, as with asyncio.to_thread"
            ) from None
        self._watched = descriptor

    def unwatch(self) -> None:
        descriptor, self._watched = self._watched, None
        if descriptor is not None and not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def alarm(self, seconds: float) -> None:
        self._at = self._loop.time() + min(seconds, LONGEST_ALARM)
        if self._timer is not None:
            if self._timer_at <= self._at:
                return  # the earlier timer is followed by another one; most calls need no timer of their own this way
            self._timer.cancel()
        self._start_timer(self._at)

    def _start_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._at <= now:
            self._ready()
        else:  # uvloop counts whole milliseconds, and would call at once, again and again, until a shorter time is over
            self._start_timer(max(self._at, now + 0.001))

    def event(self) -> asyncio.Event:
        return asyncio.Event()

    def task(self) -> object:
        if get_ident() != self._thread:
            raise ConcurrentAccessError("this consumer belongs to the event loop of another thread")
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop is running: the application calls after asyncio.run, or before a second one
            return None
        if task is not None and task.get_loop() is not self._loop:
            raise ConcurrentAccessError("this consumer belongs to another event loop: make one in each asyncio.run()")
        return task

    async def give_way(self) -> None:
        await asyncio.sleep(0)

    async def ended(self) -> None:
        pass


class TrioLoop:
    """Implements :class:`EventLoop` by a system task of trio, which ends with :meth:`unwatch`."""

    def __init__(self, ready: Callable[[], None]) -> None:
        import trio

        self._trio = trio
        self._ready = ready
        self._token = trio.lowlevel.current_trio_token()
        self._watched: int | None = None
        self._at = 0.0  #: When the alarm rings, by trio's clock.
        self._wait: trio.CancelScope | None = None  #: Ends the wait for the descriptor at the time of the alarm.
        self._ended = trio.Event()
        self._ended.set()

    def watch(self, descriptor: int) -> None:
        if self._watched is None:
            self._watched = descriptor
            self._ended = self._trio.Event()
            self._trio.lowlevel.spawn_system_task(self._run, descriptor, self._ended, name="thinconsumer")

    async def _run(self, descriptor: int, ended: trio.Event) -> None:
        try:
            while self._watched == descriptor:
                with self._trio.CancelScope(deadline=self._at) as self._wait:
                    await self._trio.lowlevel.wait_readable(descriptor)
                self._wait, self._at = None, self._trio.current_time() + LONGEST_ALARM
                if self._watched == descriptor:
                    self._ready()
        except self._trio.ClosedResourceError:
            pass  # by unwatch()
        finally:
            ended.set()

    def unwatch(self) -> None:
        descriptor, self._watched = self._watched, None
        if descriptor is not None:
            self._trio.lowlevel.notify_closing(descriptor)

    def alarm(self, seconds: float) -> None:
        self._at = self._trio.current_time() + min(seconds, LONGEST_ALARM)
        if self._wait is not None:
            self._wait.deadline = self._at

    def event(self) -> trio.Event:
        return self._trio.Event()

    def task(self) -> object:
        if not self._trio.lowlevel.in_trio_run():
            return None
        if self._trio.lowlevel.current_trio_token() is not self._token:
            raise ConcurrentAccessError("this consumer belongs to another event loop: make one in each trio.run()")
        return self._trio.lowlevel.current_task() if self._trio.lowlevel.in_trio_task() else None

    async def give_way(self) -> None:
        await self._trio.lowlevel.checkpoint()

    async def ended(self) -> None:
        with self._trio.CancelScope(shield=True):  # the task ends at once, and closing must leave none
            await self._ended.wait()


def running_loop(ready: Callable[[], None]) -> EventLoop:
    """Return the event loop that is running; it calls ``ready``.

    Raises:
        UnsupportedLoopError: neither asyncio nor trio is running.
    """
    trio = sys.modules.get("trio")  # not imported: a program in a loop of trio has done that
    if trio is not None and trio.lowlevel.in_trio_task():
        return TrioLoop(ready)
    try:
        return AsyncioLoop(ready)
    except RuntimeError:
        raise UnsupportedLoopError("no event loop of asyncio or trio is running: use Consumer instead") from None
