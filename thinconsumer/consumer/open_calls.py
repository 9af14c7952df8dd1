"""Keep calls that timed out for a short time, so that a repeated call continues to wait for the same request.

Otherwise ``committed(tp, timeout_ms=0)`` in a loop would send a request each time and never receive a response.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

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
    """A call that timed out: its result has not arrived yet, or was not returned to the application yet."""

    call: Call[Any]
    began: float
    asked: float  #: When the application last made this call.


class OpenCalls:
    """The timed-out calls of one consumer. The key of a call is made of the method and its arguments."""

    def __init__(self) -> None:
        self._open: dict[Hashable, OpenCall] = {}
        self.has_calls = False  #: Whether a call is kept.

    def wait(
        self,
        key: Hashable,
        ask: Callable[[], Call[T]],
        wait: Callable[[Call[T]], T],
        now: float,
        is_valid: Callable[[Call[T]], bool] = lambda call: True,
    ) -> T:
        """Wait for the call kept under ``key``, or for a new one from ``ask`` if none is kept; return its result.

        A call that times out (``wait`` raises KafkaTimeoutError) is kept. A kept call is replaced by a new one if
        ``is_valid`` returns False for it, or if it has failed with a retriable error.
        """
        self.drop_old(now)
        kept = self._open.get(key)
        if kept is not None and (not is_valid(kept.call) or getattr(kept.call.error, "retriable", False)):
            self._drop(key)
            kept = None
        if kept is None:
            kept = OpenCall(ask(), now, now)
        self._open.pop(key, None)
        try:
            return wait(kept.call)
        except KafkaTimeoutError:
            if len(self._open) >= COUNT_MAX:
                self._drop(next(iter(self._open)))
            kept.call.abandoned = False
            self._open[key] = kept._replace(asked=now)
            self.has_calls = True
            raise

    def drop_old(self, now: float) -> None:
        """Abandon calls not repeated for ``KEPT`` seconds; managers send no more requests for an abandoned call."""
        for key, kept in list(self._open.items()):
            if now - kept.asked > KEPT or now - kept.began > KEPT_MAX:
                self._drop(key)
        self.has_calls = bool(self._open)

    def _drop(self, key: Hashable) -> None:
        self._open.pop(key).call.abandoned = True
