"""What keeps a member out of its group: how long to wait before trying again, what to log, what every poll raises."""

from __future__ import annotations

import logging

from ...errors import KafkaError
from ...timers import Backoff, Random, Retry
from ...wire import Message
from ..settings import GroupSettings
from .verdicts import EXPULSIONS, Verdict

#: Of the whole room: what is said here is said for the member.
log = logging.getLogger(__package__)

#: How often in a row something that asks for another join at once gets it. A group that many enter at the same time
#: moves on under its members now and then; a broken one does so for ever.
AT_ONCE_MAX = 3
#: Lines logged about one incident, which is over when the coordinator has taken a heartbeat.
LINES_MAX = 4
#: The member logs that it was expelled, and the coordinator's keeper that it is gone.
_SAID_ELSEWHERE = EXPULSIONS | {Verdict.NOT_THERE}


class JoinFailurePolicy:
    """One member's failures in a row."""

    def __init__(self, settings: GroupSettings, group_id: str, random: Random) -> None:
        self._group_id = group_id
        self._backoff = Backoff(settings.retry_backoff_ms / 1000, settings.retry_backoff_max_ms / 1000)
        self._retry = Retry(self._backoff, random)
        #: What will not pass by itself; every poll raises it, so that it is not shown once and then forgotten.
        self.error: KafkaError | None = None
        self.is_final = False  #: Whether trying again is pointless, too.
        self._raised_by: type[Message] | None = None
        self._said: object = None  #: What was logged, so as to log it once.
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

    def note(self, verdict: Verdict, error: KafkaError, api: type[Message]) -> None:
        """Keep what only somebody else can cure, and log it; of all else, log each reason once until it is over."""
        kind = verdict, getattr(error, "code", None)
        if verdict is Verdict.FATAL:
            self.say(logging.ERROR, "group %s: out for good: %s", self._group_id, error)
        elif kind != self._said and verdict not in _SAID_ELSEWHERE:
            level = logging.WARNING if verdict is Verdict.REFUSED else logging.INFO
            self.say(level, "group %s: %s", self._group_id, error)
            self._said = kind
        if verdict in (Verdict.FATAL, Verdict.REFUSED):
            self.error = error
            self.is_final = verdict is Verdict.FATAL
            self._raised_by = api

    def cured(self, api: type[Message] | None = None) -> None:
        """Forget the error; with ``api`` only one that its answers have raised."""
        if api is None or self._raised_by is api:
            self.error = self._raised_by = self._said = None
            self.is_final = False
