"""Saying goodbye to a group: a LeaveGroup that is worth some effort and no more.

Without it the others wait for our session to expire before anybody gets what was ours. With a coordinator that cannot
be reached nothing is lost but that time, so the effort is bounded.
"""

from __future__ import annotations

from ...connection.request import Request, Target
from ...errors import IllegalStateError
from ...timers import NEVER, Backoff, Random, Retry
from ...wire import Message
from ...wire.leave_group import LeaveGroupRequest
from ..identity import Identity
from ..settings import GroupSettings
from . import requests

#: How long to look for a coordinator, and wait for its answer, in seconds; not longer than ``request_timeout_ms``.
PATIENCE = 5.0


class LeaveGroupAttempt:
    """One goodbye on its way. Over as soon as the coordinator has answered, or time is up."""

    def __init__(
        self, settings: GroupSettings, who: Identity, reason: str, channel: str, now: float, random: Random
    ) -> None:
        self.who = who
        self.over = False
        self._reason = reason
        self.channel = channel  #: Which connection to the coordinator to use.
        self._deadline = now + min(settings.request_timeout_ms / 1000, PATIENCE)
        backoff = Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000)
        self._retry = Retry(backoff, random)
        self.out: Request | None = None

    def step(self, asker: str, target: Target | None, now: float) -> Request | None:
        """Return the request, if it is due."""
        if self.over or self.out is not None:
            return None
        if now >= self._deadline:
            self.over = True
        elif target is not None and self._retry.may_send(now):
            lowest = requests.lowest_version(LeaveGroupRequest, self.who)
            self.out = Request(
                asker, LeaveGroupRequest, target, self._build, self._deadline, context=self, min_version=lowest
            )
            return self.out
        return None

    def wake_at(self, target: Target | None) -> float:
        """Return when :meth:`step` has something to do by itself."""
        if self.over or self.out is not None:
            return NEVER
        return self._deadline if target is None else min(self._deadline, self._retry.wake_at())

    def answered(self, now: float, *, again: bool) -> None:
        """Take the answer; ``again`` when it shows that the coordinator has not heard us."""
        self.out = None
        self._retry.failed(now)
        self.over = not again or now >= self._deadline

    def restart(self) -> None:
        """Say it again: who would have answered is gone."""
        self.out = None

    def _build(self, version: int) -> Message:
        if self.over:
            raise IllegalStateError("this goodbye is over")
        return requests.leave(self.who, self._reason, version)
