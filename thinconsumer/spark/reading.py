"""A read task on the executor: yields the records of one offset range as Arrow batches, and reports data loss.

Spark reuses a worker process for many tasks, so the consumer is cached for the next task. A range is complete when the
consumer's position reaches the range's end, not at a certain record: after compaction and in transactions, the last
offsets of a range may have no records.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..consumer import Consumer
from ..consumer.bulk_queries import known_topic_id, partitions_of, poll_up_to
from ..errors import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordError,
)
from ..wire import ZERO_UUID
from .options import SourceOptions, consumer_config, errors_name_host
from .planner import DataLossError, Loss, OffsetRange, describe_losses
from .worker_process import ClientCache

if TYPE_CHECKING:
    import pyarrow as pa

    from ..records.columnar.record_columns import RecordColumns

log = logging.getLogger(__name__)

MakeConsumer = Callable[[Mapping[str, Any]], Consumer[Any, Any]]

#: Timeout of one poll, in seconds. Spark can cancel a task only between two polls.
POLL_S = 0.5
#: Decompressed bytes that a poll decodes at once, per byte that a Fetch response may have. With 1, a compressed
#: response takes several polls, and 6 to 8 % more CPU time per record; more than 2 gains little and takes more memory.
INFLATION = 2
#: Seconds for which metadata must lack a topic before it counts as deleted (``kafkaConsumer.pollTimeoutMs`` if that is
#: shorter): a broker that has just started may not have the cluster's current metadata.
DELETED_AFTER_S = 5.0
#: fetch.max.wait.ms is short, since the consumer also prefetches after the end of the range, where there may be no
#: records. A broker delays the response to such a Fetch by fetch.max.wait.ms, and with it the response to the next
#: task's Fetch on the same connection.
_TASK_DEFAULTS = {"auto.offset.reset": "none", "fetch.max.wait.ms": "10", "max.poll.records": "1000000"}
#: The consumers that tasks of this process use one after another. A global of an importable module keeps its value
#: between tasks; everything else is unpickled anew for each task.
CONSUMERS: ClientCache[Consumer[Any, Any]] = ClientCache(
    lambda consumer: consumer.close(autocommit=False, timeout_ms=0)
)


def read(
    offset_range: OffsetRange,
    options: SourceOptions,
    columns: tuple[str, ...],
    *,
    attempt: int = 0,
    cache: ClientCache[Consumer[Any, Any]] | None = None,
    make: MakeConsumer = Consumer.from_config,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow batches with the given columns.

    ``attempt`` is the number of earlier attempts at the task: if it is above 0, a new consumer replaces a cached one.

    Raises:
        DataLossError: offsets of the range no longer exist, and ``failOnDataLoss`` is true.
        KafkaTimeoutError: the position has not moved for ``poll_timeout_ms``.
    """

    def connect() -> Consumer[Any, Any]:
        with errors_name_host(options.kafka):
            return make({**_TASK_DEFAULTS, **consumer_config(options.kafka)})

    cache = CONSUMERS if cache is None else cache
    with cache.borrow(options.kafka, connect, fresh=attempt > 0) as consumer:
        yield from _RangeReader(consumer, offset_range, options, columns, clock).batches()


