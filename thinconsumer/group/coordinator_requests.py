"""Requests to a group's coordinator, one at a time; for partition leaders, the counterpart is ``LeaderQueries``.

In each step, the manager that owns a :class:`CoordinatorRequests` calls :meth:`CoordinatorRequests.abandon_if_moved`,
and may send if :meth:`CoordinatorRequests.may_send` allows it; for each answer it calls
:meth:`CoordinatorRequests.take` first. The response to an abandoned request is dropped. An abandoned request that is
still queued is never written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..errors import IllegalStateError
from ..network.negotiate import api_name
from ..network.request import Answer, Request
from ..support.timers import NEVER, Backoff, Random, Retry
from ..wire import Message
from .coordinator import GENERAL, Coordinator, GroupSettings, RequestSettings

log = logging.getLogger(__name__)

#: How many seconds a leaving member has to find the coordinator and receive the response; ``request_timeout_ms``
#: applies if it is shorter.
LEAVE_TIMEOUT = 5.0


class CoordinatorRequests:
    """Send requests to the coordinator over one connection, at most one at a time, with a backoff after failures.

    While a response is late, ``Coordinator`` asks other brokers from time to time whether the group has moved, unless
    ``is_watched`` is False.
    """

    def __init__(
        self,
        asker: str,
        settings: RequestSettings,
        coordinator: Coordinator,
        random: Random,
        channel: str = GENERAL,
        *,
        is_watched: bool = True,
    ) -> None:
        self.channel = channel
        self.retry = Retry(Backoff.from_settings(settings), random, coordinator.agenda)
        self.in_flight: Request | None = None
        self.is_written = False  #: Whether the last request was written to its connection.
        self.sent_at = -NEVER
        self._asker = asker
        self._coordinator = coordinator
        self._request_timeout = settings.request_timeout_ms / 1000
        #: When other brokers are asked whether the group has moved, unless the response comes before.
        self.silence = coordinator.agenda.alarm()
        if is_watched:
            coordinator.watched.append(self)

    @property
    def is_open(self) -> bool:
        """Whether the coordinator is known and not loading, and no request is in flight."""
        return self.in_flight is None and self._coordinator.target(self.channel) is not None

    def may_send(self, now: float) -> bool:
        return self.is_open and not self.retry.pause.is_ahead(now)

    def send(
        self, api: type[Message], message: Callable[[int], Message], now: float, *, deadline: float | None = None,
        context: Any = None, min_version: int = 0, max_version: Callable[[], int] | None = None, max_wait: float = 0.0,
    ) -> Request:  # fmt: skip
        """Return a request, which is in flight from now on.

        When the request is written, ``message`` is called with the API version, and returns the content. Without a
        ``deadline``, the response has to arrive within ``request_timeout_ms``. For the other parameters, see
        :class:`.Request`.
        """
        target = self._coordinator.target(self.channel)
        if target is None or self.in_flight is not None:
            raise IllegalStateError(f"cannot send {api_name(api)}: no coordinator, or a request is in flight")

        def build(version: int) -> Message:
            if request is not self.in_flight:
                # Otherwise a consumer that has left the group meanwhile could join the group again, for example.
                raise IllegalStateError(f"this {api_name(api)} was abandoned before it was written")
            self.is_written = True
            return message(version)

        deadline = now + self._request_timeout if deadline is None else deadline
        request = Request(self._asker, api, target, build, deadline, context, min_version, max_version, max_wait)
        self.in_flight, self.sent_at, self.is_written = request, now, False
        self.silence.set(now + self._coordinator.ask_another_after)
        return request

    def take(self, answer: Answer) -> bool:
        """End the request in flight; return False if the answer is to an abandoned one, which is to be dropped."""
        if answer.request is not self.in_flight:
            text = "group %s: dropped the response to an abandoned %s"
            log.debug(text, self._coordinator.group_id, api_name(answer.request.api))
            return False
        self.in_flight = None
        return True

    def abandon_if_moved(self) -> Request | None:
        """Abandon the request in flight if another node is the coordinator now, and return it; else return None.

        While no coordinator is known, the request is kept: FindCoordinator may name the same node again.
        """
        request, node_id = self.in_flight, self._coordinator.node_id
        if request is None or node_id is None or node_id == request.target.node_id:
            return None
        self.in_flight = None
        return request

    def restart(self) -> None:
        """Forget the request in flight and end the backoff: the engine's restart has closed all connections."""
        self.in_flight = None
        self.retry.succeeded()


class LeaveAttempt(CoordinatorRequests):
    """Send the request to leave, again after failures, until the coordinator decides or a few seconds have passed.

    Without this request, the partitions of the member stay unassigned until its session expires. If the coordinator
    cannot be reached, the member accepts this delay, so that ``close()`` does not block.
    """

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

    def step(self, now: float) -> Request | None:
        if self.is_over or self.in_flight is not None:
            return None
        if self._deadline.is_over(now):
            self.is_over = True
        elif self.may_send(now):
            return self.send(self._api, self._message, now, deadline=self._deadline.at, min_version=self._min_version)
        return None

    def answered(self, now: float, *, again: bool) -> None:
        """Process the response. With ``again``, the request is repeated after a backoff, until the deadline."""
        self.retry.failed(now)
        self.is_over = not again or self._deadline.is_over(now)
