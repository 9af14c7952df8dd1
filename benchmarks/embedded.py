"""The embedded broker beside a real one, with other people's clients: ``python benchmarks/embedded.py``.

Every client writes and reads the same records on both, in turns, each time in a fresh process; the broker is a process
of its own. Also: how long the embedded broker takes to start, and what it costs when nothing happens.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from clusters import broker, child, say, unique
from writers import WRITERS

from thinconsumer_testing.broker.process import BrokerProcess
from thinconsumer_testing.broker.server import EmbeddedBroker

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")
READS_WITH = {"confluent-kafka": "confluent-kafka tuned"}  # by default its queue stalls it, and hides the broker
REAL, EMBEDDED = "real", "embedded"
ENOUGH = 0.5
PARTITIONS = 3


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a real cluster; without it one is started")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=lambda text: text.split(","), default=list(CLIENTS))
    arguments = parser.parse_args()
    found: dict[tuple[str, str, str], list[float]] = {}
    with broker(arguments.bootstrap) as real, BrokerProcess() as embedded:
        places = {REAL: real.bootstrap, EMBEDDED: embedded.bootstrap_servers}
        for number in range(arguments.rounds):
            for client in arguments.clients:
                for place in (REAL, EMBEDDED)[:: 1 if number % 2 else -1]:
                    topic = unique(client)
                    creator: Any = real if place == REAL else embedded
                    creator.create_topic(topic, PARTITIONS, 1)
                    for what, script, name in (
                        ("write", "writers.py", client),
                        ("read", "readers.py", READS_WITH.get(client, client)),
                    ):
                        rate = run(script, name, places[place], topic, arguments.records)
                        found.setdefault((client, what, place), []).append(rate)
                        say(f"round {number + 1}, {client} {what}s on {place}: {rate / 1e3:,.0f} krec/s")
                    creator.delete_topic(topic)
        idle = cpu_share(embedded.pid, 10.0)
    print(f"{arguments.records:,} records of 100 bytes, {PARTITIONS} partitions, {arguments.rounds} rounds, "
          f"{os.cpu_count()} cores, Python {platform.python_version()}; medians")  # fmt: skip
    print("\n| client | | real Kafka, krec/s | embedded, krec/s | embedded / real |\n|---|---|---|---|---|")
    slow = []
    for client in arguments.clients:
        for what in ("write", "read"):
            rates = {place: median(found[client, what, place]) for place in (REAL, EMBEDDED)}
            ratio = rates[EMBEDDED] / rates[REAL]
            print(f"| {client} | {what} | {rates[REAL] / 1e3:,.0f} | {rates[EMBEDDED] / 1e3:,.0f} | {ratio:.2f}x |")
            if ratio < ENOUGH:
                slow.append(f"{client} {what}")
    starts = sorted(start_ms() for _ in range(20))
    print(f"\nstart of three nodes in this process: median {median(starts):.1f} ms, worst {starts[-1]:.1f} ms")
    print(f"start of a process of its own: {process_start_ms():.0f} ms")
    print(f"idle after all that: {idle:.2%} of a core")
    if slow:
        sys.exit(f"below {ENOUGH}x: {', '.join(slow)}")


def run(script: str, name: str, bootstrap: str, topic: str, records: int) -> float:
    """Return the rate of one client in a process of its own."""
    assert name in WRITERS or script == "readers.py"
    result: dict[str, float] = child(script, name, bootstrap, topic, PARTITIONS, records)
    return result["per_second"]


def start_ms() -> float:
    """Return how long three nodes take from construction to listening."""
    began = time.perf_counter()
    with EmbeddedBroker(nodes=3, topics={"orders": 3}):
        return (time.perf_counter() - began) * 1000


def process_start_ms() -> float:
    """Return how long a broker in a process of its own takes until it listens."""
    began = time.perf_counter()
    with BrokerProcess(nodes=3):
        return (time.perf_counter() - began) * 1000


def cpu_share(pid: int, seconds: float) -> float:
    """Return which part of a core a process uses over a while."""

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


if __name__ == "__main__":
    main()