class _RangeReader:
    def __init__(
        self,
        consumer: Consumer[Any, Any],
        offset_range: OffsetRange,
        options: SourceOptions,
        columns: tuple[str, ...],
        clock: Callable[[], float],
    ) -> None:
        self._consumer, self._options, self._columns, self._clock = consumer, options, columns, clock
        self._tp, self._topic_id = offset_range.tp, offset_range.topic_id
        self._position, self._until = offset_range.start, offset_range.until

    def batches(self) -> Iterator[pa.RecordBatch]:
        timeout_s = self._options.poll_timeout_ms / 1000
        self._seek_to_start()
        position, moved_at = self._position, self._clock()
        denied_at: float | None = None
        while position < self._until:
            try:
                yield from self._poll()
            except (OffsetOutOfRangeError, NoOffsetForPartitionError, LogTruncationError, RecordError) as error:
                self._recover(error)
            now = self._clock()
            if known_topic_id(self._consumer, self._tp.topic) is not None:
                denied_at = None
            elif denied_at is None:
                denied_at = now
            if self._position != position:
                position, moved_at = self._position, now
            elif denied_at is not None and now - denied_at >= min(DELETED_AFTER_S, timeout_s):
                self._lose_rest("the topic was deleted")
                return
            elif now - moved_at >= timeout_s:
                raise self._stuck()

    def _seek_to_start(self) -> None:
        """Seek to the range's start, unless the last task ended there: a seek would drop prefetched records."""
        consumer, tp = self._consumer, self._tp
        if consumer.assignment() != {tp}:
            consumer.assign([tp])
            consumer.seek(tp, self._position)
        elif self._kept_position() != self._position:
            consumer.seek(tp, self._position)

    def _kept_position(self) -> int | None:
        try:
            return self._consumer.position(self._tp, 0)
        except (KafkaTimeoutError, NoOffsetForPartitionError):
            return None

    def _poll(self) -> Iterator[pa.RecordBatch]:
        consumer, tp, options = self._consumer, self._tp, self._options
        # To decode a whole Fetch response at once, and cut it into batches for Spark afterwards, takes a quarter less
        # time per record than to decode parts of ``maxBatchBytes``.
        bytes_max = max(options.max_batch_bytes, INFLATION * consumer.config.batches_fetch_bytes)
        found = poll_up_to(consumer, {tp: self._until}, bytes_max, POLL_S * 1000, columns=True).records
        if self._is_other_topic():
            self._check_recreated()
            return
        if tp in found:
            yield from arrow_batches(found[tp], self._until, self._columns, options.max_batch_bytes)
        self._position = consumer.position(tp, options.poll_timeout_ms)

    def _recover(self, error: KafkaError) -> None:
        """Report the offsets that ``error`` shows to be lost, and continue after them.

        Raises:
            DataLossError: offsets are lost, and ``failOnDataLoss`` is true.
            RecordError: a record of the range is corrupt.
        """
        if self._is_other_topic():
            self._check_recreated(error)
        elif isinstance(error, NoOffsetForPartitionError):
            # The topic was deleted and created again before this range was planned. The cached consumer has received
            # the new topic id only now, and has dropped the position in the deleted topic.
            self._seek(self._position)
        elif isinstance(error, OffsetOutOfRangeError):
            low, high = error.log_start, error.log_end
            if low is not None and self._position < low:
                until = min(low, self._until)
                self._lose(Loss(self._tp, self._position, until, f"deleted; the log begins at {low}"), error)
                self._seek(until)
            else:
                self._lose_rest(f"missing; the log ends at {high}", error)
        elif isinstance(error, LogTruncationError):
            why = "the log was truncated after it had been read"
            self._lose(Loss(self._tp, error.divergent_offset, error.position, why), error)
            self._seek(error.position)
        elif isinstance(error, RecordError) and error.offset >= self._until:
            # The corrupt record is after the range, which is complete.
            self._position = self._until
        else:
            raise error

    def _is_other_topic(self) -> bool:
        known = known_topic_id(self._consumer, self._tp.topic)
        return known not in (None, ZERO_UUID, self._topic_id) and self._topic_id != ZERO_UUID

    def _check_recreated(self, error: KafkaError | None = None) -> None:
        """Report the rest of the range as lost if the topic was deleted and created again; else read the range again
        from the task's position.
        """
        partitions_of(self._consumer, [self._tp.topic])  # a cached consumer's metadata may be older than the plan
        if self._is_other_topic():
            found = known_topic_id(self._consumer, self._tp.topic) or ZERO_UUID
            why = f"the topic was deleted and created again: its id is {_text(found)}, planned was"
            self._lose_rest(f"{why} {_text(self._topic_id)}", error)
        else:
            self._seek(self._position)

    def _lose_rest(self, why: str, cause: KafkaError | None = None) -> None:
        self._lose(Loss(self._tp, self._position, self._until, why), cause)
        self._position = self._until

    def _lose(self, loss: Loss, cause: KafkaError | None) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError([loss]) from cause
        log.warning("%s", describe_losses([loss]))

    def _seek(self, offset: int) -> None:
        self._consumer.seek(self._tp, offset)
        self._position = offset

    def _stuck(self) -> KafkaTimeoutError:
        seconds = self._options.poll_timeout_ms / 1000
        return KafkaTimeoutError(
            f"{self._tp.topic}-{self._tp.partition}: offset {self._position} of a range up to {self._until} was not "
            f"read within {seconds:g} s (kafkaConsumer.pollTimeoutMs): {self._consumer.health()}"
        )


def _text(topic_id: bytes) -> str:
    """Return a topic id as Kafka's tools show it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


#: The columns of the schema, in order; ``headers`` only with ``includeHeaders``.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

#: Estimated bytes of a row without key, value and headers.
ROW_BYTES = 60


def arrow_batches(
    columns: RecordColumns, until: int, names: tuple[str, ...], bytes_max: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records before offset ``until`` as Arrow batches of these columns, of about ``bytes_max`` bytes."""
    count = len(columns)
    if count and columns.offsets[-1] >= until:
        count = int(columns.offsets.searchsorted(until))
        columns = columns.slice(0, count)
    if count:
        batch = columns.to_arrow("headers" in names).select(list(names))
        begin = 0
        for end in _ends(columns, names, batch.nbytes, bytes_max):
            yield batch.slice(begin, end - begin)
            begin = end


def _ends(columns: RecordColumns, names: tuple[str, ...], size: int, bytes_max: int) -> list[int]:
    """Return the end (exclusive) of each part, if a batch of ``size`` bytes is cut to parts of about ``bytes_max``."""
    count = len(columns)
    if size < 2 * bytes_max:
        return [count]
    parts = min(count, -(-size // bytes_max))
    sizes = columns.offsets * 0 + ROW_BYTES
    if "key" in names:
        sizes += columns.key_lengths
    if "value" in names:
        sizes += columns.value_lengths
    places = columns.header_places if "headers" in names else None
    if places is not None:
        each = places.name_lengths + places.value_lengths
        headers = each.cumsum()
        some = places.first[:-1] < places.first[1:]
        first, last = places.first[:-1][some], places.first[1:][some] - 1
        sizes[some] += headers[last] - headers[first] + each[first]
    filled = sizes.cumsum()
    wanted = [int(filled[-1]) * part // parts for part in range(1, parts)]
    return sorted({*filled.searchsorted(wanted, "right").tolist(), count} - {0})
