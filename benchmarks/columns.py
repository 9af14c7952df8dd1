"""Columns beside rows, the floor and confluent-kafka, on the same topics: ``python benchmarks/columns.py``.

Needs numpy and pyarrow on top of what ``compare.py`` needs. Sizes are random: equal ones are kind to the row decoder.
Readers run in turns, each in a fresh process, several times over; ratios are of medians. ``batches`` is
``poll_batches().to_arrow()``, with which the length of all values is added up, as for the others; ``columns`` is the
same without Arrow, and ``raw`` is ``poll_raw()``, which adds up the bytes of the batches as they are stored.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from clusters import broker, environment, rotated, unique
from floor import batch_sizes
from readers import Meter, confluent_tuned, floor, thinconsumer

Result = dict[str, float]


@dataclass(frozen=True)
class Data:
    """One topic to read; ``records`` of these many times the smallest number of records."""

    name: str
    smallest: int
    largest: int
    partitions: int
    codec: str
    batch_bytes: int
    headers: bool = False
    share: float = 1.0


TOPICS = (
    Data("plain", 50, 150, 1, "none", 16384),
    Data("lz4", 50, 150, 6, "lz4", 16384),
    Data("lz4-64k", 50, 150, 6, "lz4", 65536),
    Data("zstd", 50, 150, 6, "zstd", 16384),
    Data("1k-zstd", 1000, 1000, 6, "zstd", 65536, share=0.3),
    Data("1k", 1000, 1000, 1, "none", 16384, share=0.3),
    Data("1k-lz4", 1000, 1000, 6, "lz4", 16384, share=0.3),
    Data("large-batches", 50, 150, 1, "none", 1_000_000),
    Data("single", 50, 150, 1, "none", 1, share=0.2),
    Data("10-a-batch", 50, 150, 1, "none", 1200, share=0.5),
    Data("headers", 50, 150, 1, "none", 16384, headers=True),
    Data("20k", 20_000, 20_000, 1, "none", 65536, share=0.02),
    Data("100k", 100_000, 100_000, 1, "none", 65536, share=0.004),
)


def batches(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read with this library as Arrow batches, default settings."""
    import pyarrow.compute  # noqa: F401

    from thinconsumer import Consumer, TopicPartition
    from thinconsumer.records.columnar import arrow  # noqa: F401
    from thinconsumer.records.columnar.decode import Decoder  # noqa: F401

    meter = Meter()
    records = size = 0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        while records < count:
            for columns in consumer.poll_batches(1000).values():
                batch = columns.to_arrow(include_headers="headers" in topic)
                meter.first(batch.num_rows)
                records += batch.num_rows
                size += int(columns.value_lengths.sum())
        return meter.result(records, size)


