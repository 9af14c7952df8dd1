"""Keep calls that timed out for a short time, so that a repeated call continues to wait for the same request.

Otherwise ``committed(tp, timeout_ms=0)`` in a loop would send a request each time and never receive a response.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from ..engine import Waiting
from ..errors import KafkaTimeoutError
from ..support.calls import Call

T = TypeVar("T")

#: A call that timed out is kept for this many seconds after the application last made it. A repeated call may get a
#: result that is this old.
KEPT = 5.0
#: Maximum age in seconds of a kept call, even if the application makes the same call again and again. If an exception
#: in a step has lost the request of the kept call, only a call that begins anew sends the request again.
KEPT_MAX = 30.0
#: Maximum number of calls kept: the managers may send further requests for each of them.
COUNT_MAX = 16


class OpenCall(NamedTuple):
    """A call whose result has not arrived yet, or was not returned to the application yet."""

    call: Call[Any]
    began: float
    asked: float  #: When the application last made this call.


class OpenCalls:
    """Waits for the calls of one consumer by ``wait(call, timeout_ms)``, and keeps those that time out."""

    def __init__(self, wait: Callable[[Call[Any], float | None], Waiting[Any]], now: Callable[[], float]) -> None:
        self._wait = wait
        self._now = now
        self.kept: dict[Hashable, OpenCall] = {}  #: By method and arguments.

    def wait(
        self,
        key: Hashable,
        ask: Callable[[], Call[T]],
        timeout_ms: float | None,
        is_valid: Callable[[Call[T]], bool] = lambda call: True,
    ) -> Waiting[T]:
        """Wait for the call kept under ``key``, or for a new one from ``ask`` if none is kept; return its result.

        A kept call is replaced by a new one if ``is_valid`` returns False for it, or if it has failed with a retriable
        error.
        """
        now = self._now()
        self.drop_old(now)
        kept = self.kept.pop(key, None)
        if kept is not None and (not is_valid(kept.call) or getattr(kept.call.error, "retriable", False)):
            kept.call.abandoned = True
            kept = None
        if kept is None:
            kept = OpenCall(ask(), now, now)
        try:
            found: T = yield from self._wait(kept.call, timeout_ms)
        except KafkaTimeoutError:
            if len(self.kept) >= COUNT_MAX:
                self._drop(next(iter(self.kept)))
            kept.call.abandoned = False
            self.kept[key] = kept._replace(asked=now)
            raise
        return found

    def drop_old(self, now: float) -> None:
        """Abandon calls not repeated for ``KEPT`` seconds or older than ``KEPT_MAX``: no more is sent for them."""
        for key, kept in list(self.kept.items()):
            if now - kept.asked > KEPT or now - kept.began > KEPT_MAX:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        self.kept.pop(key).call.abandoned = True
