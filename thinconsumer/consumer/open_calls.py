"""Keep calls that timed out for a short time, so that a repeated call continues to wait for the same request.

Otherwise ``committed(tp, timeout_ms=0)`` in a loop would send a request each time and never receive a response.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from ..calls import Call
from ..errors import KafkaTimeoutError

T = TypeVar("T")

#: Seconds for which a call is kept after it was last made. Repeating it may return a result of this age.
KEPT = 5.0
#: Maximum seconds for which a call is kept even if it is repeated: an interrupted step may have lost its request.
KEPT_MAX = 30.0
#: Maximum number of calls kept. Each may cause further requests.
COUNT_MAX = 16


class OpenCall(NamedTuple):
    """A call without a result, or with a result that was not returned yet."""

    call: Call[Any]
    began: float
    asked: float  #: When the call was last made.


class OpenCalls:
    """The timed-out calls of one consumer, by key."""

    def __init__(self) -> None:
        self._open: dict[Hashable, OpenCall] = {}

    def wait(
        self,
        key: Hashable,
        ask: Callable[[], Call[T]],
        wait: Callable[[Call[T]], T],
        now: float,
        is_valid: Callable[[Call[T]], bool] = lambda call: True,
    ) -> T:
        """Return what ``wait`` returns for the call kept under ``key``, or else for a new one.

        A call that times out is kept. A kept call is not used if ``is_valid`` rejects it or its error is retriable.
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
            raise

    def drop_old(self, now: float) -> None:
        """Abandon calls that were not repeated, so that managers send no more requests for them."""
        for key, kept in list(self._open.items()):
            if now - kept.asked > KEPT or now - kept.began > KEPT_MAX:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        self._open.pop(key).call.abandoned = True
