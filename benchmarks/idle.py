"""What waiting costs: 40 topics on which nothing arrives. ``python benchmarks/idle.py``.

Must hold: a loop of ``poll(1000)`` takes at most 1 % of a core; ``poll(0)`` under 2 ms of CPU, and at p99.9 under 20 ms
of wall time; ``poll(5000)`` comes back within 50 ms of 5 s. CPU is this process's alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from clusters import broker, unique, verdict

TOPICS = 40


def main() -> int:
    """Print the figures, and return 1 if one of them is not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--seconds", type=float, default=30, help="of each loop")
    arguments = parser.parse_args()
    with broker(arguments.bootstrap) as cluster:
        names = [cluster.create_topic(unique(f"idle{number}"), 1, 1) for number in range(TOPICS)]
        held = measure(cluster.bootstrap, names, arguments.seconds)
        for name in names:
            cluster.delete_topic(name)
    return 0 if held else 1


def measure(bootstrap: str, names: list[str], seconds: float) -> bool:
    """Measure all three on one consumer, after it has settled down."""
    from thinconsumer import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="latest") as consumer:
        partitions = [TopicPartition(name, 0) for name in names]
        consumer.assign(partitions)
        for tp in partitions:
            consumer.position(tp)
        consumer.poll(timeout_ms=2000)
        verdicts = [loop(consumer, seconds), steps(consumer, seconds), patience(consumer)]
    return all(verdicts)


def loop(consumer: Any, seconds: float) -> bool:
    """``poll(1000)``, again and again."""
    polls, started, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        assert not consumer.poll(timeout_ms=1000)
        polls += 1
    share = 100 * (time.process_time() - cpu) / (time.perf_counter() - started)
    return verdict(share <= 1, f"poll(1000) in a loop, {polls} polls: {share:.2f} % of a core (at most 1)")


def steps(consumer: Any, seconds: float) -> bool:
    """``poll(0)`` with a short sleep in between, as someone else's event loop would call it."""
    cpus, walls = [], []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        wall, cpu = time.perf_counter(), time.process_time()
        assert not consumer.poll(timeout_ms=0)
        cpus.append(1000 * (time.process_time() - cpu))
        walls.append(1000 * (time.perf_counter() - wall))
        time.sleep(0.001)
    cpus.sort()
    walls.sort()
    at = len(cpus) * 999 // 1000
    share = sum(cpus) / seconds / 10
    mean = sum(cpus) / len(cpus)
    return verdict(
        cpus[at] < 2 and walls[at] < 20,
        f"poll(0), {len(cpus):,} times: CPU mean {mean:.3f}, p99.9 {cpus[at]:.2f}, worst {cpus[-1]:.2f} ms (under 2); "
        f"wall p99.9 {walls[at]:.2f}, worst {walls[-1]:.2f} ms (under 20); in all {share:.1f} % of a core",
    )


def patience(consumer: Any) -> bool:
    """``poll(5000)``, three times."""
    off = []
    for _ in range(3):
        started = time.perf_counter()
        assert not consumer.poll(timeout_ms=5000)
        off.append(1000 * (time.perf_counter() - started) - 5000)
    shown = ", ".join(f"{each:+.1f}" for each in off)
    return verdict(all(abs(each) <= 50 for each in off), f"poll(5000) comes back at 5 s {shown} ms (within 50)")


if __name__ == "__main__":
    sys.exit(main())
