"""Log an outage soon after it begins, ever more rarely while it lasts or comes back, and when it ends.

Otherwise a client that retries for ten minutes would log either one line per attempt or nothing. Each
:class:`OutageLog` belongs to one client, so that two clients in a process do not suppress each other's lines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Hashable

from ..support.lazy_dataclass import dataclass, field
from ..types import TopicPartition

#: The least number of seconds between two log lines about an outage while it lasts.
EVERY = 60.0
#: How often the pause between two lines is doubled, so that it becomes eight minutes at most.
DOUBLINGS = 3
#: Seconds before the first line about a failure that usually ends by itself (a leader election, a broker restart).
GRACE = 5.0
#: An outage that begins again within this many seconds after its last failed attempt continues the earlier one: a
#: broker that fails every minute would otherwise be logged every minute.
RECURS_S = EVERY * (1 << DOUBLINGS)
#: An outage counts as recurring if it has begun ``RECURRENCES_MIN`` times, each time after the first within
#: ``RECURS_SOON_S`` seconds after the last failed attempt before.
RECURRENCES_MIN = 3
RECURS_SOON_S = 10.0
#: Maximum number of outages under way, and of those that have ended, which bounds the memory. If there are more, the
#: oldest one is dropped; a further failed attempt of its kind begins a new outage.
OUTAGES_MAX = 1000


@dataclass(slots=True)
class _Outage:
    """A series of failed attempts of one kind, for example Fetches of a topic's partitions that get the same error. It
    begins with the first failed attempt, and ends when every object that failed has succeeded or was forgotten.
    """

    began_at: float
    failed_at: float  #: When an attempt last failed.
    recurs_since: float  #: The time of the first beginning that ``recurrences`` counts.
    #: How often the outage has begun in a row: each time within RECURS_SOON_S after the last failed attempt before.
    recurrences: int = 1
    returns: int = 0  #: How often the outage has begun again within RECURS_S.
    logged_at: float | None = None
    lines: int = 0
    attempts: int = 0
    subjects: set[Hashable] = field(default_factory=set)
    text: str | Callable[[], str] = ""  #: The text of the last failed attempt.

    def resume(self, now: float) -> None:
        """Begin the outage again, with a failed attempt after its end."""
        if now - self.failed_at > RECURS_SOON_S:
            self.recurs_since, self.recurrences = now, 0
        self.began_at, self.attempts = now, 0
        self.returns += 1
        self.lines = min(self.lines, self.returns)  # so the first return is logged without a pause after the last line
        self.recurrences += 1

    def is_recurring(self, now: float) -> bool:
        """Return whether the outage has ended and begun again several times, and last failed a moment ago."""
        return self.recurrences >= RECURRENCES_MIN and now - self.failed_at <= RECURS_SOON_S

    def words(self) -> str:
        return self.text if isinstance(self.text, str) else self.text()

    def next_line_at(self, grace: float) -> float:
        """Return the time from which on a failed attempt is logged."""
        due = grace + (self.recurs_since if self.recurrences >= RECURRENCES_MIN else self.began_at)
        if self.logged_at is None:
            return due
        doublings = self.lines - 1 if self.logged_at >= self.began_at else self.lines - 2
        return due if doublings < 0 else max(due, self.logged_at + EVERY * (1 << min(doublings, DOUBLINGS)))

    def history(self, now: float) -> str:
        """Return attempts and duration in words, to append to a line; "" for the first line since the outage began."""
        if self.logged_at is None or self.logged_at < self.began_at:
            return ""
        attempts = f"{self.attempts} failed attempts in " if self.attempts else "for "
        return f"; {attempts}{now - self.began_at:.0f} s"


class OutageLog:
    """Counts failed attempts by kind of failure and decides which of them are logged.

    A ``kind`` identifies what one log line describes, such as an error code and a topic. A ``subject`` is the
    failing object, such as a partition: an outage ends when each of its subjects has succeeded or was forgotten. Times
    are monotonic seconds.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.under_way: dict[Hashable, _Outage] = {}  #: By kind: the outages that have not ended.
        self._ended: dict[Hashable, _Outage] = {}  #: By kind: ended outages, to continue if they begin again.

    def has(self, kind: Hashable) -> bool:
        """Return whether an outage of this kind is under way."""
        return kind in self.under_way

    def is_logged(self, kind: Hashable) -> bool:
        """Return whether an outage of this kind is under way and was logged."""
        outage = self.under_way.get(kind)
        return outage is not None and outage.logged_at is not None

    def failed(
        self,
        kind: Hashable,
        now: float,
        text: str | Callable[[], str],
        *,
        subject: Hashable = None,
        grace: float = 0.0,
        attempts: int = 1,
        logs: bool = True,
    ) -> None:
        """Count a failed attempt, and log ``text`` as a WARNING if a line about this outage is due.

        The first line is logged at the first attempt that fails ``grace`` seconds or more after the outage has begun
        (if it recurs: has first begun). A positive ``grace`` is for failures that usually end by themselves, such as a
        leader change. Further lines follow after pauses of at least one, two, four, and then eight minutes.
        ``attempts`` is how many attempts this call counts. With ``logs=False`` it only counts: other log lines tell the
        cause.
        """
        outage = self.under_way.get(kind)
        if outage is None:
            _make_room(self.under_way)
            outage = self.under_way[kind] = self._begun(kind, now)
        outage.attempts += attempts
        outage.text, outage.failed_at = text, now
        outage.subjects.add(subject)
        if not logs or now < outage.next_line_at(grace):
            return
        others = len(outage.subjects) - 1
        more = f" (and {others} more)" if others else ""
        self._logger.warning("%s%s%s", outage.words(), more, outage.history(now))
        outage.logged_at = now
        outage.lines += 1

    def recovered(self, subject: Hashable, now: float, text: str) -> None:
        """Record a successful attempt: drop ``subject`` from all outages. An outage without subjects has ended;
        ``text`` is logged as an INFO for each ended outage that was logged since it last began.
        """
        # Called often, mostly without an outage: ``if self.under_way`` saves the inner call.
        for outage in self.forget(subject) if self.under_way else ():
            if outage.logged_at is not None and outage.logged_at >= outage.began_at:
                attempts = f" and {outage.attempts} failed attempts" if outage.attempts else ""
                self._logger.info("%s after %.1f s%s", text, now - outage.began_at, attempts)

    def forget(self, subject: Hashable) -> list[_Outage]:
        """Drop ``subject`` (an unassigned partition, say) from all outages; return those without subjects left."""
        ended: list[_Outage] = []
        for kind, outage in list(self.under_way.items()):
            outage.subjects.discard(subject)
            if not outage.subjects:
                del self.under_way[kind]
                _make_room(self._ended)
                self._ended[kind] = outage
                ended.append(outage)
        return ended

    def recurring(self, now: float) -> list[tuple[str, float]]:
        """Return the texts of the outages that keep ending and beginning again, and since when each does so."""
        found = [one for one in (*self.under_way.values(), *self._ended.values()) if one.is_recurring(now)]
        return [(one.words(), one.recurs_since) for one in found]

    def _begun(self, kind: Hashable, now: float) -> _Outage:
        before = self._ended.pop(kind, None)
        if before is None or now - before.failed_at > RECURS_S:
            return _Outage(now, now, now)
        before.resume(now)
        return before

    def keep(self, subjects: Container[Hashable]) -> None:
        """Drop all partitions that are not among ``subjects`` from all outages, and log nothing. Called with the
        partitions that are still assigned or queried. Subjects that are not partitions stay.
        """
        for subject in {subject for outage in self.under_way.values() for subject in outage.subjects}:
            if isinstance(subject, TopicPartition) and subject not in subjects:
                self.forget(subject)


def _make_room(outages: dict[Hashable, _Outage]) -> None:
    if len(outages) >= OUTAGES_MAX:
        del outages[next(iter(outages))]
