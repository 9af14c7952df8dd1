"""Calls that ran out of time, kept for a moment so that the same call made again goes on where the last one ended.

Without this ``committed(tp, timeout_ms=0)`` in a loop would send a request each time and never see its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from ..calls import Call
from ..errors import KafkaTimeoutError

T = TypeVar("T")

#: Seconds for which a call is kept after it was made last: how old an answer may be that is returned.
KEPT = 5.0
#: Seconds for which a call is kept at most, however often it is made: an interrupted step loses requests.
KEPT_MAX = 30.0
#: Calls kept at once. Each goes on asking brokers.
COUNT_MAX = 16


class OpenCall(NamedTuple):
    """A call without an answer so far, or with one that was not returned yet."""

    call: Call[Any]
    began: float
    asked: float  #: When it was made last.


class OpenCalls:
    """The calls of one consumer that ran out of time, by what was asked."""

    def __init__(self) -> None:
        self._open: dict[Hashable, OpenCall] = {}

    def __len__(self) -> int:
        return len(self._open)

    def wait(
        self,
        key: Hashable,
        ask: Callable[[], Call[T]],
        wait: Callable[[Call[T]], T],
        now: float,
        is_valid: Callable[[Call[T]], bool] = lambda call: True,
    ) -> T:
        """Return what ``wait`` returns for the call kept under ``key``, or else for a new one.

        A call that runs out of time is kept. One that is not valid any more, or failed in a way that may pass, is not
        used.
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
        """Abandon calls that were not made again: managers stop asking for them."""
        for key, kept in list(self._open.items()):
            if now - kept.asked > KEPT or now - kept.began > KEPT_MAX:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        self._open.pop(key).call.abandoned = True
