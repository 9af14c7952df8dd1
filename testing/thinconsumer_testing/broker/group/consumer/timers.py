"""The timers of the members of consumer groups.

A timer belongs to the coordinator, not to a group, which is only what the log says. When it fires, its callback checks
whether the member is still there, so that a timer of a removed group does no harm.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from ...schedule import Timer


class TimerKind(enum.Enum):
    """The event that must occur at a member, or its group, before a timer ends."""

    SESSION = "session"  #: The next heartbeat.
    REBALANCE = "rebalance"  #: The revocation of partitions.
    JOIN = "join"  #: The JoinGroup of a member that uses the classic protocol.
    SYNC = "sync"  #: The SyncGroup of such a member.
    REGEX = "regex"  #: The resolution of the group's regular expressions.


class MemberTimers:
    """Named timers; ``call_later`` sets a timer of the coordinator."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._call_later = call_later
        self._timers: dict[tuple[str, str, TimerKind], Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def is_set(self, group_id: str, member_id: str, kind: TimerKind) -> bool:
        """Return whether a timer is pending."""
        return (group_id, member_id, kind) in self._timers

    def schedule(
        self, group_id: str, member_id: str, kind: TimerKind, timeout_ms: float, callback: Callable[[], None]
    ) -> None:
        """Set a timer, in place of the pending one of this kind."""
        self.cancel(group_id, member_id, kind)

        def fire() -> None:
            del self._timers[key]
            callback()

        key = group_id, member_id, kind
        self._timers[key] = self._call_later(max(timeout_ms, 0) / 1000, fire)

    def cancel(self, group_id: str, member_id: str, kind: TimerKind) -> None:
        """Cancel a timer, if it is set."""
        timer = self._timers.pop((group_id, member_id, kind), None)
        if timer is not None:
            timer.cancel()

    def cancel_member(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member."""
        for kind in TimerKind:
            self.cancel(group_id, member_id, kind)

    def cancel_group(self, group_id: str) -> None:
        """Cancel all timers of a group's members."""
        for found, member_id, kind in list(self._timers):
            if found == group_id:
                self.cancel(found, member_id, kind)

    def cancel_all(self) -> None:
        """Cancel all timers: the coordinator unloads its groups."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
