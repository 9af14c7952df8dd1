"""Dead letters: records that were given up, written to a topic before they count as done."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ..config.client_options import ClientOptions
from ..driver import Driver
from ..produce.batch import SendFuture
from ..produce.dead_letters import LetterWriter, letter_settings
from ..sockets.secured import open_driver
from ..support.timers import NEVER
from .calling import Record
from .dispatcher import Job

log = logging.getLogger(__name__)


class DeadLetters:
    """Writes to one topic with the connection options of the consumer. Its producer connects for the first record."""

    def __init__(self, config: ClientOptions, topic: str, group_id: str, driver: Driver | None = None) -> None:
        settings = letter_settings(config)
        self._writer = LetterWriter(settings, topic, group_id, driver or open_driver(settings))
        self._producer = self._writer.producer
        self._pending: list[tuple[Job[Record], list[SendFuture]]] = []
        self._waits_for: Exception | None = None  #: Why the topic cannot be written to, such as that it is missing.

    def send(self, job: Job[Record], error: Exception) -> None:
        """Send the records of a job that was given up because of ``error``."""
        self._pending.append((job, [self._writer.send(each, job.attempt, error) for each in job.records]))

    def poll(self) -> Iterator[tuple[Job[Record], Exception | None]]:
        """Send and receive without waiting; yield the jobs whose records are written, or why they are not."""
        if not self._pending:
            return
        self._producer.poll(0)
        if (waits_for := self._writer.obstacle) is not None and self._waits_for is None:
            log.warning("dead letters wait, and what follows their records is not committed: %s", waits_for)
        self._waits_for = waits_for
        pending = []
        for job, futures in self._pending:
            if all(future.done for future in futures):
                yield job, next((found for future in futures if (found := future.error) is not None), None)
            else:
                pending.append((job, futures))
        self._pending = pending

    @property
    def has_pending(self) -> bool:
        """Whether a job waits for its records to be written."""
        return bool(self._pending)

    def wake_at(self) -> float:
        """Return when to poll at the latest: never while nothing is pending, since :meth:`poll` does nothing then."""
        return self._producer.wake_at() if self._pending else NEVER

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to receive."""
        return self._producer.fileno()

    def close(self) -> None:
        """Close the connections; records without an acknowledgement may be written or not."""
        self._producer.close(timeout_ms=0)
