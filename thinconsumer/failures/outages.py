"""Log an outage once when it begins, at most once a minute while it lasts, and once when it ends.

Otherwise a client that retries for ten minutes would log either one line per attempt or nothing. Each
:class:`OutageLog` belongs to one client, so that two clients in a process do not suppress each other's lines.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Hashable
from dataclasses import dataclass, field

from ..types import TopicPartition

__all__ = ["EVERY", "GRACE", "OutageLog"]

#: Seconds between two log lines about the same outage.
EVERY = 60.0
#: Seconds before the first line about a failure that usually ends by itself (a leader election, a broker restart).
GRACE = 5.0
#: Maximum number of outages tracked. Beyond it the oldest is dropped, which can only cause an extra log line.
OUTAGES_MAX = 1000


@dataclass(slots=True)
class _Outage:
    """One kind of failure, from its first failed attempt until an attempt of every subject has succeeded."""

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

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._outages: dict[Hashable, _Outage] = {}

    def failed(self, kind: Hashable, now: float, text: str, *, subject: Hashable = None, grace: float = 0.0) -> None:
        """Count a failed attempt and log ``text`` as a WARNING if a line is due.

        No line is logged during the first ``grace`` seconds of an outage, for failures that usually end by themselves,
        such as a leader change.
        """
        outage = self._outages.get(kind)
        if outage is None:
            if len(self._outages) >= OUTAGES_MAX:
                del self._outages[next(iter(self._outages))]
            outage = self._outages[kind] = _Outage(now)
        outage.attempts += 1
        outage.subjects.add(subject)
        lasted = now - outage.began_at
        if outage.logged_at is None:
            if lasted >= grace:
                outage.logged_at = now
                self._logger.warning("%s%s", text, self._others(outage))
        elif now - outage.logged_at >= EVERY:
            outage.logged_at = now
            self._logger.warning(
                "%s%s; %d failed attempts in %.0f s", text, self._others(outage), outage.attempts, lasted
            )

    def succeeded(self, kind: Hashable, now: float, text: str, *, subject: Hashable = None) -> None:
        """End the outage of ``subject``; when it was the last one of ``kind``, log ``text`` once as an INFO."""
        outage = self._outages.get(kind)
        if outage is None:
            return
        outage.subjects.discard(subject)
        if outage.subjects:
            return
        del self._outages[kind]
        if outage.logged_at is not None:
            self._logger.info("%s after %.1f s and %d failed attempts", text, now - outage.began_at, outage.attempts)

    def recovered(self, subject: Hashable, now: float, text: str) -> None:
        """End the outages of ``subject`` of all kinds, as :meth:`succeeded` does."""
        for kind in [kind for kind, outage in self._outages.items() if subject in outage.subjects]:
            self.succeeded(kind, now, text, subject=subject)

    def forget(self, subject: Hashable) -> None:
        """Drop ``subject`` (a partition that was unassigned, say) from all outages without logging."""
        for kind, outage in list(self._outages.items()):
            outage.subjects.discard(subject)
            if not outage.subjects:
                del self._outages[kind]

    def keep(self, subjects: Container[Hashable]) -> None:
        """Drop all partitions that are not among ``subjects`` from all outages without logging."""
        known = {subject for outage in self._outages.values() for subject in outage.subjects}
        for subject in known:
            if isinstance(subject, TopicPartition) and subject not in subjects:
                self.forget(subject)

    @staticmethod
    def _others(outage: _Outage) -> str:
        others = len(outage.subjects) - 1
        return f" (and {others} more)" if others else ""
