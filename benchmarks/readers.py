"""One reader, in a process of its own: ``python readers.py READER BOOTSTRAP TOPIC PARTITIONS RECORDS`` prints JSON.

Every reader reads the whole topic by assignment, up to 5,000 records at a time. A reader with ``every-field`` in its
name reads key, value, headers, offset and timestamp of each record, and adds up the lengths of keys, values and header
values; the one without reads the values alone. The loops over records are written out for each kind of record, so that
no reader pays for an abstraction over all of them: a call for each poll, and two for each list of records, are all that
is shared.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

MAX_RECORDS = 5000
Result = dict[str, float]
#: Reads the records that one poll has returned, and returns how many bytes it has read.
Touch = Callable[[Any], int]
#: Topics and numbers of partitions.
Places = Iterable[tuple[str, int]]
#: The authority of the broker's certificate; without it, clients connect in plaintext.
CAFILE = os.environ.get("BENCHMARK_CAFILE", "")
#: Queues that do not stall confluent-kafka.
TUNED: dict[str, Any] = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
    "fetch.queue.backoff.ms": 1,
    "check.crcs": True,  # the others check
}


class Meter:
    """Times and CPU from building the client on; imports are not counted."""

    def __init__(self) -> None:
        self.cpu = -sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        self.started = time.perf_counter()
        self.first_at = 0.0
        self.first_records = 0

    def first(self, records: int) -> None:
        """Say that the first records are there; only the first call counts."""
        if not self.first_at:
            self.first_at = time.perf_counter()
            self.first_records = records

    def result(self, records: int, size: int) -> Result:
        """Return what was measured."""
        ended = time.perf_counter()
        cpu = self.cpu + sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        whole = records / (ended - self.started)
        later = records - self.first_records
        return {
            "records": records,
            "bytes": size,
            "per_second": later / max(ended - self.first_at, 1e-9) if later else whole,
            "per_second_whole": whole,
            "cpu_per_million": cpu / records * 1e6,
            "peak_mb": peak_mb(),
        }


def peak_mb() -> float:
    """Return this process's peak memory; ru_maxrss would be the parent's where that is larger."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


# -- what is read of each record


def values(records: Sequence[Any]) -> int:
    """Read the values of records with attributes; return the sum of their lengths."""
    size = 0
    for record in records:
        value = record.value
        if value is not None:
            size += len(value)
    return size


def every_field(records: Sequence[Any]) -> int:
    """Read all fields of records with attributes; return the sum of the lengths of keys, values and header values."""
    size = 0
    for record in records:
        key, value, headers = record.key, record.value, record.headers
        record.offset  # noqa: B018
        record.timestamp  # noqa: B018
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        if headers:
            for _name, content in headers:
                size += len(content)
    return size


def confluent_values(messages: Sequence[Any]) -> int:
    """Read the values of confluent-kafka's messages."""
    size = 0
    for message in messages:
        value = message.value()
        if value is not None:
            size += len(value)
    return size


def confluent_every_field(messages: Sequence[Any]) -> int:
    """Read all fields of confluent-kafka's messages; without headers, ``headers()`` is None."""
    size = 0
    for message in messages:
        key, value, headers = message.key(), message.value(), message.headers()
        message.offset()
        message.timestamp()
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        if headers:
            for _name, content in headers:
                size += len(content)
    return size


def column_values(columns: Any) -> int:
    """Add up the lengths of all values as one array; no value is copied."""
    return int(columns.value_lengths.clip(0).sum())


def every_column(columns: Any) -> int:
    """Convert to an Arrow batch, headers included, which copies every key, value and header."""
    import pyarrow.compute as pc

    batch = columns.to_arrow(include_headers=True)
    parts = (batch.column("key"), batch.column("value"), batch.column("headers").flatten().field("value"))
    return sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in parts)


# -- the readers


def open_thinconsumer(bootstrap: str, places: Places) -> Any:
    """Return a consumer of this library with default settings, assigned to these partitions."""
    from thinconsumer import Consumer, TopicPartition

    tls: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": CAFILE} if CAFILE else {}
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **tls)
    consumer.assign([TopicPartition(*place) for place in places])
    return consumer


def open_kafka_python(bootstrap: str, places: Places) -> Any:
    """Return a consumer of kafka-python with default settings."""
    from kafka import KafkaConsumer, TopicPartition

    tls = {"security_protocol": "SSL", "ssl_cafile": CAFILE} if CAFILE else {}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, **tls)
    consumer.assign([TopicPartition(*place) for place in places])
    return consumer


