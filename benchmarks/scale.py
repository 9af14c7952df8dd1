"""Many partitions on one consumer: ``python benchmarks/scale.py``.

For 10, 100, 1,000 and 10,000 partitions, in ten topics, on the embedded broker in a process of its own: the time from
building the consumer to its first record, CPU while nothing arrives, CPU of ``poll(0)``, and CPU per record that comes
alone. Each client runs in fresh processes, in turns. CPU is the client's process, all its threads. Must hold for this
library with 10,000 partitions: first record at most 0.5 s, idle at most 1.5 % of a core, a record at most 2 ms of CPU.

The plan of a group's leader with 200 members and 20,000 partitions is timed as well, which must take under 2 s: in 20
topics that all members are subscribed to, and in 20,000 topics, of which each member is subscribed to a random half.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from clusters import ROOT, environment, say
from readers import open_confluent, open_kafka_python, open_thinconsumer

from thinconsumer_testing.broker.process import BrokerProcess

TOPICS = 10
RECORDS = 50
#: Figure, its unit and the limit at the largest number of partitions.
FIGURES = {
    "first_s": ("First record, s", 0.5),
    "idle_percent": ("Idle, % of a core", 1.5),
    "record_ms": ("CPU per record, ms", 2.0),
    "poll_us": ("CPU of poll(0), µs", math.inf),
}
Result = dict[str, float]
#: Polls for up to so many seconds, and returns the number of records.
Poll = Callable[[float], int]

# -- the readers, each in a process of its own


def topic_partitions(count: int) -> list[tuple[str, int]]:
    """Return the names and numbers of all partitions."""
    return [(f"scale{number % TOPICS}", number // TOPICS) for number in range(count)]


def polls_of_lists(consumer: Any) -> Poll:
    """Return the polls of thinconsumer and of kafka-python, which return lists by partition."""
    return lambda seconds: sum(map(len, consumer.poll(timeout_ms=1000 * seconds).values()))


def polls_of_one(consumer: Any) -> Poll:
    """Return the polls of confluent-kafka, which return one message."""
    return lambda seconds: int(consumer.poll(seconds) is not None)


READERS = {
    "thinconsumer": (open_thinconsumer, polls_of_lists),
    "kafka-python": (open_kafka_python, polls_of_lists),
    "confluent-kafka": (open_confluent, polls_of_one),
}
MODULES = {"thinconsumer": "thinconsumer", "kafka-python": "kafka", "confluent-kafka": "confluent_kafka"}


def read(client: str, bootstrap: str, count: int, seconds: float) -> None:
    """Measure one client; print the result as the last line. Before, each line asks the parent for one record."""
    importlib.import_module(MODULES[client])
    if client == "thinconsumer":
        importlib.import_module("thinconsumer.consumer.consumer")
    started, cpu = time.perf_counter(), time.process_time()
    connect, polls = READERS[client]
    poll = polls(connect(bootstrap, topic_partitions(count)))
    while not poll(0.1):
        pass
    result = {"first_s": time.perf_counter() - started, "first_cpu_s": time.process_time() - cpu}
    run_for(2.0, lambda: poll(0.5))
    cpu, started = time.process_time(), time.perf_counter()
    run_for(seconds, lambda: poll(1.0))
    result["idle_percent"] = 100 * (time.process_time() - cpu) / (time.perf_counter() - started)
    polls, cpu, started = 0, time.process_time(), time.perf_counter()
    while polls < 1000 and time.perf_counter() - started < 3:
        poll(0)
        polls += 1
    result["poll_us"] = 1e6 * (time.process_time() - cpu) / polls
    cpu = time.process_time()
    for _ in range(RECORDS):
        print(flush=True)
        while not poll(1.0):
            pass
    result["record_ms"] = 1000 * (time.process_time() - cpu) / RECORDS
    print(json.dumps(result), flush=True)
    os._exit(0)


def run_for(seconds: float, call: Callable[[], object]) -> None:
    """Repeat a call for so long."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        call()


# -- the parent


