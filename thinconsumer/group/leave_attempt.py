"""Leave a group: send one LeaveGroup, or one heartbeat with epoch -1 or -2, retried for a few seconds.

Without it, the partitions of this member stay unassigned until its session expires. If the coordinator cannot
be reached, the member accepts this delay and stops retrying after a few seconds, so that ``close()`` does not block.
"""

from collections.abc import Callable

from ..network.request import Request
from ..support.timers import Random
from ..wire import Message
from .coordinator import Coordinator, GroupSettings
from .coordinator_requests import CoordinatorRequests

#: Seconds to find the coordinator and receive its response; ``request_timeout_ms`` applies if it is shorter.
LEAVE_TIMEOUT = 5.0


class LeaveAttempt(CoordinatorRequests):
    """Send one request to leave. The attempt is over when the coordinator has responded or the deadline has passed."""

    def __init__(
        self,
        asker: str,
        settings: GroupSettings,
        coordinator: Coordinator,
        random: Random,
        channel: str,
        api: type[Message],
        message: Callable[[int], Message],
        now: float,
        *,
        min_version: int = 0,
    ) -> None:
        super().__init__(asker, settings, coordinator, random, channel, is_watched=False)
        self.is_over = False
        self._api = api
        self._message = message
        self._min_version = min_version
        self._deadline = coordinator.agenda.alarm()
        self._deadline.set(now + min(settings.request_timeout_ms / 1000, LEAVE_TIMEOUT))
        coordinator.agenda.touch()

    def step(self, now: float) -> Request | None:
        """Return the request if it is due. End the attempt at its deadline."""
        if self.is_over or self.in_flight is not None:
            return None
        if self._deadline.is_over(now):
            self.is_over = True
        elif self.may_send(now):
            return self.send(self._api, self._message, now, deadline=self._deadline.at, min_version=self._min_version)
        return None

    def answered(self, now: float, *, again: bool) -> None:
        """Process the response. With ``again`` the coordinator has not processed the request, so it is repeated."""
        self.retry.failed(now)
        self.is_over = not again or self._deadline.is_over(now)
