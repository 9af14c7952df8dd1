"""Log an outage once when it begins, at most once a minute while it lasts, and once when it ends.

Otherwise a client that retries for ten minutes would log either one line per attempt or nothing. Each
:class:`OutageLog` belongs to one client, so that two clients in a process do not suppress each other's lines.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Hashable

from ..lazy_dataclass import dataclass, field
from ..types import TopicPartition

#: Seconds between two log lines about the same outage.
EVERY = 60.0
#: Seconds before the first line about a failure that usually ends by itself (a leader election, a broker restart).
GRACE = 5.0
#: Maximum number of outages tracked, which bounds the memory. If there are more, the oldest is dropped; if that one
#: fails again, it counts as new and is logged once more.
OUTAGES_MAX = 1000


@dataclass(slots=True)
class _Outage:
    """A series of failed attempts of one kind, for example all partitions with the same Fetch error on one broker. It
    begins with the first failed attempt, and ends when every object that failed has succeeded or was forgotten.
    """

    began_at: float
    logged_at: float | None = None
    attempts: int = 0
    subjects: set[Hashable] = field(default_factory=set)


class OutageLog:
    """Counts failed attempts by kind of failure and decides which of them are logged.

    A ``kind`` identifies what one log line describes, such as ``("Fetch", node_id, code)``. A ``subject`` is the
    failing object, such as a partition: an outage ends when each of its subjects has succeeded or was forgotten. Times
    are monotonic seconds.
    """

    __slots__ = ("_logger", "under_way")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.under_way: dict[Hashable, _Outage] = {}  #: By kind: the outages that have not ended.

    def failed(self, kind: Hashable, now: float, text: str, *, subject: Hashable = None, grace: float = 0.0) -> None:
        """Count a failed attempt, and log ``text`` as a WARNING unless the last line about this outage is too recent.

        The first line is logged ``grace`` seconds after the outage has begun: a positive value is for failures that
        usually end by themselves, such as a leader change. Further lines follow every EVERY seconds.
        """
        outage = self.under_way.get(kind)
        if outage is None:
            if len(self.under_way) >= OUTAGES_MAX:
                del self.under_way[next(iter(self.under_way))]
            outage = self.under_way[kind] = _Outage(now)
        outage.attempts += 1
        outage.subjects.add(subject)
        is_first = outage.logged_at is None
        if now - (outage.began_at if outage.logged_at is None else outage.logged_at) >= (grace if is_first else EVERY):
            outage.logged_at = now
            others = len(outage.subjects) - 1
            more = f" (and {others} more)" if others else ""
            history = "" if is_first else f"; {outage.attempts} failed attempts in {now - outage.began_at:.0f} s"
            self._logger.warning("%s%s%s", text, more, history)

    def recovered(self, subject: Hashable, now: float, text: str) -> None:
        """Record a successful attempt: drop ``subject`` from all outages. An outage without subjects has ended;
        ``text`` is logged as an INFO for each that was logged before.
        """
        # Connections call this in every step, usually without an outage: ``if self.under_way`` saves the call.
        for outage in self.forget(subject) if self.under_way else ():
            if outage.logged_at is not None:
                lasted = now - outage.began_at
                self._logger.info("%s after %.1f s and %d failed attempts", text, lasted, outage.attempts)

    def forget(self, subject: Hashable) -> list[_Outage]:
        """Drop ``subject`` (an unassigned partition, say) from all outages; return those without subjects left."""
        for outage in self.under_way.values():
            outage.subjects.discard(subject)
        return [self.under_way.pop(kind) for kind, outage in list(self.under_way.items()) if not outage.subjects]

    def keep(self, subjects: Container[Hashable]) -> None:
        """Drop all partitions that are not among ``subjects`` from all outages, and log nothing. Called with the
        partitions that are still assigned. Subjects that are not partitions stay.
        """
        for subject in {subject for outage in self.under_way.values() for subject in outage.subjects}:
            if isinstance(subject, TopicPartition) and subject not in subjects:
                self.forget(subject)
