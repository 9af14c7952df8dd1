"""One user at a time: a call in the middle of another one raises at once instead of corrupting what that one does.

It comes from a second thread, or on the same one from a signal handler or from users' code that a call runs. Owns no
lock: nothing ever waits here. Handing a consumer over to another thread between two calls is fine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType, TracebackType

from ..errors import ConcurrentAccessError, IllegalStateError


class Hold:
    """A call that is running."""

    __slots__ = ("doing", "frame", "is_open", "thread")

    def __init__(self, thread: int, frame: FrameType) -> None:
        self.thread = thread
        self.frame = frame
        self.doing = ""  #: Whose code it runs just now, in words; empty while its own.
        self.is_open = False  #: Whether that code may make calls: they count as part of this one.

    def is_over(self) -> bool:
        """Return whether the call has ended without saying so, seen from its own thread."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None


class Guard:
    """Entered by every public method, by the frame that calls it. A call within another one is refused, but for those
    that users' code makes in :meth:`callback`.
    """

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        # The calls that are running, each but the first in a callback of the one before. dict.setdefault is one atomic
        # step, with and without a GIL. Nothing beside it says who is inside: KeyboardInterrupt can strike between
        # taking the hold and entering the block, and a count or a lock would stay taken for ever. A hold whose frame
        # is no longer on the stack is void instead.
        self._holds: dict[str, tuple[Hold, ...]] = {}

    def __enter__(self) -> None:
        self.enter(sys._getframe(1))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(sys._getframe(1))

    def enter(self, frame: FrameType) -> None:
        """Begin a call, made by ``frame``.

        Raises:
            ConcurrentAccessError: another one is running, on another thread or on this.
            IllegalStateError: it is running users' code that must not make calls, see :meth:`busy`.
        """
        me = get_ident()
        mine = Hold(me, frame)
        holds = self._holds.setdefault("holds", (mine,))
        if holds[0] is mine:
            return
        if holds[0].thread != me:
            raise ConcurrentAccessError(
                f"thread {me} called a consumer that thread {holds[0].thread} is using: "
                "only wakeup() may be called from elsewhere"
            )
        running = tuple(hold for hold in holds if not hold.is_over())
        if running:
            _check(running[-1])
        self._holds["holds"] = (*running, mine)

    def leave(self, frame: FrameType) -> None:
        """End the call that ``frame`` made, and what was left of calls within it."""
        holds = self._holds.get("holds", ())
        while holds and holds[-1].frame is not frame:
            holds = holds[:-1]
        if len(holds) > 1:
            self._holds["holds"] = holds[:-1]
        else:
            self._holds.pop("holds", None)

    @contextmanager
    def callback(self, doing: str = "a callback") -> Iterator[None]:
        """Run users' code that may make calls; between two steps only, since they step, too."""
        with self._running(doing, is_open=True):
            yield

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Run users' code that must not make calls: it is in the middle of a step, which they would mend."""
        with self._running(doing, is_open=False):
            yield

    @contextmanager
    def _running(self, doing: str, *, is_open: bool) -> Iterator[None]:
        holds = self._holds.get("holds")
        if not holds:
            raise IllegalStateError(f"no call is running that could run {doing}")
        hold = holds[-1]
        before = hold.doing, hold.is_open
        hold.doing, hold.is_open = doing, is_open
        try:
            yield
        finally:
            hold.doing, hold.is_open = before


def _check(hold: Hold) -> None:
    if hold.is_open:
        return
    if hold.doing:
        raise IllegalStateError(f"the consumer cannot be used from inside {hold.doing}; wakeup() can")
    raise ConcurrentAccessError(
        "the consumer was called in the middle of another call on the same thread, by a signal handler for instance: "
        "only wakeup() may be called from there"
    )