def columns(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read with this library as numpy arrays."""
    from thinconsumer.records.columnar.decode import Decoder  # noqa: F401

    return _read(
        bootstrap, topic, partitions, count, "poll_batches", lambda found: (len(found), found.value_lengths.sum())
    )


def raw(bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Read with this library as whole batches, neither decompressed nor decoded."""
    from thinconsumer import RawBatch

    def figures(batches: list[RawBatch]) -> tuple[int, int]:
        return sum(batch.count for batch in batches), sum(batch.size for batch in batches)

    return _read(bootstrap, topic, partitions, count, "poll_raw", figures)


def _read(
    bootstrap: str, topic: str, partitions: int, count: int, call: str, figures: Callable[[Any], tuple[int, int]]
) -> Result:
    from thinconsumer import Consumer, TopicPartition

    meter = Meter()
    records = size = 0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        poll = getattr(consumer, call)
        while records < count:
            for found in poll(1000).values():
                more, length = figures(found)
                meter.first(more)
                records += more
                size += int(length)
        return meter.result(records, size)


READERS: dict[str, Callable[[str, str, int, int], Result]] = {
    "batches": batches,
    "columns": columns,
    "raw": raw,
    "rows": thinconsumer,
    "confluent-kafka tuned": confluent_tuned,
    "floor": floor,
}


def values(topic: Data, count: int) -> Iterator[bytes]:
    """Yield values as services write them: text that compresses to a third or so, of random length."""
    chance = random.Random(1)
    words = [chance.randbytes(chance.randint(2, 9)).hex().encode() for _ in range(2000)]
    long = b" ".join(chance.choice(words) for _ in range(200_000))
    for _ in range(count):
        size = chance.randint(topic.smallest, topic.largest)
        start = chance.randrange(len(long) - size)
        yield long[start : start + size]


def write(bootstrap: str, topic: Data, name: str, count: int) -> None:
    """Write ``count`` records, in turns to each partition."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": topic.codec,
            "batch.size": topic.batch_bytes,
            "batch.num.messages": 1 if topic.batch_bytes == 1 else 100_000,
            "linger.ms": 0 if topic.batch_bytes == 1 else 100,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    headers = [("trace", b"0123456789abcdef"), ("source", b"till")] if topic.headers else None
    for number, value in enumerate(values(topic, count)):
        while True:
            try:
                producer.produce(name, value, None, number % topic.partitions, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records of {name} not delivered")


def run(reader: str, bootstrap: str, topic: str, partitions: int, count: int) -> Result:
    """Run one reader in a process of its own."""
    command = [sys.executable, __file__, "--read", reader, bootstrap, topic, str(partitions), str(count)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{reader} on {topic}: {done.stderr[-3000:]}")
    result: Result = json.loads(done.stdout)
    return result


def main() -> None:
    """Write the topics, run the rounds, print a table."""
    if sys.argv[1:2] == ["--read"]:
        reader, bootstrap, topic, partitions, count = sys.argv[2:]
        print(json.dumps(READERS[reader](bootstrap, topic, int(partitions), int(count))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster of one broker; without it one is started")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the small ones (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", type=lambda text: text.split(","), default=list(READERS))
    parser.add_argument("--topics", type=lambda text: text.split(","), default=[topic.name for topic in TOPICS])
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    topics = [topic for topic in TOPICS if topic.name in arguments.topics]
    results: dict[str, dict[str, list[Result]]] = {topic.name: {} for topic in topics}
    with broker(arguments.bootstrap) as cluster:
        names, counts = {}, {}
        for topic in topics:
            name = names[topic.name] = unique(f"columns-{topic.name}")
            count = counts[topic.name] = int(arguments.records * topic.share)
            cluster.create_topic(name, topic.partitions, 1, {"compression.type": "producer"})
            write(cluster.bootstrap, topic, name, count)
            inside, size = batch_sizes(cluster.bootstrap, name, topic.partitions)
            print(f"{topic.name}: {count:,} records, {inside} a batch, batches of {size} bytes", file=sys.stderr)
        for number in range(arguments.rounds):
            for topic in topics:
                for reader in rotated(arguments.readers, number):
                    found = run(reader, cluster.bootstrap, names[topic.name], topic.partitions, counts[topic.name])
                    results[topic.name].setdefault(reader, []).append(found)
    print(report(results, arguments))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def report(results: dict[str, dict[str, list[Result]]], arguments: argparse.Namespace) -> str:
    """Return the table as Markdown."""
    readers = arguments.readers
    pairs = [("batches", other) for other in readers if other != "batches" and "batches" in readers]
    heads = ["topic", *readers, *(f"{one} / {other}" for one, other in pairs), "CPU batches, rows"]
    lines = [
        f"{arguments.rounds} rounds, {os.cpu_count()} cores. Medians of krec/s; CPU in seconds a million records.",
        "",
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
    ]
    for topic, found in results.items():
        rates = {reader: median(each["per_second"] for each in found[reader]) for reader in readers}
        cpu = [f"{median(each['cpu_per_million'] for each in found[r]):.2f}" for r in ("batches", "rows") if r in found]
        cells = [f"{rates[reader] / 1e3:,.0f}" for reader in readers]
        cells += [f"{rates[one] / rates[other]:.2f}" for one, other in pairs]
        lines.append(f"| {topic} | {' | '.join(cells)} | {', '.join(cpu)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
