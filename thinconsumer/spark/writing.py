"""A write task on the executor: writes Arrow batches with one producer, at least once.

All records of a batch are acknowledged before the task requests the next batch, which Spark may compute for hours:
records in flight would time out meanwhile. If a task fails, Spark repeats it and writes again the records that were
already written.

A worker process reuses its producer for the next task. Brokers store each producer id for a day; without reuse, a
stream with one micro-batch a second would use 86,400 of them.

Records are made of slices of a column's buffer, which is faster than creating Arrow scalars. Options and columns are
checked before the first row, as Spark's ``KafkaWriter`` and ``KafkaSourceProvider`` do. A schema is passed as pairs of
a name and Spark's name of the type, so that PySpark is not imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ..config import OPTIONS as CONSUMER_OPTIONS
from ..config import dotted
from ..config.kinds import did_you_mean
from ..errors import IllegalArgumentError, KafkaConfigurationError
from ..produce import BufferFullError, Producer, ProducerSettings, SendFuture
from ..records.headers import Header
from ..sockets.secured import open_driver
from .options import (
    KAFKA,
    NAMES,
    OBJECTS,
    SECURITY_NAMES,
    errors_name_host,
    join_problems,
    kafka_problems,
    split_options,
)
from .worker_process import ClientCache

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = "topic"
#: The types that each column may have; other columns of a DataFrame are ignored.
TYPES: dict[str, tuple[str, ...]] = {
    TOPIC: ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
#: The options of the writer, those of the source, and Spark's own, which it passes to a stream writer.
_KNOWN = frozenset({TOPIC, *NAMES, "checkpointlocation", "queryname"})

_CLASS = "Java classes cannot be loaded"
_BYTES = "columns are written as bytes: convert them with DataFrame operations"
REFUSED = {
    "transactional.id": "a Kafka transaction cannot be tied to Spark's commit, so records are written at least once",
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "interceptor.classes": _CLASS,
    "partitioner.class": f"{_CLASS}: set the column 'partition'",
    **OBJECTS,
}
#: Options that accept a single value: the spellings of that value, and the reason for refusing any other.
_FIXED = {
    "acks": (("all", "-1"), "every record is acknowledged by all replicas in sync"),
    "enable.idempotence": (("true",), "idempotence keeps repeated requests from writing records twice"),
}
#: Options without effect: batches are sent at once, and repeated until ``delivery.timeout.ms`` has passed.
_IGNORED = ("linger.ms", "retries")
#: Producer options that are refused, fixed or without effect, and not passed to the producer.
_NOT_PASSED_ON = frozenset({*REFUSED, *_FIXED, *_IGNORED})


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The settings of a write task."""

    #: The ``kafka.*`` options by name, without that prefix. ``repr`` does not show them, since some are secrets.
    kafka: dict[str, str] = field(repr=False)
    columns: dict[str, int]  #: The position of each column by name.
    topic: str | None = None  #: Topic of all records, overrides the column.

    def producer(self) -> ProducerSettings:
        return ProducerSettings.from_config(_producer_config(self.kafka))


def parse_write(options: Mapping[str, str], schema: Sequence[tuple[str, str]]) -> WriteSettings:
    """Return a write task's settings from options (names are not case-sensitive) and the schema's (name, type) pairs.

    Raises:
        KafkaConfigurationError: names all problems.
    """
    lower, kafka = split_options(options)
    topic = lower.get(TOPIC)
    problems = [_unknown(name) for name in lower if name not in _KNOWN]
    if topic is not None and not topic.strip():
        problems.append("topic: it is empty; write a name, or leave the option out to use the column 'topic'")
    for name, (values, why) in _FIXED.items():
        if name in kafka and kafka[name].strip().lower() not in values:
            problems.append(f"{KAFKA}{name}={str(kafka[name])!r} is refused: {why}; leave it out")
    problems += kafka_problems(kafka, REFUSED, lambda rest: ProducerSettings.from_config(_producer_config(rest)))
    columns, wrong = _columns(schema, needs_topic=topic is None)
    if problems or wrong:
        raise KafkaConfigurationError(join_problems([*problems, *wrong], "options or columns are wrong"))
    return WriteSettings(kafka, columns, topic.strip() if topic is not None else None)


def _columns(schema: Sequence[tuple[str, str]], *, needs_topic: bool) -> tuple[dict[str, int], list[str]]:
    places: dict[str, int] = {}
    for place, (name, _) in enumerate(schema):
        if name in TYPES and name not in places:
            places[name] = place
    problems = []
    if "value" not in places:
        problems.append(f"there is no column 'value'{_columns_are(schema, 'value')}")
    if not needs_topic:
        places.pop(TOPIC, None)  # the option 'topic' overrides the column, so the column's type does not matter
    elif TOPIC not in places:
        problems.append(f"there is neither a column nor an option 'topic'{_columns_are(schema, TOPIC)}")
    for name, place in places.items():
        kind = schema[place][1]
        if kind not in TYPES[name]:
            wanted = " or ".join(TYPES[name])
            problems.append(f"column {name!r} is of type {kind}, but must be {wanted}: cast it")
    return places, problems


