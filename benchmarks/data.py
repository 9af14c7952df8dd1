"""Kafka topics as Arrow data: this library beside kafkarrow, daft and confluent-kafka: ``python benchmarks/data.py``.

Needs ``pip install 'thinconsumer[polars]' kafkarrow==0.1.1 daft`` beside the dependency group ``real``; what is not
installed is left out. Takes at most six minutes: the rounds end when the time is over (``--seconds``).

Each reader reads a whole topic in a fresh process to Arrow batches (or a Polars frame) with key, value, topic,
partition, offset and timestamp, without headers, which kafkarrow and daft do not read. The rates count from building
the client on, without imports. A last table has the time of the conversion alone: ``to_arrow()`` beside
``to_arrow(views=True)``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from clusters import broker, child, rotated, say, unique
from readers import TUNED, Meter, Result, of_topic, open_confluent, open_thinconsumer
from topics import TOPICS, Topic, write

TOPICS_READ = ("documents", "documents-lz4", "documents-zstd", "plain", "six")
ARROW, VIEWS, CONVERSION = "to_arrow", "to_arrow views", "conversion"
NAMES = ("key", "value", "topic", "partition", "offset", "timestamp")


def ours(bootstrap: str, topic: str, partitions: int, count: int, views: bool) -> Result:
    """Read by ``poll_batches`` and ``to_arrow``."""
    from thinconsumer.records.columnar import arrow, decode  # noqa: F401  # imports are not counted

    meter, batches, rows = Meter(), [], 0
    with open_thinconsumer(bootstrap, of_topic(topic, partitions)) as consumer:
        while rows < count:
            for columns in consumer.poll_batches(timeout_ms=1000).values():
                batches.append(columns.to_arrow(views=views))
                rows += len(columns)
                meter.first(len(columns))
            del batches[:-8]
    return meter.result(rows, 0)


def polars_scan(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read into one Polars frame by ``scan_kafka``."""
    from thinconsumer.polars import scan_kafka

    meter = Meter()
    frame = scan_kafka(topic, bootstrap_servers=bootstrap).select(NAMES).collect()
    return meter.result(frame.height, 0)