def open_confluent(bootstrap: str, places: Places, **more: object) -> Any:
    """Return a consumer of confluent-kafka with default settings, and some others."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False, **more}
    if CAFILE:
        settings |= {"security.protocol": "SSL", "ssl.ca.location": CAFILE}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
    return consumer


def of_topic(topic: str, partitions: int) -> Places:
    """Return all partitions of a topic."""
    return [(topic, partition) for partition in range(partitions)]


def read_all(
    meter: Meter, count: int, poll: Callable[[], Iterable[Any]], touch: Touch, inside: Callable[[Any], int] = len
) -> Result:
    """Poll until ``count`` records are read; ``inside`` returns the number of records of each object of a poll."""
    records = size = 0
    while records < count:
        for polled in poll():
            more = inside(polled)
            meter.first(more)
            records += more
            size += touch(polled)
    return meter.result(records, size)


def thinconsumer(bootstrap: str, topic: str, partitions: int, count: int, touch: Touch = values) -> Result:
    """Read with this library, default settings."""
    from thinconsumer import Consumer  # noqa: F401  # imports are not counted

    meter = Meter()
    with open_thinconsumer(bootstrap, of_topic(topic, partitions)) as consumer:
        return read_all(meter, count, lambda: consumer.poll(timeout_ms=1000, max_records=MAX_RECORDS).values(), touch)


def thinconsumer_columns(
    bootstrap: str, topic: str, partitions: int, count: int, touch: Touch = column_values
) -> Result:
    """Read with this library as columns, default settings."""
    from thinconsumer import Consumer  # noqa: F401  # imports are not counted

    if touch is every_column:
        import pyarrow.compute  # noqa: F401

        from thinconsumer.records.columnar import arrow  # noqa: F401

    meter = Meter()
    with open_thinconsumer(bootstrap, of_topic(topic, partitions)) as consumer:
        return read_all(meter, count, lambda: consumer.poll_batches(timeout_ms=1000).values(), touch)


def thinconsumer_raw(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read whole batches with this library, default settings: neither decompressed nor decoded, as copies need them."""
    from thinconsumer import Consumer  # noqa: F401  # imports are not counted

    meter = Meter()
    with open_thinconsumer(bootstrap, of_topic(topic, partitions)) as consumer:
        return read_all(
            meter,
            count,
            lambda: consumer.poll_raw(timeout_ms=1000).values(),
            lambda batches: sum(batch.size for batch in batches),
            lambda batches: sum(batch.count for batch in batches),
        )


def kafka_python(bootstrap: str, topic: str, partitions: int, count: int, touch: Touch = values) -> Result:
    """Read with kafka-python, default settings."""
    import kafka  # noqa: F401  # imports are not counted

    meter = Meter()
    consumer = open_kafka_python(bootstrap, of_topic(topic, partitions))
    poll = partial(consumer.poll, timeout_ms=1000, max_records=MAX_RECORDS)
    result = read_all(meter, count, lambda: poll().values(), touch)
    consumer.close()
    return result


def aiokafka(bootstrap: str, topic: str, partitions: int, count: int, touch: Touch = values) -> Result:
    """Read with aiokafka, default settings, by ``getmany``."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> Result:
        meter = Meter()
        records = size = 0
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        while records < count:
            for polled in (await consumer.getmany(timeout_ms=1000, max_records=MAX_RECORDS)).values():
                meter.first(len(polled))
                records += len(polled)
                size += touch(polled)
        result = meter.result(records, size)
        await consumer.stop()
        return result

    return asyncio.run(read())


def confluent(
    bootstrap: str, topic: str, partitions: int, count: int, touch: Touch = confluent_values, **more: object
) -> Result:
    """Read with confluent-kafka, default settings and some others, by ``consume``."""
    import confluent_kafka  # noqa: F401  # imports are not counted

    meter = Meter()
    consumer = open_confluent(bootstrap, of_topic(topic, partitions), **more)

    def poll() -> Iterable[Any]:
        polled = consumer.consume(MAX_RECORDS, 1.0)
        return (polled,) if polled else ()

    result = read_all(meter, count, poll, touch)
    consumer.close()
    return result


def floor(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Receive, check and decompress; decode nothing."""
    from floor import Floor, unpack

    meter = Meter()
    records = size = 0
    reader = Floor(bootstrap, topic, partitions)
    reader.send()
    while records < count:
        batches = list(reader.batches(reader.receive()))
        reader.send()
        for batch in batches:
            inside, length = unpack(batch)
            meter.first(inside)
            records += inside
            size += length
    result = meter.result(records, size)
    reader.close()
    return result


#: Ends the names of readers that read every field of each record.
EVERY_FIELD = " every-field"
READERS: dict[str, Callable[[str, str, int, int], Result]] = {
    "thinconsumer": thinconsumer,
    f"thinconsumer{EVERY_FIELD}": partial(thinconsumer, touch=every_field),
    "thinconsumer columns": thinconsumer_columns,
    f"thinconsumer columns{EVERY_FIELD}": partial(thinconsumer_columns, touch=every_column),
    "thinconsumer raw": thinconsumer_raw,
    "kafka-python": kafka_python,
    f"kafka-python{EVERY_FIELD}": partial(kafka_python, touch=every_field),
    "aiokafka": aiokafka,
    f"aiokafka{EVERY_FIELD}": partial(aiokafka, touch=every_field),
    "confluent-kafka": confluent,
    "confluent-kafka tuned": partial(confluent, **TUNED),
    f"confluent-kafka tuned{EVERY_FIELD}": partial(confluent, touch=confluent_every_field, **TUNED),
    "floor": floor,
}


def main() -> None:
    """Run one reader and print what it measured."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    name, bootstrap, topic, partitions, count = sys.argv[1:]
    print(json.dumps(READERS[name](bootstrap, topic, int(partitions), int(count))))


if __name__ == "__main__":
    main()