def main() -> int:
    """Run the rounds, print the tables, and return 1 if a limit is not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=lambda text: [*map(int, text.split(","))], default=[10, 100, 1000, 10_000])
    parser.add_argument("--clients", type=lambda text: text.split(","), default=list(READERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of the idle loop")
    parser.add_argument("--picture", type=Path, help="write the plot to this SVG file")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(*arguments.read, arguments.partitions[0], arguments.seconds)
        return 0
    clients = [client for client in arguments.clients if importlib.util.find_spec(MODULES[client])]
    found: dict[tuple[str, int], list[Result]] = {}
    for number in range(arguments.rounds):
        for count in arguments.partitions:
            for client in clients[number % len(clients) :] + clients[: number % len(clients)]:
                result = measure(client, count, arguments.seconds)
                found.setdefault((client, count), []).append(result)
                say(f"round {number + 1}, {count:,} partitions, {client}: {shown(result)}")
    medians = {key: {name: median(r[name] for r in results) for name in results[0]} for key, results in found.items()}
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, {arguments.rounds} rounds, medians (least to most)")
    print(table(found, arguments.partitions, clients))
    plans = time_plans(topics=20, share=1.0) | time_plans(topics=20_000, share=0.5)
    print("\nplan for 200 members and 20,000 partitions, CPU s: " + "; ".join(f"{n} {s:.2f}" for n, s in plans.items()))
    if arguments.picture:
        arguments.picture.write_text(draw(medians, arguments.partitions, clients), encoding="utf-8")
    ours = medians.get(("thinconsumer", 10_000), {})
    missed = [words for name, (words, limit) in FIGURES.items() if ours.get(name, 0.0) > limit]
    missed += [f"plan of {name}" for name, seconds in plans.items() if seconds >= 2.0]
    if missed:
        print(f"not held: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def measure(client: str, count: int, seconds: float) -> Result:
    """Return the figures of one client, in a process of its own and with a new broker."""
    topics = {name: sum(found == name for found, _ in topic_partitions(count)) for name, _ in topic_partitions(TOPICS)}
    with BrokerProcess(topics=topics) as broker:
        broker.produce("scale0", [b"first"])
        command = [sys.executable, __file__, "--read", client, broker.bootstrap_servers]
        command += ["--partitions", str(count), "--seconds", str(seconds)]
        places = topic_partitions(count)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
            assert process.stdout is not None
            for number, line in enumerate(process.stdout):
                if line != "\n":
                    result: Result = json.loads(line)
                    return result
                time.sleep(0.005)
                topic, partition = places[number * 7919 % count]
                broker.produce(topic, [b"one"], partition)
        raise RuntimeError(f"{client} failed")


def time_plans(topics: int, share: float) -> Result:
    """Return the seconds of CPU of each built-in assignor, after a member has joined a group of 200.

    There are 20,000 partitions, and each member is subscribed to a random ``share`` of the topics.
    """
    from thinconsumer.assignors.base import GroupMetadata, Subscription
    from thinconsumer.assignors.registry import create
    from thinconsumer.types import ClusterView, Node, PartitionInfo

    names = [f"plan{number:05}" for number in range(topics)]
    numbers = range(20_000 // topics)
    parts = {name: tuple(PartitionInfo(name, p, p % 3, 0, (p % 3,), (), ()) for p in numbers) for name in names}
    cluster = ClusterView(parts, {node: Node(node, "host", 9092, None) for node in range(3)})
    rng = random.Random(1)
    wanted = {f"member-{number:03}": [n for n in names if rng.random() < share] for number in range(200)}
    found = {}
    for name in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        plan: Any = {}
        for members in (199, 200):
            subscriptions = {}
            for member in list(wanted)[:members]:
                [assignor] = create([name])
                owned = ()
                if member in plan:
                    assignor.on_assignment(plan[member], GroupMetadata("g", 1, member))
                    owned = plan[member].partitions if name == "cooperative-sticky" else ()
                data = assignor.subscription_user_data(wanted[member])
                subscriptions[member] = Subscription(tuple(wanted[member]), data, owned, 1 if plan else -1)
            began = time.process_time()
            plan = create([name])[0].assign(cluster, subscriptions)
            found[f"{name}, {topics:,} topics"] = time.process_time() - began
    return found


def shown(result: Result) -> str:
    """Return the figures of one run as text."""
    return ", ".join(f"{FIGURES[name][0]} {result[name]:.4g}" for name in FIGURES)


def table(found: dict[tuple[str, int], list[Result]], counts: list[int], clients: list[str]) -> str:
    """Return the medians, the least and the most of each figure."""
    rows = [f"\n| partitions | client | {' | '.join(words for words, _ in FIGURES.values())} | CPU until first, s |"]
    rows.append("|---" * (len(FIGURES) + 3) + "|")
    for count in counts:
        for client in clients:
            cells = []
            for name in (*FIGURES, "first_cpu_s"):
                values = sorted(result[name] for result in found[client, count])
                cells.append(f"{median(values):.3g} ({values[0]:.3g} to {values[-1]:.3g})")
            rows.append(f"| {count:,} | {client} | {' | '.join(cells)} |")
    return "\n".join(rows)


# -- the plot

WIDTH, HEIGHT, PANEL, GAP, LEFT = 920, 640, 340, 110, 70
COLORS = {"thinconsumer": "#1565c0", "kafka-python": "#9e9e9e", "confluent-kafka": "#ef6c00"}


def draw(medians: dict[tuple[str, int], Result], counts: list[int], clients: list[str]) -> str:
    """Return four panels as SVG, with logarithmic axes: a figure by the number of partitions, a line per client."""
    parts = [f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>"]
    for index, client in enumerate(clients):
        x = LEFT + 170 * index
        parts.append(f"<line x1='{x}' y1='24' x2='{x + 24}' y2='24' stroke='{COLORS[client]}' stroke-width='3'/>")
        parts.append(text(x + 30, 28, client))
    for index, (name, (words, limit)) in enumerate(FIGURES.items()):
        left, top = LEFT + index % 2 * (PANEL + GAP), 80 + index // 2 * 290
        parts += panel(left, top, words, limit, {c: [medians[c, n][name] for n in counts] for c in clients}, counts)
    font = "font-family='sans-serif' font-size='13'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' {font}>"
    return "\n".join([head, *parts, "</svg>\n"])


def panel(
    left: float, top: float, words: str, limit: float, lines: dict[str, list[float]], counts: list[int]
) -> Iterator[str]:
    """Yield the axes and lines of one figure."""
    values = [max(value, 1e-3) for line in lines.values() for value in line]
    least, most = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    height = 200

    def x(count: float) -> float:
        low, high = math.log10(counts[0]), math.log10(max(counts[-1], counts[0] + 1))
        return left + PANEL * (math.log10(count) - low) / (high - low)

    def y(value: float) -> float:
        return top + height - height * (math.log10(max(value, 1e-3)) - least) / max(1, most - least)

    yield text(left, top - 14, words, "font-weight='600'")
    for power in range(least, most + 1):
        at = y(10**power)
        yield f"<line x1='{left}' y1='{at:.1f}' x2='{left + PANEL}' y2='{at:.1f}' stroke='#e0e0e0'/>"
        yield text(left - 8, at + 4, f"{10**power:g}", "text-anchor='end' fill='#666'")
    for count in counts:
        yield text(x(count), top + height + 20, f"{count:,}", "text-anchor='middle' fill='#666'")
    if limit < math.inf:
        yield (
            f"<line x1='{left}' y1='{y(limit):.1f}' x2='{left + PANEL}' y2='{y(limit):.1f}' "
            "stroke='#c62828' stroke-dasharray='5 4'/>"
        )
    for client, line in lines.items():
        points = " ".join(f"{x(count):.1f},{y(value):.1f}" for count, value in zip(counts, line))
        yield f"<polyline points='{points}' fill='none' stroke='{COLORS[client]}' stroke-width='2.5'/>"
        yield from (
            f"<circle cx='{x(count):.1f}' cy='{y(value):.1f}' r='3.5' fill='{COLORS[client]}'/>"
            for count, value in zip(counts, line)
        )


def text(x: float, y: float, words: str, more: str = "") -> str:
    """Return a text element."""
    return f"<text x='{x:.1f}' y='{y:.1f}' {more}>{words}</text>"


if __name__ == "__main__":
    sys.exit(main())
