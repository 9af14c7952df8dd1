"""Both group protocols beside each other: ``python benchmarks/protocols.py``.

The time from the construction of a consumer in a new group to its first record, with the classic protocol and the
consumer group protocol (KIP-848) in turns, in one process that has done each once before.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median
from typing import Any

from clusters import broker, unique

PARTITIONS = 6
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic, eager": {},
    "classic, cooperative": {"partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_protocol": "consumer"},
    "auto": {"group_protocol": "auto"},
}


def first_record(bootstrap: str, topic: str, group: str, options: dict[str, Any]) -> float:
    """Return the seconds from the construction of a consumer to its first record."""
    from thinconsumer import Consumer

    began = time.perf_counter()
    consumer = Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    try:
        while not consumer.poll(1000):
            if time.perf_counter() - began > 60:
                raise TimeoutError(f"no record: {consumer.health()}")
        return time.perf_counter() - began
    finally:
        consumer.close()


def fill(bootstrap: str, topic: str) -> None:
    """Write a few records into each partition."""
    from realkafka.produce import SteadyProducer

    with SteadyProducer(bootstrap, topic, PARTITIONS, records_per_second=600) as producer:
        time.sleep(0.5)
        producer.stop()


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap")
    parser.add_argument("--rounds", type=int, default=10)
    told = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in PROTOCOLS}
    with broker(told.bootstrap) as cluster:
        topic = cluster.create_topic(unique("protocols"), PARTITIONS, 1)
        fill(cluster.bootstrap, topic)
        for number in range(-1, told.rounds):
            for name, options in PROTOCOLS.items():
                group = f"{topic}-{list(PROTOCOLS).index(name)}-{number}"
                seconds = first_record(cluster.bootstrap, topic, group, options)
                if number >= 0:
                    times[name].append(1000 * seconds)
        cluster.delete_topic(topic)
    base = median(times["classic, eager"])
    print("| protocol | median, ms | min | max | of classic |\n|---|---|---|---|---|")
    for name, found in times.items():
        row = f"{median(found):.1f} | {min(found):.1f} | {max(found):.1f} | {median(found) / base:.2f}"
        print(f"| {name} | {row} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