def _columns_are(schema: Sequence[tuple[str, str]], wanted: str) -> str:
    near = [name for name, _ in schema if name.lower() == wanted]
    if near:
        return f": rename {near[0]!r}, names are case-sensitive"
    return f": the columns are {', '.join(repr(name) for name, _ in schema)}" if schema else ""


@cache
def exclusive_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of Kafka's options that only producers have, and of those that only consumers have."""
    consumers, producers = (frozenset(map(dotted, names)) for names in (CONSUMER_OPTIONS, ProducerSettings.options()))
    return (producers | _NOT_PASSED_ON) - consumers, consumers - producers


def _unknown(name: str) -> str:
    if name == "path":
        return "save() and start() take no path: set the option or the column 'topic'"
    if name.replace(".", "_") in ProducerSettings.options() or name in {*SECURITY_NAMES, *_NOT_PASSED_ON}:
        return f"unknown option {name!r}; did you mean {KAFKA + name!r}?"
    return f"unknown option {name!r}{did_you_mean(name, [TOPIC, KAFKA + 'bootstrap.servers'])}"


def _producer_config(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the producer's configuration, without consumers' options: jobs pass one set for reading and writing."""
    left_out = _NOT_PASSED_ON | exclusive_names()[1]
    config = {name: value for name, value in kafka.items() if name not in left_out}
    # As with Java's producer, a Metadata request for a missing topic asks for its creation, and the broker's option
    # auto.create.topics.enable decides whether it is created.
    return {"allow.auto.create.topics": "true", **config}


#: (topic, partition or None, key, value, headers)
Row = tuple[str, int | None, bytes | None, bytes | None, tuple[Header, ...]]
#: Approximate bytes of a batch to convert to records at a time. Spark limits the rows of a batch but not its bytes, so
#: that a whole batch could take too much memory.
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
    """Return the bytes of each row of a string or binary column; None for null."""
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
    for row in _null_rows(column):
        found[row] = None
    return found


def _null_rows(column: pa.Array) -> list[int]:
    return [row for row, null in enumerate(column.is_null().to_pylist()) if null] if column.null_count else []


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
    for row in _null_rows(column):
        found[row] = ()
    return found


Connect = Callable[[ProducerSettings], Producer]


class Written(NamedTuple):
    """How much a task has written."""

    records: int = 0
    bytes: int = 0  #: Of keys and values.


def connect(settings: ProducerSettings) -> Producer:
    return Producer(settings, driver=open_driver(settings))


#: The producers that tasks of this process use one after another; see :data:`thinconsumer.spark.reading.CONSUMERS`.
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

    ``attempt`` is the number of earlier attempts at the task: if it is above 0, a new producer replaces a cached one.

    Raises:
        KafkaError: a record could not be written. Records before and after it may have been written.
    """

    def new_producer() -> Producer:
        with errors_name_host(settings.kafka):
            return connect(settings.producer())

    cache = PRODUCERS if cache is None else cache
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Written()
    sending = _Sending()
    with cache.borrow(settings.kafka, new_producer, fresh=attempt > 0) as producer:
        for batch in chain([first], filled):
            for part in parts(batch):
                sending.send(producer, rows(part, settings.columns, settings.topic))
                producer.poll(0)
                sending.check()
            producer.flush()
            sending.check()
    return sending.count


class _Sending:
    """The records of one task whose results are still to be checked, and how much was sent."""

    def __init__(self) -> None:
        self._unsettled: deque[SendFuture] = deque()
        self.count = Written()

    def send(self, producer: Producer, found: Iterable[Row]) -> None:
        """Send records. The error for a malformed record tells which row it is."""
        send, keep = producer.send, self._unsettled.append
        count, size = self.count
        for topic, partition, key, value, headers in found:
            try:
                keep(send(topic, value, key=key, partition=partition, headers=headers))
            except IllegalArgumentError as error:
                where = topic if partition is None else f"{topic}-{partition}"
                raise IllegalArgumentError(f"row {count} of this task, for {where}: {error}") from None
            except BufferFullError:
                # The buffer is full of earlier records: an error of flush() or check() says more about them.
                producer.flush()
                self.check()
                raise
            count += 1
            size += len(key or b"") + len(value or b"")
        self.count = Written(count, size)

    def check(self) -> None:
        """Remove acknowledged records; raise the error of the first that failed."""
        unsettled = self._unsettled
        while unsettled and unsettled[0].done:
            error = unsettled.popleft().error
            if error is not None:
                raise error
