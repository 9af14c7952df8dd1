"""The timers of a coordinator's groups and members."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from typing import TypeVar

from ..schedule import Timer

K = TypeVar("K", bound=Hashable)


class TimerKind(enum.Enum):
    """The kinds of timers of a consumer group, by the event that each awaits. If the event does not come in time, the
    timer removes the member, except a REGEX timer.
    """

    SESSION = "session"  #: Awaits the member's next heartbeat.
    REBALANCE = "rebalance"  #: Awaits that the member has revoked partitions.
    JOIN = "join"  #: Awaits the JoinGroup of a member that uses the classic protocol.
    SYNC = "sync"  #: Awaits the SyncGroup of a member that uses the classic protocol.
    REGEX = "regex"  #: Awaits no event, and removes no member: it resolves the group's regular expressions.


class Timers(dict[K, Timer]):
    """Pending timers by key; ``call_later`` sets a timer of the coordinator."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], Timer]) -> None:
        super().__init__()
        self._call_later = call_later

    def schedule(self, key: K, timeout_ms: float, callback: Callable[[], None]) -> None:
        """Set a timer that calls ``callback``, in place of the pending one with this key."""
        self.cancel(key)

        def fire() -> None:
            del self[key]
            callback()

        self[key] = self._call_later(max(timeout_ms, 0) / 1000, fire)

    def cancel(self, key: K) -> None:
        timer = self.pop(key, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        for key in list(self):
            self.cancel(key)
