"""Call a function between the bytecodes of the main thread, by the interval timer of the process (Unix).

A process has one such timer, ITIMER_REAL, and one handler of its signal, SIGALRM. If the program has set an alarm
before, that one goes on: its handler is called when its time has come, and both are put back in the end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from math import inf
from types import FrameType
from typing import Any

from ..errors import IllegalStateError

#: The timer repeats after this many seconds: if an exception, such as Ctrl-C, ends the handler before it has set the
#: timer again, the next tick comes nevertheless. The odd value tells this timer from one that the program has set.
REPEAT_S = 0.250061
#: Tolerance in seconds for clocks that differ: an alarm of the program counts as due this much before its time.
EARLY_S = 0.001
#: So many seconds after a tick was due, a signal is no longer taken for that tick.
LATE_S = 0.01
#: The shortest time to set: 0 would switch the timer off.
LEAST_S = 0.0001


class IntervalTimer:
    """Calls ``tick`` with the interrupted frame, until that returns None instead of the seconds until the next call.

    The timer's state is that of the system, and is read anew in each method. So a method that Ctrl-C has interrupted
    may be called again, and then completes its work.
    """

    def __init__(self, tick: Callable[[FrameType | None], float | None]) -> None:
        self._tick = tick
        self._handler = self._on_signal  # once, since each access of a method makes another object
        self._program_handler: Any = signal.SIG_DFL if hasattr(signal, "SIGALRM") else None
        self._program_at: float | None = None  #: When the program's own alarm is due, in seconds of ``time.monotonic``.
        self._program_interval = 0.0  #: After how many seconds that alarm repeats; 0 if it does not.
        self._came = 0  #: How many alarms of the program have come while a method was at work.
        #: When the next tick is due; None while a signal can only be the program's: before the timer is set for the
        #: first time, and once an alarm of the program is put back.
        self._tick_at: float | None = None
        #: What each setting of the timer has replaced, until it is noted: seconds left and interval, and the time.
        self._replaced: list[tuple[tuple[float, float], float]] = []

    def start(self, seconds: float) -> None:
        """Call ``tick`` in ``seconds``, also if the timer runs already.

        Raises:
            IllegalStateError: the platform has no such timer, this is not the main thread, or SIGALRM is in use so that
                it cannot be shared.
        """
        if not hasattr(signal, "setitimer"):
            raise IllegalStateError("this platform has no interval timer that interrupts Python code")
        if threading.get_ident() != threading.main_thread().ident:
            raise IllegalStateError("Python code is interrupted in the main thread only, and this is another one")
        before = signal.getsignal(signal.SIGALRM)
        if before is not self._handler:
            if before is None:
                raise IllegalStateError("SIGALRM has a handler that is not Python's")
            if _has_wakeup_descriptor():
                raise IllegalStateError("an event loop of this thread handles signals")
            self._program_handler, self._program_at, self._tick_at = before, None, None
            signal.signal(signal.SIGALRM, self._handler)
            # Noted now, since the alarm may come before the timer is set, and its signal would then look like a tick's.
            came = self._came
            left, self._program_interval = signal.getitimer(signal.ITIMER_REAL)
            self._program_at = time.monotonic() + left if left else None
            if self._came != came:
                self._program_at = None
        self._set(seconds)

    @property
    def runs(self) -> bool:
        """Whether ticks come: not after :meth:`stop`, and not while the program has set the timer or the handler."""
        return self._is_ours() and signal.getsignal(signal.SIGALRM) is self._handler

    def stop(self) -> None:
        """End the calls, and put back the program's alarm and handler. In another thread, the next tick does so."""
        if not hasattr(signal, "setitimer") or threading.get_ident() != threading.main_thread().ident:
            return
        self._note_replaced()
        if self._is_ours():
            left = 0.0 if self._program_at is None else max(LEAST_S, self._program_at - time.monotonic())
            self._tick_at = None if left else inf
            signal.setitimer(signal.ITIMER_REAL, left, self._program_interval if left else 0.0)
        # Else the program has set the timer meanwhile, and has the rest of its time.
        self._restore_handler()

    def after_fork(self) -> None:
        """Put back the program's handler in a forked child, which inherits no timer."""
        self._restore_handler()

    def _restore_handler(self) -> None:
        if signal.getsignal(signal.SIGALRM) is self._handler:  # else the program has set one meanwhile
            signal.signal(signal.SIGALRM, self._program_handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        is_programs = self._is_programs()
        if _is_at_work(frame):
            # A tick may be left out, as the timer repeats.
            if is_programs:
                self._came += 1
                self._program_at = None
                self._call_program(number, frame)
            return
        seconds = self._tick(frame)
        now, at = time.monotonic(), self._program_at  # only now: during the tick, another signal may have come
        # If the timer is not this one, the program's alarm is set in it, and will send a signal of its own.
        is_due = at is not None and now >= at - EARLY_S and self._is_ours()
        handler = self._program_handler
        is_function = callable(handler)
        try:
            if at is not None and is_due:
                self._program_at = max(now, at + self._program_interval) if self._program_interval else None
            if seconds is None:
                self.stop()
            else:
                self._set(seconds)
                if signal.getsignal(signal.SIGALRM) is not self._handler:
                    self.stop()  # again: ``tick``, or garbage collection, has called it, and a signal could be fatal
        except BaseException:  # of another signal's handler: the next tick calls the program's
            self._program_at = at
            raise
        if not (is_due or is_programs):
            return
        if is_function:  # here, since another signal's handler may raise as a method begins: the alarm would be lost
            handler(number, frame)  # last, since it may raise
        else:
            self._call_program(number, frame)

    def _set(self, seconds: float) -> None:
        """Set the timer to ``seconds``, or to the program's alarm if that is earlier; note the alarm it replaces."""
        self._set_at(time.monotonic() + seconds)
        if self._note_replaced():
            self._set_at(time.monotonic() + seconds)

    def _set_at(self, at: float) -> None:
        first = self._tick_at = at if self._program_at is None else min(at, self._program_at)
        values = (signal.ITIMER_REAL,), (max(LEAST_S, first - time.monotonic()),), (REPEAT_S,)
        # ``extend`` makes the call: if the result were assigned, Ctrl-C could come before, and the alarm would be lost.
        self._replaced.extend(zip(map(signal.setitimer, *values), iter(time.monotonic, None)))

    def _note_replaced(self) -> bool:
        """Note the alarm of the program that a setting has replaced; return whether there was one."""
        found = False
        while self._replaced:
            (left, interval), now = self._replaced[0]
            if left and not _is_ours(interval):
                self._program_at, self._program_interval, found = now + left, interval, True
            del self._replaced[0]
        return found

    def _call_program(self, number: int, frame: FrameType | None) -> None:
        handler = self._program_handler
        if handler is signal.SIG_DFL:
            self.stop()
            os.kill(os.getpid(), signal.SIGALRM)  # ends the process, as it would have without this timer
        elif handler is not signal.SIG_IGN:
            handler(number, frame)

    def _is_programs(self) -> bool:
        """Return whether a signal is that of an alarm which the program has set in place of this timer.

        Python calls the handler some bytecodes after the timer's signal: the signal may be that of a tick although the
        timer is no longer this one.
        """
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        if _is_ours(interval) or left > interval:  # ``left > interval``: it has not come for the first time
            return False
        return self._tick_at is None or time.monotonic() > self._tick_at + LATE_S

    @staticmethod
    def _is_ours() -> bool:
        """Return whether the timer is set, and by this class."""
        return _is_ours(signal.getitimer(signal.ITIMER_REAL)[1])


def _is_at_work(frame: FrameType | None) -> bool:
    """Return whether the interrupted code is that of this module, or of a function of ``signal`` that it has called."""
    while frame is not None and frame.f_globals.get("__name__") in ("signal", "enum"):
        frame = frame.f_back
    return frame is not None and frame.f_globals is globals()


def _is_ours(interval: float) -> bool:
    return abs(interval - REPEAT_S) < 1e-5


def _has_wakeup_descriptor() -> bool:
    """Return whether Python writes the number of each signal to a descriptor, as event loops want that handle signals.

    Ticks would fill its buffer while a block keeps the loop from reading. Then the bytes of other signals are lost.
    """
    found: list[int] = []
    try:
        found.extend(map(signal.set_wakeup_fd, (-1,)))  # there is no other way to read it
    finally:
        if found and found[0] >= 0:
            signal.set_wakeup_fd(found[0], warn_on_full_buffer=False)
    return found[0] >= 0
