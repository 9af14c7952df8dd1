"""One call at a time: a call during another one raises at once, instead of corrupting the state of that one.

It may come from another thread, or on the same thread from a signal handler or from user code that the first call runs.
There is no lock and no waiting. Using a consumer on another thread between two calls is allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType, TracebackType

from ..errors import ConcurrentAccessError, IllegalStateError


class RunningCall:
    """A call that is running."""

    __slots__ = ("doing", "frame", "is_open", "thread")

    def __init__(self, thread: int, frame: FrameType) -> None:
        self.thread = thread
        self.frame = frame
        self.doing = ""  #: Name of the user code that the call runs now; empty if none.
        self.is_open = False  #: Whether that user code may make calls.

    def is_over(self) -> bool:
        """Return whether the call was interrupted before it could end itself; call on its own thread."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


class Guard:
    """Entered by every public method. Rejects a call during another one, except from user code in :meth:`callback`."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        # The running calls, each but the first made in a callback of the one before. dict.setdefault is one atomic
        # operation, with and without a GIL. There is no lock or counter, as a KeyboardInterrupt between taking it and
        # entering the block would leave it taken for ever. A call is over when its frame is not on the stack any more.
        self._calls: dict[str, tuple[RunningCall, ...]] = {}

    def __enter__(self) -> None:
        self.enter(sys._getframe(1))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(sys._getframe(1))

    def enter(self, frame: FrameType) -> None:
        """Begin a call, made by ``frame``.

        Raises:
            ConcurrentAccessError: another call is running, on this or another thread.
            IllegalStateError: the running call runs user code that must not make calls, see :meth:`busy`.
        """
        me = get_ident()
        mine = RunningCall(me, frame)
        calls = self._calls.setdefault("calls", (mine,))
        if calls[0] is mine:
            return
        if calls[0].thread != me:
            raise ConcurrentAccessError(
                f"thread {me} called a consumer that thread {calls[0].thread} is using: "
                "only wakeup() may be called from another thread"
            )
        running = tuple(call for call in calls if not call.is_over())
        if running:
            _check(running[-1])
        self._calls["calls"] = (*running, mine)

    def leave(self, frame: FrameType) -> None:
        """End the call that ``frame`` made, and interrupted calls within it."""
        calls = self._calls.get("calls", ())
        while calls and calls[-1].frame is not frame:
            calls = calls[:-1]
        if len(calls) > 1:
            self._calls["calls"] = calls[:-1]
        else:
            self._calls.pop("calls", None)

    @contextmanager
    def callback(self, doing: str = "a callback") -> Iterator[None]:
        """Run user code that may make calls. Only between two steps, since those calls step, too."""
        with self._running(doing, is_open=True):
            yield

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Run user code that must not make calls: the step that runs it is not complete."""
        with self._running(doing, is_open=False):
            yield

    @contextmanager
    def _running(self, doing: str, *, is_open: bool) -> Iterator[None]:
        calls = self._calls.get("calls")
        if not calls:
            raise IllegalStateError(f"no call is running that could run {doing}")
        call = calls[-1]
        before = call.doing, call.is_open
        call.doing, call.is_open = doing, is_open
        try:
            yield
        finally:
            call.doing, call.is_open = before


def _check(call: RunningCall) -> None:
    if call.is_open:
        return
    if call.doing:
        raise IllegalStateError(f"the consumer cannot be used from inside {call.doing}; wakeup() can")
    raise ConcurrentAccessError(
        "the consumer was called in the middle of another call on the same thread, by a signal handler for instance: "
        "only wakeup() may be called there"
    )
