"""Failed joins of one member: the backoff before the next join, the log lines, and the error that polls raise."""

from __future__ import annotations

import logging

from ...errors import KafkaError
from ...failures import EXPULSIONS, GRACE, Action, OutageLog
from ...timers import Backoff, Random, Retry
from ...wire import Message
from ..settings import GroupSettings

#: Named after the package: these lines are about the member.
log = logging.getLogger(__package__)

#: How often in a row something that asks for another join at once gets it. A group that many enter at the same time
#: moves on under its members now and then; a broken one does so for ever.
AT_ONCE_MAX = 3
#: Lines logged about one incident, which is over when the coordinator has taken a heartbeat.
LINES_MAX = 4
#: The member logs that it was expelled, and ``Coordinator`` that the coordinator is lost.
_LOGGED_ELSEWHERE = EXPULSIONS | {Action.FIND_COORDINATOR}


class JoinFailurePolicy:
    """One member's failures in a row."""

    def __init__(self, settings: GroupSettings, group_id: str, random: Random) -> None:
        self._group_id = group_id
        self._backoff = Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000)
        self._retry = Retry(self._backoff, random)
        #: What does not pass by itself. Each answer that repeats it is a new object, which is raised once.
        self.error: KafkaError | None = None
        self.is_final = False  #: Whether trying again is pointless, too.
        self._raised_by: type[Message] | None = None
        self._outages = OutageLog(log)
        self._lines = 0

    @property
    def not_before(self) -> float:
        """When the next join may be sent."""
        return self._retry.not_before

    def pace(self, now: float, *, at_once: bool = False, at_leisure: bool = False) -> None:
        """Wait before the next join. What asks for another one at once gets it, but not time after time."""
        self._retry.failed(now)
        if at_once and self._retry.attempts <= AT_ONCE_MAX:
            self._retry.not_before = now
        if at_leisure:
            self._retry.not_before = now + self._backoff.maximum

    def over(self) -> None:
        """End the backoff: the coordinator has taken a heartbeat. A join and a sync alone do not prove that much."""
        if self._lines > LINES_MAX:
            log.info("group %s: in order again; lines left out here: %d", self._group_id, self._lines - LINES_MAX)
        self._lines = 0
        self._retry.succeeded()

    def say(self, level: int, text: str, *args: object) -> None:
        """Log; quietly, when the same incident has filled enough lines already."""
        self._lines += self._retry.attempts > 0
        log.log(level if self._lines <= LINES_MAX else logging.DEBUG, text, *args)

    def note(self, action: Action, error: KafkaError, api: type[Message], now: float) -> None:
        """Log a failure, and keep an error that does not pass by itself."""
        if action is Action.GIVE_UP:
            self.say(logging.ERROR, "group %s: left for good: %s", self._group_id, error)
        elif action not in _LOGGED_ELSEWHERE:
            kind = action, getattr(error, "code", None)
            grace = 0.0 if action is Action.RAISE else GRACE
            self._outages.failed(kind, now, f"group {self._group_id}: {error}", grace=grace)
        if action in (Action.GIVE_UP, Action.RAISE):
            self.error = error
            self.is_final = action is Action.GIVE_UP
            self._raised_by = api

    def cured(self, now: float, api: type[Message] | None = None) -> None:
        """Forget the error; with ``api`` only one that its answers have raised."""
        if api is None or self._raised_by is api:
            self.error = self._raised_by = None
            self.is_final = False
            self._outages.recovered(None, now, f"group {self._group_id}: the coordinator accepts this member again")
