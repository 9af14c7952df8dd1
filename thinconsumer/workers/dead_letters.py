"""Dead letters: records that were given up, written to a topic before they count as done."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ..config.client_options import ClientOptions
from ..driver import Driver
from ..produce import Producer, ProducerSettings
from ..produce.batch import SendFuture
from ..records.headers import Header
from ..sockets.secured import open_driver
from ..support.timers import NEVER
from .calling import Record
from .dispatcher import Job

log = logging.getLogger(__name__)

#: The prefix of the headers that name a dead letter's origin and its error. Compare KIP-298 and KIP-1034.
HEADER_PREFIX = "__workers.errors."
#: The longest message of an exception in a header, in characters.
MESSAGE_MAX = 1_000


def headers_of(record: Record, attempts: int, error: Exception, group_id: str) -> Iterator[Header]:
    """Return the headers of a dead letter: those of the record, and the reasons."""
    yield from record.headers
    reasons = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "group": group_id,
        "attempts": attempts,
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _text(error)[:MESSAGE_MAX],
    }
    for name, value in reasons.items():
        yield HEADER_PREFIX + name, str(value).encode(errors="replace")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - of the handler's class: its dead letter is written all the same
        return "its text cannot be made"


class DeadLetters:
    """Writes to one topic with the connection options of the consumer. Its producer connects for the first record."""

    def __init__(self, config: ClientOptions, topic: str, group_id: str, driver: Driver | None = None) -> None:
        self._topic = topic
        self._group_id = group_id
        shared = {name: getattr(config, name) for name in ClientOptions.options()}
        settings = ProducerSettings(**shared, max_request_size=2**31 - 1, max_block_ms=0, buffer_memory=2**31)
        self._producer = Producer(settings, driver=driver or open_driver(settings))
        self._pending: list[tuple[Job[Record], list[SendFuture]]] = []
        self._waits_for: Exception | None = None  #: Why the topic cannot be written to, such as that it is missing.

    def send(self, job: Job[Record], error: Exception) -> None:
        """Send the records of a job that was given up because of ``error``."""
        send, headers = self._producer.send, (job.attempt, error, self._group_id)
        futures = [
            send(
                self._topic,
                each.value,
                key=each.key,
                headers=headers_of(each, *headers),
                timestamp_ms=max(each.timestamp, 0),
            )
            for each in job.records
        ]
        self._pending.append((job, futures))

    def poll(self) -> Iterator[tuple[Job[Record], Exception | None]]:
        """Send and receive without waiting; yield the jobs whose records are written, or why they are not."""
        if not self._pending:
            return
        self._producer.poll(0)
        if (waits_for := self._producer.topic_error(self._topic)) is not None and self._waits_for is None:
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
