"""On the executor: reads exactly the offsets of one range, as Arrow batches of about the size that Spark likes.

Owns the connections of a worker process. Spark forks workers and uses them again for many tasks, so that a consumer is
kept for the next one; it may be lost at any moment, with its process. Where reading stands is decided by the
consumer's position and not by the last record seen: transactions and compaction leave holes that no record fills.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..consumer import Consumer
from ..errors import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordError,
)
from .columns import fetch
from .kept import Kept
from .options import consumer_config
from .planner import DataLossError, Loss, OffsetRange, tell

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Make = Callable[[Mapping[str, Any]], Consumer[Any, Any]]

#: How long one wait for records may take; seconds. A task that is killed gets to know it between two of them.
SLICE_S = 0.5
#: A range never asks for what is not written yet, so that no fetch has to wait for it; one past its end, which was sent
#: ahead, would hold up the next task.
_OURS = {
    "auto.offset.reset": "none",
    "fetch.max.wait.ms": "10",
    "max.poll.records": "1000000",
}


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What a task has to know besides its range."""

    kafka: dict[str, str] = field(repr=False)
    columns: tuple[str, ...]  #: Names, in the order in which they are wanted.
    fail_on_data_loss: bool = True
    max_batch_bytes: int = 1_572_864
    poll_timeout_ms: int = 120_000


#: One for the process, in a module that can be imported: what is pickled with a task is new for every task.
KEPT: Kept[Consumer[Any, Any]] = Kept(lambda consumer: consumer.close(autocommit=False, timeout_ms=0))


def connect(kafka: Mapping[str, str], make: Make) -> Consumer[Any, Any]:
    """Return a consumer with a reader's ``kafka.`` options, and what suits a task where they say nothing."""
    config = consumer_config(kafka)
    return make({**{name: value for name, value in _OURS.items() if name not in config}, **config})


def read(
    wanted: OffsetRange,
    how: ReadSettings,
    *,
    attempt: int = 0,
    kept: Kept[Consumer[Any, Any]] | None = None,
    make: Make = Consumer.from_config,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow batches, in order.

    Raises:
        DataLossError: some of it is gone, and that shall fail; names exactly what is.
        KafkaTimeoutError: there was no progress for ``poll_timeout_ms``.
    """
    kept = KEPT if kept is None else kept
    with kept.lent(how.kafka, lambda: connect(how.kafka, make), fresh=attempt > 0) as consumer:
        yield from _Reading(consumer, wanted, how, clock).batches()


class _Reading:
    """One range being read."""

    def __init__(
        self, consumer: Consumer[Any, Any], wanted: OffsetRange, how: ReadSettings, clock: Callable[[], float]
    ) -> None:
        self._clock = clock
        self._consumer = consumer
        self._tp = wanted.tp
        self._until = wanted.until
        self._start = wanted.start
        self._how = how

    def batches(self) -> Iterator[pa.RecordBatch]:
        consumer, tp, how = self._consumer, self._tp, self._how
        self._place()
        position, moved_at = self._start, self._clock()
        while position < self._until:
            try:
                yield from fetch(consumer, tp, self._until, how.columns, how.max_batch_bytes, SLICE_S * 1000)
                now_at = consumer.position(tp, how.poll_timeout_ms)
            except OffsetOutOfRangeError as error:
                now_at = self._after_range_error(error, position)
            except NoOffsetForPartitionError:
                # The topic was made anew, and a kept consumer forgets where it stood. The driver has looked at the new
                # one, and said what is lost: here it is read as a new consumer would read it.
                consumer.seek(tp, position)
                now_at = position
            except LogTruncationError as error:
                now_at = self._after_truncation(error)
            except RecordError as error:
                if error.offset < self._until:
                    raise
                now_at = self._until  # what is broken is behind a hole at the end, and another task's
            if now_at != position:
                position, moved_at = now_at, self._clock()
            elif self._clock() - moved_at >= how.poll_timeout_ms / 1000:
                raise self._stuck(position)

    def _place(self) -> None:
        """Go to where the range begins. What was fetched ahead for the task before may be just that."""
        consumer, tp = self._consumer, self._tp
        if consumer.assignment() != {tp}:
            consumer.assign([tp])
            consumer.seek(tp, self._start)
        elif self._kept_position() != self._start:
            consumer.seek(tp, self._start)

    def _kept_position(self) -> int | None:
        try:
            return self._consumer.position(self._tp, 0)
        except (KafkaTimeoutError, NoOffsetForPartitionError):
            return None  # it was just about to be looked up

    def _after_range_error(self, error: OffsetOutOfRangeError, position: int) -> int:
        """Return where to go on after some of the range was deleted, or all of what is left of it is not there."""
        low, high = error.log_start, error.log_end
        if low is not None and position < low:
            until = min(low, self._until)
            self._lose(Loss(self._tp, position, until, f"deleted; the log begins at {low}"), error)
            self._consumer.seek(self._tp, until)
            return until
        self._lose(Loss(self._tp, position, self._until, f"not there; the log ends at {high}"), error)
        return self._until

    def _after_truncation(self, error: LogTruncationError) -> int:
        """Go on behind what was read and is not in the log any more."""
        loss = Loss(self._tp, error.divergent_offset, error.position, "the log was truncated after it had been read")
        self._lose(loss, error)
        self._consumer.seek(self._tp, error.position)
        return error.position

    def _lose(self, loss: Loss, cause: KafkaError) -> None:
        if self._how.fail_on_data_loss:
            raise DataLossError([loss]) from cause
        log.warning("%s", tell([loss]))

    def _stuck(self, position: int) -> KafkaTimeoutError:
        seconds = self._how.poll_timeout_ms / 1000
        health = self._consumer.health()
        return KafkaTimeoutError(
            f"{self._tp.topic}-{self._tp.partition}: offset {position} of a range up to {self._until} was not read "
            f"within {seconds:g} s (kafkaConsumer.pollTimeoutMs): {health}"
        )
