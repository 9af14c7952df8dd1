"""A program that reads far more than it may hold, first with everything paused, and tells its memory.

Run as ``python hungry.py BOOTSTRAP TOPIC PARTITIONS COUNT MAX_BUFFERED_BYTES``: prints one line of numbers: kB resident
at the start, at most while paused, at most at the end, most bytes pinned while paused, records read, threads.
"""

import sys
import threading
import time
from pathlib import Path

from thinconsumer import Consumer, TopicPartition


def resident(field: str) -> int:
    """Return kB: VmRSS is now, VmHWM the most there ever was."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(field))


def main() -> None:
    bootstrap, topic, partitions, count, limit = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    start = resident("VmRSS")
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_buffered_bytes=limit) as consumer:
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(tps)
        buffer = consumer._reader.managers.buffer
        read = sum(map(len, consumer.poll(10_000, 1).values()))
        consumer.pause(*tps)
        pinned, until = 0, time.monotonic() + 3
        while time.monotonic() < until:
            assert consumer.poll(50) == {}
            pinned = max(pinned, buffer.pinned)
        paused = resident("VmHWM")
        consumer.resume(*tps)
        while read < count:
            found = consumer.poll(1000, 100)
            read += sum(map(len, found.values()))
        print(start, paused, resident("VmHWM"), pinned, read, threading.active_count())


main()
