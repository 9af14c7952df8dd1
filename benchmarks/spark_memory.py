"""Measures Spark's memory over a long stream: ``python benchmarks/spark_memory.py``.

Over 10 GB of payload in micro-batches, neither the source's process on the driver, nor a Python worker, nor the live
heap of the JVM may grow after the first tenth. Needs PySpark 4.2 or newer, and confluent-kafka to write. The payload
compresses well, so that it needs little disk space.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from clusters import broker, child, memory_mb, unique
from sparks import session

PARTITIONS, VALUE_BYTES, BATCH_RECORDS = 6, 1000, 250_000
#: Minimum number of micro-batches; a sample is taken after each.
LEAST_BATCHES = 4
#: Normal variation of the memory of a process at constant work, in MB.
NOISE_MB = 24
#: Fractions of the stream after which the live heap is measured, which needs a full garbage collection.
MARKS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.97)
SOURCE, WORKER, JVM = "python_streaming_source_runner", "pyspark.daemon pyspark.worker", "org.apache.spark.deploy"


class Sample(NamedTuple):
    """Memory after a micro-batch in MB: resident sizes, and the live heap."""

    batch: int
    gigabytes: float
    source: float
    worker: float  #: The largest worker.
    jvm: float
    heap: float | None  #: Live heap after a garbage collection.


def main() -> int:
    """Print the figures; return 1 if one of them grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--json", type=Path, help="file for all samples")
    arguments = parser.parse_args()
    records = int(arguments.gigabytes * 1e9 / VALUE_BYTES)
    if records < LEAST_BATCHES * BATCH_RECORDS:
        parser.error(
            f"--gigabytes must be at least {LEAST_BATCHES * BATCH_RECORDS * VALUE_BYTES / 1e9:g} to compare batches"
        )
    with broker(arguments.bootstrap) as cluster, session("1g") as (spark, folder):
        topic = cluster.create_topic(unique("spark-memory"), PARTITIONS, 1)
        began = time.perf_counter()
        child("topics.py", cluster.bootstrap, topic, PARTITIONS, records, VALUE_BYTES, "lz4", seconds=3600)
        print(f"{records:,} records of {VALUE_BYTES} bytes written in {time.perf_counter() - began:.0f} s", flush=True)
        began = time.perf_counter()
        samples = list(stream(spark, cluster.bootstrap, topic, records, folder))
        seconds = time.perf_counter() - began
        cluster.delete_topic(topic)
    print(f"read in micro-batches of {BATCH_RECORDS:,} and {seconds:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps([sample._asdict() for sample in samples], indent=1))
    return 0 if report(samples) else 1


def stream(spark: Any, bootstrap: str, topic: str, records: int, folder: str) -> Iterator[Sample]:
    """Read all of the topic in micro-batches; yield a sample after each."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("thinconsumer").options(**options, maxOffsetsPerTrigger=str(BATCH_RECORDS)).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    seen, read, marks = -1, 0, list(MARKS)
    while True:
        ended = query.awaitTermination(0.2)
        for progress in query.recentProgress:
            if progress["batchId"] > seen:
                seen, read = progress["batchId"], read + progress["numInputRows"]
                heap = None
                if marks and read >= marks[0] * records:
                    del marks[0]
                    heap = live_heap(spark)
                if not ended:
                    yield sample(seen, read * VALUE_BYTES / 1e9, heap)
        if ended:
            break
    if query.exception() is not None:
        raise query.exception()
    if read != records:
        raise SystemExit(f"{read:,} rows of {records:,} were read")


def live_heap(spark: Any) -> float:
    """Collect garbage, and return the size of the JVM's live heap in MB."""
    java = spark._jvm.java.lang
    java.System.gc()
    return float(java.Runtime.getRuntime().totalMemory() - java.Runtime.getRuntime().freeMemory()) / 1e6


def sample(batch: int, gigabytes: float, heap: float | None) -> Sample:
    """Measure the descendants of this process."""
    found: dict[str, list[float]] = {SOURCE: [0.0], WORKER: [0.0], JVM: [0.0]}
    for pid, command in descendants(os.getpid()):
        kind = next((kind for kind in (SOURCE, WORKER, JVM) if kind in command), None)
        if kind is not None:
            with suppress(OSError, IndexError):  # it may have ended
                found[kind].append(memory_mb(process=pid))
    return Sample(batch, gigabytes, max(found[SOURCE]), max(found[WORKER]), max(found[JVM]), heap)


def descendants(root: int) -> Iterator[tuple[int, str]]:
    """Yield process id and command of every descendant of a process."""
    for entry in Path(f"/proc/{root}/task").glob("*/children"):
        for pid in map(int, entry.read_text().split()):
            try:
                yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                yield from descendants(pid)
            except OSError:
                continue


def report(samples: list[Sample]) -> bool:
    """Print a table and the growth after the first tenth; return whether each stays below the noise."""
    total = samples[-1].gigabytes
    print(f"{'GB':>6} {'batch':>6} {'source':>8} {'worker':>8} {'JVM':>8} {'live heap':>10}   MB")
    for one in samples:
        if one.heap is not None or one is samples[0]:
            heap = "" if one.heap is None else f"{one.heap:.0f}"
            figures = f"{one.source:8.0f} {one.worker:8.0f} {one.jvm:8.0f} {heap:>10}"
            print(f"{one.gigabytes:6.1f} {one.batch:6} {figures}")
    late = [one for one in samples if one.gigabytes >= total * MARKS[0]]
    held = True
    for name in ("source", "worker", "heap"):
        # The heap is measured in a few samples only.
        values = [getattr(one, name) for one in late if getattr(one, name) is not None]
        fifth = max(1, len(values) // 5)
        before, after = max(values[:fifth]), max(values[-fifth:])
        good = after - before < NOISE_MB
        held &= good
        print(f"{'held' if good else 'NOT HELD'}: {name}: {after - before:+.1f} MB (under {NOISE_MB})")
    return held


if __name__ == "__main__":
    sys.exit(main())
