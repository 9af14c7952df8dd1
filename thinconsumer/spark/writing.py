"""A write task on the executor: writes Arrow batches with one producer, at least once.

All records of a batch are acknowledged before the task requests the next batch, which Spark may compute for hours:
records in flight would time out meanwhile. If a task fails, Spark repeats it and writes again the records that were
already written.

A worker process reuses its producer for the next task. Brokers store each producer id for a day; without reuse, a
stream with one micro-batch a second would use 86,400 of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from ..errors import IllegalArgumentError
from ..net.secured import open_driver
from ..produce import BufferFullError, Producer, ProducerSettings, SendFuture
from .kafka_options import errors_name_host
from .rows import Row, parts, rows
from .worker_process import ClientCache
from .write_options import WriteSettings

if TYPE_CHECKING:
    import pyarrow as pa

Connect = Callable[[ProducerSettings], Producer]


class Written(NamedTuple):
    """How many records and bytes of a task are acknowledged."""

    records: int = 0
    bytes: int = 0  #: Bytes of keys and values.


def connect(settings: ProducerSettings) -> Producer:
    """Return a producer with real sockets."""
    return Producer(settings, driver=open_driver(settings))


#: The producers that tasks of this process use one after another. A global of an importable module keeps its value
#: between tasks; everything else is unpickled anew for each task.
PRODUCERS: ClientCache[Producer] = ClientCache(lambda producer: producer.close(0))


def write(
    batches: Iterable[pa.RecordBatch],
    settings: WriteSettings,
    *,
    attempt: int = 0,
    cache: ClientCache[Producer] | None = None,
    connect: Connect = connect,
) -> Written:
    """Write a task's batches; return when every record is acknowledged.

    If ``attempt`` is above 0, since Spark repeats the task, it makes a new producer instead of using a cached one.

    Raises:
        KafkaError: a record could not be written. Records before and after it may have been written.
    """

    def new_producer() -> Producer:
        with errors_name_host(settings.kafka):
            return connect(settings.producer())

    cache = PRODUCERS if cache is None else cache
    producer = cache.borrow(settings.kafka, new_producer, fresh=attempt > 0)
    with ExitStack() as stack:
        task = _BatchWriter(settings, lambda: stack.enter_context(producer))
        for batch in batches:
            task.add(batch)
    return task.written


class _BatchWriter:
    """Writes the batches of one task."""

    def __init__(self, settings: WriteSettings, connect: Callable[[], Producer]) -> None:
        self._settings = settings
        self._connect = connect
        self._producer: Producer | None = None  #: Created for the first batch that has rows; None before it.
        self._unsettled: deque[SendFuture] = deque()
        self.written = Written()

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch; return when it is acknowledged."""
        if not batch.num_rows:
            return
        if self._producer is None:
            self._producer = self._connect()
        for part in parts(batch):
            self._send(self._producer, rows(part, self._settings.columns, self._settings.topic))
            self._producer.poll(0)
            self._check()
        self._producer.flush()
        self._check()

    def _send(self, producer: Producer, found: Iterable[Row]) -> None:
        send, keep = producer.send, self._unsettled.append
        count, size = self.written
        for topic, partition, key, value, headers in found:
            try:
                keep(send(topic, value, key=key, partition=partition, headers=headers))
            except IllegalArgumentError as error:
                where = topic if partition is None else f"{topic}-{partition}"
                raise IllegalArgumentError(f"row {count} of this task, for {where}: {error}") from None
            except BufferFullError:
                # The buffer stayed full for ``max_block_ms``, since earlier records cannot be sent. The error of these
                # records is more helpful than this one: flush() and _check() raise it if there is one.
                producer.flush()
                self._check()
                raise
            count += 1
            size += len(key or b"") + len(value or b"")
        self.written = Written(count, size)

    def _check(self) -> None:
        """Remove acknowledged records; raise the error of the first that failed."""
        unsettled = self._unsettled
        while unsettled and unsettled[0].done:
            error = unsettled.popleft().error
            if error is not None:
                raise error
