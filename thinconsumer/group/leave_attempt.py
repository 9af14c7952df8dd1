"""Leave a group: send one LeaveGroup, or one heartbeat with epoch -1 or -2, retried for a few seconds.

Without it, the partitions of this member stay unassigned until its session expires. If the coordinator cannot
be reached, the member accepts this delay and stops retrying after a few seconds, so that ``close()`` does not block.
"""

from collections.abc import Callable

from ..connection.request import Request, Target
from ..errors import IllegalStateError
from ..timers import NEVER, Backoff, Random, Retry
from ..wire import Message
from .settings import GroupSettings

#: Seconds to find the coordinator and receive its response; ``request_timeout_ms`` applies if it is shorter.
LEAVE_TIMEOUT = 5.0


class LeaveAttempt:
    """Send one request to leave. The attempt is over when the coordinator has responded or the deadline has passed."""

    def __init__(
        self,
        settings: GroupSettings,
        api: type[Message],
        message: Callable[[int], Message],
        channel: str,
        now: float,
        random: Random,
        *,
        min_version: int = 0,
    ) -> None:
        self.is_over = False
        self.is_written = False  #: Whether the last request was written to the connection.
        self._api = api
        self._message = message
        self._min_version = min_version
        self.channel = channel  #: The name of the connection to the coordinator.
        self._deadline = now + min(settings.request_timeout_ms / 1000, LEAVE_TIMEOUT)
        self._retry = Retry(Backoff.from_settings(settings), random)
        self.in_flight: Request | None = None

    def step(self, asker: str, target: Target | None, now: float) -> Request | None:
        """Return the request if it is due. End the attempt at its deadline."""
        if self.is_over or self.in_flight is not None:
            return None
        if now >= self._deadline:
            self.is_over = True
        elif target is not None and self._retry.may_send(now):
            self.is_written = False
            self.in_flight = Request(
                asker, self._api, target, self._build, self._deadline, context=self, min_version=self._min_version
            )
            return self.in_flight
        return None

    def wake_at(self, target: Target | None) -> float:
        """Return when :meth:`step` is due next if no response arrives before."""
        if self.is_over or self.in_flight is not None:
            return NEVER
        return self._deadline if target is None else min(self._deadline, self._retry.wake_at())

    def answered(self, now: float, *, again: bool) -> None:
        """Process the response. With ``again`` the coordinator has not processed the request, so it is repeated."""
        self.in_flight = None
        self._retry.failed(now)
        self.is_over = not again or now >= self._deadline

    def _build(self, version: int) -> Message:
        if self.is_over:
            raise IllegalStateError("this request to leave was abandoned before it was written")
        self.is_written = True
        return self._message(version)
