"""On the executor: writes the Arrow batches of one task with one producer, and knows that they are written.

Owns when Kafka has to have acknowledged what was handed in: all of a batch before Spark is asked for the next one,
which may take it any time, and everything before the task is done. So memory is bounded by one of Spark's batches and
the producer's buffer, and nothing runs out of time while nobody looks. A task that fails has written some of its
records; Spark repeats it, and writes them again: at least once.

Owns the producers of a worker process, too. One is kept for the next task: a micro-batch a second would be as many
producer ids otherwise, each of which brokers remember for a day. A task that fails leaves none behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from ..errors import IllegalArgumentError
from ..net import SelectorDriver
from ..produce import BufferFullError, Producer, ProducerSettings, Receipt
from .client_cache import ClientCache
from .rows import Row, parts, rows
from .write_options import WriteSettings

if TYPE_CHECKING:
    import pyarrow as pa

Connect = Callable[[ProducerSettings], Producer]


class Written(NamedTuple):
    """What a task has written, all of it acknowledged."""

    records: int = 0
    bytes: int = 0  #: Of keys and values.


def connect(settings: ProducerSettings) -> Producer:
    """Return a producer on real sockets."""
    return Producer(settings, driver=SelectorDriver())


#: One for the process, in a module that can be imported: what is pickled with a task is new for every task.
PRODUCERS: ClientCache[Producer] = ClientCache(lambda producer: producer.close(0))


def write(
    batches: Iterable[pa.RecordBatch],
    how: WriteSettings,
    *,
    attempt: int = 0,
    cache: ClientCache[Producer] | None = None,
    connect: Connect = connect,
) -> Written:
    """Write a task's batches; return when every record is acknowledged. A repeated ``attempt`` connects anew.

    Raises:
        KafkaError: a record could not be written: which topic and partition, which broker, and why. Others, before and
            after it, may have been.
    """
    cache = PRODUCERS if cache is None else cache
    # One that a task leaves early may have records under way, which must not be sent when the next task begins.
    lent = cache.borrow(how.kafka, lambda: connect(how.producer()), fresh=attempt > 0)
    with ExitStack() as stack:
        task = _Writing(how, lambda: stack.enter_context(lent))
        for batch in batches:
            task.add(batch)
    return task.written


class _Writing:
    """One task."""

    def __init__(self, how: WriteSettings, connect: Callable[[], Producer]) -> None:
        self._how = how
        self._connect = connect
        self._producer: Producer | None = None  #: None until there is something to write.
        self._unsettled: deque[Receipt] = deque()
        self.written = Written()

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        if not batch.num_rows:
            return
        if self._producer is None:
            self._producer = self._connect()
        for part in parts(batch):
            self._send(self._producer, rows(part, self._how.columns, self._how.topic))
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
                # It says for how long, and not what is in the way: that is known when those before are given up.
                producer.flush()
                self._check()
                raise
            count += 1
            size += len(key or b"") + len(value or b"")
        self.written = Written(count, size)

    def _check(self) -> None:
        """Raise if something could not be written; forget what is."""
        unsettled = self._unsettled
        while unsettled and unsettled[0].done:
            error = unsettled.popleft().error
            if error is not None:
                raise error