def kafkarrow(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read by kafkarrow (librdkafka and arrow-rs), with queues that do not stall it."""
    from kafkarrow import ConsumerManager, SourceTopic

    config = {"bootstrap.servers": bootstrap, **{name: _text(value) for name, value in TUNED.items()}}
    meter, rows = Meter(), 0
    manager = ConsumerManager(config=config, topics=[SourceTopic.from_earliest(topic)], batch_size=100_000)
    while rows < count:
        rows += (more := manager.poll(timeout_ms=1000).num_rows)
        if more:
            meter.first(more)
    return meter.result(rows, 0)


def daft(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read by ``daft.read_kafka`` (confluent-kafka, row by row)."""
    import daft

    meter = Meter()
    config = {**TUNED, "enable.partition.eof": True}
    frame = daft.read_kafka(bootstrap, topic, chunk_size=65536, timeout_ms=5000, kafka_client_config=config)
    return meter.result(frame.to_arrow().num_rows, 0)


def confluent(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read by confluent-kafka's ``consume``, and make arrays of the messages."""
    import confluent_kafka  # noqa: F401  # imports are not counted
    import pyarrow as pa

    meter, rows = Meter(), 0
    consumer = open_confluent(bootstrap, of_topic(topic, partitions), **TUNED)
    while rows < count:
        messages = consumer.consume(10_000, 1.0)
        pa.record_batch(
            [
                pa.array([message.key() for message in messages], pa.binary()),
                pa.array([message.value() for message in messages], pa.binary()),
                pa.array([message.topic() for message in messages], pa.string()),
                pa.array([message.partition() for message in messages], pa.int32()),
                pa.array([message.offset() for message in messages], pa.int64()),
                pa.array([message.timestamp()[1] for message in messages], pa.timestamp("ms", tz="UTC")),
            ],
            names=NAMES,
        )
        rows += len(messages)
        if messages:
            meter.first(len(messages))
    result = meter.result(rows, 0)
    consumer.close()
    return result


def conversion(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Return CPU seconds per million records of both conversions of the same columns, in turns."""
    from thinconsumer.records.columnar import arrow, decode  # noqa: F401  # imports are not counted

    spent, rows, order = {False: 0.0, True: 0.0}, 0, [False, True]
    with open_thinconsumer(bootstrap, of_topic(topic, partitions)) as consumer:
        while rows < count:
            for columns in consumer.poll_batches(timeout_ms=1000).values():
                order.reverse()
                for views in order:
                    before = time.process_time()
                    columns.to_arrow(views=views)
                    spent[views] += time.process_time() - before
                rows += len(columns)
    return {ARROW: spent[False] / rows * 1e6, VIEWS: spent[True] / rows * 1e6}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


READERS: dict[str, Callable[[str, str, int, int], Result]] = {
    ARROW: partial(ours, views=False),
    VIEWS: partial(ours, views=True),
    "scan_kafka": polars_scan,
    "kafkarrow": kafkarrow,
    "daft": daft,
    "confluent-kafka": confluent,
}
#: Beside which module a reader can run.
NEEDS = {"scan_kafka": "polars", "kafkarrow": "kafkarrow", "daft": "daft", "confluent-kafka": "confluent_kafka"}


def main() -> None:
    """Write the topics, read them in rounds until the time is over, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster of one broker; without it one is started")
    parser.add_argument("--records", type=int, default=300_000, help="per topic")
    parser.add_argument("--seconds", type=float, default=330, help="no round begins that would end later")
    parser.add_argument("--topics", type=lambda text: text.split(","), default=TOPICS_READ)
    arguments = parser.parse_args()
    began = time.monotonic()
    readers = [name for name in READERS if importlib.util.find_spec(NEEDS.get(name, "pyarrow"))]
    say(f"load {os.getloadavg()[0]:.2f}; not installed: {', '.join(READERS.keys() - set(readers)) or 'nothing'}")
    topics = [topic for topic in TOPICS if topic.name in arguments.topics]
    rates: dict[tuple[str, str], list[Result]] = {}
    converted: dict[str, list[Result]] = {}
    with broker(arguments.bootstrap) as cluster:
        names = {topic.name: unique(topic.name) for topic in topics}
        for topic in topics:
            cluster.create_topic(names[topic.name], topic.partitions, 1, {"compression.type": "producer"})
            write(cluster.bootstrap, topic, names[topic.name], arguments.records)
        turn, longest = 0, 0.0
        while not turn or time.monotonic() - began + longest < arguments.seconds:
            started = time.monotonic()
            for topic in topics:
                about = (cluster.bootstrap, names[topic.name], topic.partitions, arguments.records)
                for reader in rotated(readers, turn):
                    if turn and (topic.name, reader) not in rates:
                        continue
                    try:
                        result = child("data.py", "--read", reader, *about)
                    except RuntimeError as error:  # kafkarrow's wheel has no zstd
                        say(f"{reader} cannot read {topic.name}: {str(error).strip().splitlines()[-1]}")
                        continue
                    rates.setdefault((topic.name, reader), []).append(result)
                    if result["records"] != arguments.records:
                        say(f"{reader} read {result['records']:.0f} of {arguments.records} records of {topic.name}")
                converted.setdefault(topic.name, []).append(child("data.py", "--read", CONVERSION, *about))
            turn, longest = turn + 1, max(longest, time.monotonic() - started)
            say(f"round {turn}: {time.monotonic() - started:.0f} s")
        for name in names.values():
            cluster.delete_topic(name)
    print(f"{arguments.records:,} records, {turn} rounds; thousand records per second, medians; CPU s per million\n")
    print(table(topics, readers, rates))
    print("\nThe conversion alone, CPU seconds per million records\n")
    print(conversions(topics, converted))


def table(topics: list[Topic], readers: list[str], rates: dict[tuple[str, str], list[Result]]) -> str:
    """Return rate and CPU time of each reader, and how many times as fast ``to_arrow`` is."""
    lines = [f"| | {' | '.join(readers)} |", f"|---{'|---' * len(readers)}|"]
    for topic in topics:
        read = [r for r in readers if (topic.name, r) in rates]
        rate = {r: median(one["per_second_whole"] for one in rates[topic.name, r]) for r in read}
        cpu = {r: median(one["cpu_per_million"] for one in rates[topic.name, r]) for r in read}
        cells = [
            f"{rate[r] / 1e3:,.0f} [{cpu[r]:.2f}] ({rate[ARROW] / rate[r]:.2f}x)" if r in rate else "-" for r in readers
        ]
        lines.append(f"| {topic.what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def conversions(topics: list[Topic], converted: dict[str, list[Result]]) -> str:
    """Return the time of both conversions, and how many times as fast views are."""
    lines = [f"| | {ARROW} | {VIEWS} | ratio |", "|---|---|---|---|"]
    for topic in topics:
        copied, views = (median(one[name] for one in converted[topic.name]) for name in (ARROW, VIEWS))
        lines.append(f"| {topic.what} | {copied:.3f} | {views:.3f} | {copied / views:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        name, bootstrap, topic_name, *numbers = sys.argv[2:]
        read: Any = {**READERS, CONVERSION: conversion}[name]
        print(json.dumps(read(bootstrap, topic_name, *map(int, numbers))))
    else:
        main()
