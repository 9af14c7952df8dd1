"""What a slow reader holds in memory: ``python benchmarks/memory.py``.

Must hold: reading 2 GB in 50 partitions at one record a second stays under start + ``max_buffered_bytes`` + 64 MB, and
100,000 empty polls grow nothing. Reading all of it at full speed is measured against the same bound. The reader is this
process; the records come from another one, whose memory is not counted.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from typing import Any

from clusters import broker, child, memory_mb, unique, verdict

PARTITIONS, VALUE_BYTES, SLACK_MB, EMPTY_POLLS = 50, 10_000, 64, 100_000
#: What 100,000 polls may differ by without having grown: the allocator's own pages come and go.
NOISE_MB = 1.0


def main() -> int:
    """Print the figures, and return 1 if one of them is not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="of reading one record a second")
    arguments = parser.parse_args()
    records = int(arguments.gigabytes * 1e9 / VALUE_BYTES)
    with broker(arguments.bootstrap) as cluster:
        topic = cluster.create_topic(unique("memory"), PARTITIONS, 1)
        child("topics.py", cluster.bootstrap, topic, PARTITIONS, records, VALUE_BYTES, "none")
        held = measure(cluster.bootstrap, topic, records, arguments.seconds)
        cluster.delete_topic(topic)
    return 0 if held else 1


def measure(bootstrap: str, topic: str, records: int, seconds: float) -> bool:
    """Read slowly, then fast, then nothing."""
    from thinconsumer import Consumer, TopicPartition

    start = memory_mb()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        bound = consumer.config.max_buffered_bytes / 1e6 + SLACK_MB
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        slow, read = slowly(consumer, seconds)
        line = f"{read} records at one a second: start ({start:.0f}) + {slow - start:.0f} MB (under {bound:.0f})"
        verdicts = [verdict(slow - start < bound, line)]
        began = time.perf_counter()
        fast = quickly(consumer, records - read)
        rate = (records - read) * VALUE_BYTES / 1e6 / (time.perf_counter() - began)
        line = f"the other {records - read:,} at {rate:.0f} MB/s: start + {fast - start:.0f} MB (under {bound:.0f})"
        verdicts += [verdict(fast - start < bound, line), polls_that_find_nothing(consumer)]
    return all(verdicts)


def slowly(consumer: Any, seconds: float) -> tuple[float, int]:
    """Take a record a second, looking after connections in between; return the peak and how many were taken."""
    peak, read = 0.0, 0
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        read += sum(map(len, consumer.poll(timeout_ms=1000, max_records=1).values()))
        while time.monotonic() - started < read:
            consumer.drive()
            peak = max(peak, memory_mb())
            time.sleep(0.05)
    return peak, read


def quickly(consumer: Any, records: int) -> float:
    """Read that many, and return the peak."""
    peak, read = 0.0, 0
    while read < records:
        read += sum(map(len, consumer.poll(timeout_ms=1000).values()))
        peak = max(peak, memory_mb())
    return peak


def polls_that_find_nothing(consumer: Any) -> bool:
    """Poll at the end of everything; what the first thousand leave is where growth is counted from."""
    for _ in range(EMPTY_POLLS // 100):
        consumer.poll(timeout_ms=0)
    gc.collect()
    before, objects = memory_mb(), len(gc.get_objects())
    found = sum(len(consumer.poll(timeout_ms=0)) for _ in range(EMPTY_POLLS))
    gc.collect()
    grown, more = memory_mb() - before, len(gc.get_objects()) - objects
    line = f"{EMPTY_POLLS:,} polls that found {found} records: {grown:+.2f} MB, {more:+d} objects"
    return verdict(grown < NOISE_MB and more < 100 and not found, line)


if __name__ == "__main__":
    sys.exit(main())
