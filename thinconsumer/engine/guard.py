"""Allow one public call at a time: a call during another one raises at once instead of corrupting its state.

A call during another one may come from another thread; or on the same thread from a signal handler, or from user code
that the first call runs. No call waits for another, except for a short reading (:meth:`Guard.read`). Different threads
may use a client one after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, get_ident
from types import FrameType, TracebackType
from typing import TypeVar

from ..errors import ConcurrentAccessError, IllegalStateError
from ..support.lazy_dataclass import dataclass

T = TypeVar("T")

#: How long a call waits for a reading in another thread, in seconds. Readings take less than a millisecond.
READING_S = 1.0


@dataclass(slots=True, eq=False)
class RunningCall:
    """A public call in progress, identified by thread and frame."""

    thread: int
    frame: FrameType
    #: Description of the user code that this call is running, such as "a deserializer"; empty if none.
    doing: str = ""
    may_call: bool = False  #: Whether the user code in ``doing`` may call this client.
    #: Whether the call runs in a signal handler, see :meth:`Guard.refuse_user_code`.
    in_signal_handler: bool = False
    reading: Event | None = None  #: For what :meth:`Guard.read` runs: set at its end.

    def is_over(self) -> bool:
        """Return whether an exception has ended the call without leaving the guard: its frame is not on the stack.

        Call this only on the thread that made the call, since only the current thread's stack is searched.
        """
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


Calls = dict[str, tuple[RunningCall, ...]]


class Guard:
    """Entered by public calls, not by ``wakeup``. Rejects a call during another one, unless user code may make it.

    ``begin`` and ``end`` are called inside the guard. If ``begin`` were called before, a second thread's call would
    advance positions in the middle of the first thread's call, and only then be rejected.
    """

    def __init__(
        self, begin: Callable[[], None] | None = None, end: Callable[[], None] | None = None, calls: Calls | None = None
    ) -> None:
        # The key "calls" has the running call, then the call that its callback makes, and so on. It is in a dict, since
        # ``setdefault`` is atomic, with and without a GIL. A lock would stay taken for ever if KeyboardInterrupt came
        # between taking it and entering the block; here, a call without a frame on the stack is dropped.
        self._calls: Calls = {} if calls is None else calls
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        """Begin a call made by the frame of the caller.

        Raises:
            ConcurrentAccessError: another call is running on another thread, or on this one and runs no user code.
            IllegalStateError: the running call runs user code that must not make calls, see :meth:`running`.
        """
        frame = sys._getframe(1)
        mine = RunningCall(get_ident(), frame)
        calls = self._calls.setdefault("calls", (mine,))
        while calls[0].reading is not None and calls[0].thread != mine.thread:
            if not calls[0].reading.wait(READING_S):
                break
            calls = self._calls.setdefault("calls", (mine,))
        if calls[0] is not mine:
            self._calls["calls"] = (*_calls_around(mine, calls), mine)
        if self._begin is not None:
            try:
                self._begin()
            except BaseException:
                self._leave(frame)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is not None:
            self._end()
        frame = sys._getframe(1)
        calls = self._calls.get("calls", ())
        if len(calls) == 1 and calls[0].frame is frame:
            del self._calls["calls"]
        else:
            self._leave(frame)

    def _leave(self, frame: FrameType) -> None:
        """End the call made by ``frame``, and calls inside it that were interrupted without leaving the guard."""
        calls = self._calls.get("calls", ())
        while calls and calls[-1].frame is not frame:
            calls = calls[:-1]
        if len(calls) > 1:
            self._calls["calls"] = calls[:-1]
        else:
            self._calls.pop("calls", None)

    def refuses(self) -> bool:
        """Return whether a call that begins now would be rejected."""
        calls = self._calls.get("calls", ())
        if not calls or calls[0].reading is not None:
            return False
        try:
            _calls_around(RunningCall(get_ident(), sys._getframe()), calls)
        except (ConcurrentAccessError, IllegalStateError):
            return True
        return False

    def entry(self, begin: Callable[[], None], end: Callable[[], None] | None) -> Guard:
        """Return a guard of the same calls, with other functions that begin and end a call."""
        return Guard(begin, end, self._calls)

    def read(self, work: Callable[[], T]) -> T | None:
        """Run ``work``, from any thread, and return its result; return None if a call is in progress.

        A call that begins in another thread meanwhile waits for the end: ``work`` must be short, and take no lock.
        """
        mine = RunningCall(get_ident(), sys._getframe(), reading=Event())
        if self._calls.setdefault("calls", (mine,))[0] is not mine:
            return None
        try:
            return work()
        finally:
            del self._calls["calls"]
            assert mine.reading is not None
            mine.reading.set()

    def refuse_user_code(self) -> None:
        """Let :meth:`running` raise in the call in progress, since it runs in a signal handler."""
        self._calls["calls"][-1].in_signal_handler = True

    @property
    def refuses_user_code(self) -> bool:
        """Whether the call in progress has called :meth:`refuse_user_code`."""
        calls = self._calls.get("calls", ())
        return bool(calls) and calls[-1].in_signal_handler

    @contextmanager
    def running(self, doing: str, *, may_call: bool = False) -> Iterator[None]:
        """Mark the block as user code, which ``doing`` describes in errors.

        Set ``may_call`` only for user code that runs between two steps: the calls that it makes step, too, and a step
        must not run inside another one.
        """
        calls = self._calls.get("calls")
        if not calls:
            raise IllegalStateError(f"{doing} can run only inside a public call, and none is in progress")
        call = calls[-1]
        if call.in_signal_handler:
            raise IllegalStateError(f"{doing} waits for the next call: keep_alive() runs no code of the program")
        before = call.doing, call.may_call
        call.doing, call.may_call = doing, may_call
        try:
            yield
        finally:
            call.doing, call.may_call = before


def _calls_around(mine: RunningCall, calls: tuple[RunningCall, ...]) -> tuple[RunningCall, ...]:
    """Return those of ``calls`` that are still running; raise unless the call ``mine`` may run inside the last one."""
    if calls[0].thread != mine.thread:
        raise ConcurrentAccessError(
            f"thread {mine.thread} called a consumer that thread {calls[0].thread} is using: "
            "only wakeup() may be called from another thread"
        )
    running = tuple(call for call in calls if not call.is_over())
    if not running or running[-1].may_call:
        return running
    if running[-1].doing:
        raise IllegalStateError(f"the consumer cannot be used inside {running[-1].doing}, except wakeup()")
    raise ConcurrentAccessError(
        "the consumer was called in the middle of another call on the same thread, by a signal handler for instance: "
        "only wakeup() may be called there"
    )
