"""One user at a time: a call from a second thread raises at once instead of corrupting what the first one does.

Owns no lock: nothing ever waits here. Handing a consumer over to another thread between two calls is fine.
"""

from __future__ import annotations

from threading import get_ident
from types import TracebackType

from ..errors import ConcurrentAccessError, IllegalStateError


class Guard:
    """Entered by every public method; entering again on the same thread (from a callback) is fine.

    Except while ``busy`` says in what it would be a call in the middle of another one's work.
    """

    __slots__ = ("_users", "busy")

    def __init__(self) -> None:
        self.busy = ""
        # dict.setdefault is one atomic step, with and without a GIL. A counter or a lock beside it would stay taken
        # for ever when KeyboardInterrupt strikes between taking it and entering the block.
        self._users: dict[str, int] = {}

    def __enter__(self) -> None:
        me = get_ident()
        user = self._users.setdefault("thread", me)
        if user != me:
            raise ConcurrentAccessError(
                f"thread {me} called a consumer that thread {user} is using: only wakeup() may be called from elsewhere"
            )
        if self.busy:
            raise IllegalStateError(f"the consumer cannot be used from inside {self.busy}; wakeup() can")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users.pop("thread", None)
