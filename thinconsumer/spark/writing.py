"""A write task on the executor: writes Arrow batches with one producer, at least once.

All records of a batch are acknowledged before the task requests the next batch, which Spark may compute for hours:
records in flight would time out meanwhile. If a task fails, Spark repeats it and writes again the records that were
already written.

A worker process reuses its producer for the next task. Brokers store each producer id for a day; without reuse, a
stream with one micro-batch a second would use 86,400 of them.

Records are made of slices of a column's buffer, which is faster than creating Arrow scalars. ``write_options`` has
checked the columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import IllegalArgumentError
from ..produce import BufferFullError, Producer, ProducerSettings, SendFuture
from ..records.columns import Header
from ..sockets.secured import open_driver
from .options import errors_name_host
from .worker_process import ClientCache
from .write_options import WriteSettings

if TYPE_CHECKING:
    import pyarrow as pa

#: (topic, partition or None, key, value, headers)
Row = tuple[str, int | None, bytes | None, bytes | None, tuple[Header, ...]]
#: Approximate bytes of a batch that are converted to records at a time. Spark limits a batch to 10,000 rows by default,
#: but not its bytes, so that converting a whole batch could take too much memory.
PART_BYTES = 4 * 1024 * 1024


def parts(batch: pa.RecordBatch, part_bytes: int = PART_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about ``part_bytes`` bytes, without copying."""
    rows: int = batch.num_rows
    count = max(1, min(rows, -(-batch.nbytes // part_bytes)))
    for part in range(count):
        first, last = rows * part // count, rows * (part + 1) // count
        yield batch.slice(first, last - first)


def rows(batch: pa.RecordBatch, columns: Mapping[str, int], topic: str | None = None) -> Iterator[Row]:
    """Return the records of a batch, in order; ``columns`` are positions by name, ``topic`` overrides the column.

    Raises:
        IllegalArgumentError: a row has no topic, or a header has no key.
    """

    def column(name: str) -> pa.Array | None:
        return batch.column(columns[name]) if name in columns else None

    names: Iterable[str] = repeat(topic) if topic is not None else _topics(column("topic"))
    partition, headers = column("partition"), column("headers")
    return zip(
        names,
        repeat(None) if partition is None else partition.to_pylist(),
        _byte_strings(column("key")),
        byte_strings(column("value")),
        repeat(()) if headers is None or headers.null_count == len(headers) else _headers(headers),
    )


def byte_strings(column: pa.Array) -> list[bytes | None]:
    """Return the bytes of a string or binary column; text is not decoded."""
    wide = str(column.type) in ("large_string", "large_binary")
    if not wide and str(column.type) not in ("string", "binary"):
        return [None if one is None else _encoded(one) for one in column.to_pylist()]
    if not len(column):
        return []
    _, places, data = column.buffers()
    width, first = (8 if wide else 4), column.offset
    ends = memoryview(places)[first * width : (first + len(column) + 1) * width].cast("q" if wide else "i").tolist()
    start = ends[0]
    text = b"" if data is None else bytes(memoryview(data)[start : ends[-1]])
    if start:
        ends = [end - start for end in ends]
    found: list[bytes | None] = [text[begin:end] for begin, end in pairwise(ends)]
    if column.null_count:
        for row, valid in enumerate(column.is_valid().to_pylist()):
            if not valid:
                found[row] = None
    return found


def _byte_strings(column: pa.Array | None) -> Iterable[bytes | None]:
    return repeat(None) if column is None or column.null_count == len(column) else byte_strings(column)


def _encoded(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _topics(column: pa.Array) -> list[str]:
    """Return the topic of each row; equal names share one string."""
    if column.null_count:
        raise IllegalArgumentError(
            "a row has no topic: fill the column 'topic', or set the option 'topic' for all rows"
        )
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    return [names[place] for place in encoded.indices.to_pylist()]


def _headers(column: pa.Array) -> list[tuple[Header, ...]]:
    ends = column.offsets.to_pylist()
    first = ends[0]
    inside = column.values.slice(first, ends[-1] - first)
    keys, values = inside.flatten()
    if keys.null_count:
        raise IllegalArgumentError("a row has a header without a key, which Kafka does not allow: drop it or name it")
    all_of_them = list(zip(keys.to_pylist(), byte_strings(values)))
    found: list[tuple[Header, ...]] = [tuple(all_of_them[begin - first : end - first]) for begin, end in pairwise(ends)]
    if column.null_count:
        for row, valid in enumerate(column.is_valid().to_pylist()):
            if not valid:
                found[row] = ()
    return found


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
