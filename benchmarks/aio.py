"""AsyncConsumer beside aiokafka, in asyncio and in uvloop: ``python benchmarks/aio.py``.

Each reader runs in a fresh process, in turns, and the medians of the rounds are compared:

* **rate**: topics of JSON, of which every field of each record is read, by ``poll`` beside ``getmany``, and by
  ``async for`` beside ``async for``.
* **latency**: from the producer's call to the reader's loop, of records that are written one at a time, while 100
  other tasks of the loop parse JSON: each 100 times a second, or again and again without a wait.
* **many**: 200 consumers in one loop, each with its own partition: the time until all have read their first record,
  CPU while nothing arrives and while 200 records a second do, memory.

The broker is a process of its own: Kafka's, the one that ``--bootstrap`` names, or with ``--embedded`` this package's.
Fails if a bar is not held: 1.7 times aiokafka's rate uncompressed, 1.6 lz4, 1.5 zstd and batches of six, 1.5 with
``async for``, a p99 not above its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from aio_readers import CLIENTS, EACH, POLLS
from clusters import Administration, broker, child, environment, rotated, say, unique, verdict
from compare import machine, versions
from latency import write_one_at_a_time
from readers import MAX_RECORDS
from topics import TOPICS, write

OURS, THEIRS = CLIENTS
#: Topics, and how many times aiokafka's rate has to be reached by polls; by ``async for``, EACH_BAR.
BARS = {"documents": 1.7, "documents-lz4": 1.6, "documents-zstd": 1.5, "six": 1.5}
EACH_BAR = 1.5
#: Seconds that each of the other tasks waits between two documents.
PAUSES = {"100 times a second": 0.01, "without a wait": 0.0}
SCRIPT = Path(__file__).with_name("aio_readers.py")
Results = dict[tuple[str, ...], list[dict[str, float]]]


def main() -> int:
    """Run the parts; return 1 if a bar is not held."""
    arguments = parse()
    print(f"{machine()}, {', '.join(f'{name} {version}' for name, version in versions().items())}")
    print(f"python benchmarks/aio.py {' '.join(sys.argv[1:])}, broker: {arguments.kind}", flush=True)
    with cluster_of(arguments) as cluster:
        held = [PARTS[part](cluster, arguments) for part in arguments.parts]
    return 0 if all(held) else 1


def parse() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster of one broker; without it one is started")
    parser.add_argument("--embedded", action="store_true", help="on the embedded broker")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--loops", type=lambda text: text.split(","), default=["asyncio", "uvloop"])
    parser.add_argument("--topics", type=lambda text: text.split(","), default=list(BARS))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=[POLLS, EACH])
    parser.add_argument("--clients", type=lambda text: text.split(","), default=list(CLIENTS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--records", type=int, default=300_000, help="of each topic")
    parser.add_argument("--single", type=int, default=800, help="records that come alone, for each reader and round")
    parser.add_argument("--tasks", type=int, default=100, help="beside a reader of single records")
    parser.add_argument("--consumers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0, help="in which CPU of many consumers is measured")
    parser.add_argument("--tree", help="a checkout whose thinconsumer is measured instead of this one")
    arguments = parser.parse_args()
    arguments.kind = "embedded" if arguments.embedded else arguments.bootstrap or "Kafka"
    arguments.records = max(1, arguments.records // MAX_RECORDS) * MAX_RECORDS
    if importlib.util.find_spec("uvloop") is None:
        say("uvloop is not installed")
        arguments.loops = ["asyncio"]
    return arguments


@contextlib.contextmanager
def cluster_of(arguments: argparse.Namespace) -> Iterator[Administration]:
    """Yield the cluster that the options ask for."""
    if not arguments.embedded:
        with broker(arguments.bootstrap) as cluster:
            yield cluster
        return
    from thinconsumer_testing.broker.process import BrokerProcess

    with BrokerProcess(nodes=1) as process:
        yield Administration(process.bootstrap_servers)


def rounds(
    arguments: argparse.Namespace, cases: list[tuple[str, ...]], measure: Callable[..., dict[str, float]]
) -> Results:
    """Measure each client in each case, in turns: no client is always the first."""
    found: Results = {}
    for number in range(arguments.rounds):
        for case in cases:
            for client in rotated(arguments.clients, number):
                result = measure(client, *case)
                found.setdefault((*case, client), []).append(result)
                words = ", ".join(f"{name} {value:,.4g}" for name, value in result.items())
                say(f"round {number + 1}, {', '.join(case)}, {client}: {words}")
    return found


def spread(results: list[dict[str, float]], name: str, unit: float, digits: int) -> str:
    """Return the median of the rounds, and the least and the most."""
    values = sorted(result[name] / unit for result in results)
    return f"{median(values):,.{digits}f} ({values[0]:,.{digits}f} to {values[-1]:,.{digits}f})"


def middle(results: list[dict[str, float]], name: str) -> float:
    """Return the median of the rounds."""
    return median(result[name] for result in results)


def compare_rates(cluster: Administration, arguments: argparse.Namespace) -> bool:
    """Print the rates of all records of topics; return whether the bars are held."""
    topics = {topic.name: topic for topic in TOPICS if topic.name in arguments.topics}
    names = {name: unique(name) for name in topics}
    for name, topic in topics.items():
        cluster.create_topic(names[name], topic.partitions, 1, {"compression.type": "producer"})
        write(cluster.bootstrap, topic, names[name], arguments.records)

    def measure(client: str, topic: str, way: str, loop: str) -> dict[str, float]:
        place = (cluster.bootstrap, names[topic], topics[topic].partitions, arguments.records)
        result: dict[str, float] = child(SCRIPT, "rate", loop, client, way, *place, tree=_tree(client, arguments))
        return result

    found = rounds(arguments, list(itertools.product(topics, arguments.ways, arguments.loops)), measure)
    for name in names.values():
        cluster.delete_topic(name)
    print(f"\n{arguments.records:,} records, {arguments.rounds} rounds: 1,000 records/s, medians (least to most); "
          "in brackets CPU s per million\n")  # fmt: skip
    print("| topic | read by | loop | thinconsumer | aiokafka | ratio |\n|---|---|---|---|---|---|")
    held = []
    for topic, way, loop in itertools.product(topics, arguments.ways, arguments.loops):
        both = [found.get((topic, way, loop, client), []) for client in CLIENTS]
        shown = [
            f"{spread(each, 'per_second', 1e3, 0)} [{middle(each, 'cpu_per_million'):.2f}]" if each else ""
            for each in both
        ]
        ratio = middle(both[0], "per_second") / middle(both[1], "per_second") if all(both) else 0.0
        held.append((ratio, EACH_BAR if way == EACH else BARS.get(topic, 0.0), f"{topic}, {way}, {loop}"))
        print(f"| {topics[topic].what} | {way} | {loop} | {' | '.join(shown)} | {ratio:.2f} |")
    print()
    verdicts = [verdict(ratio >= bar, f"{what}: {ratio:.2f} (at least {bar})") for ratio, bar, what in held if ratio]
    return all(verdicts)


def compare_latencies(cluster: Administration, arguments: argparse.Namespace) -> bool:
    """Print latencies of single records beside busy tasks; return whether the bars are held."""

    def measure(client: str, how: str, way: str, loop: str) -> dict[str, float]:
        topic = cluster.create_topic(unique(f"latency-{client}"), 1, 1)
        words = ("latency", loop, client, way, cluster.bootstrap, topic, arguments.single, arguments.tasks, PAUSES[how])
        with start(*words, tree=_tree(client, arguments)) as process:
            write_one_at_a_time(cluster.bootstrap, topic, process, arguments.single, 0.005)
            result: dict[str, float] = json.loads(process.communicate()[0])
        cluster.delete_topic(topic)
        return result

    found = rounds(arguments, list(itertools.product(PAUSES, arguments.ways, arguments.loops)), measure)
    print(f"\n{arguments.single} single records, {arguments.tasks} other tasks, {arguments.rounds} rounds; ms, "
          "medians (least to most)\n")  # fmt: skip
    print("| other tasks | read by | loop | client | p50 | p99 | CPU of all tasks for each record, us |")
    print("|---|---|---|---|---|---|---|")
    held = []
    for (how, way, loop, client), results in found.items():
        cells = [spread(results, "p50", 1, 2), spread(results, "p99", 1, 2), spread(results, "cpu", 1, 0)]
        print(f"| {how} | {way} | {loop} | {client} | {' | '.join(cells)} |")
        if client == OURS and (theirs := found.get((how, way, loop, THEIRS))):
            held.append((middle(results, "p99"), middle(theirs, "p99"), f"{how}, {way}, {loop}"))
    print()
    verdicts = [verdict(us <= them, f"{what}: p99 {us:.2f} ms (at most {them:.2f})") for us, them, what in held]
    return all(verdicts)


def compare_many(cluster: Administration, arguments: argparse.Namespace) -> bool:
    """Print what many consumers in one loop take. No bar."""
    topic = cluster.create_topic(unique("many"), arguments.consumers, 1)
    numbers = range(arguments.consumers)
    _write(cluster.bootstrap, topic, iter(numbers), 0.0)

    def measure(client: str, loop: str) -> dict[str, float]:
        words = ("many", loop, client, POLLS, cluster.bootstrap, topic, arguments.consumers, arguments.seconds)
        with start(*words, tree=_tree(client, arguments)) as process:
            assert process.stdout is not None and process.stdout.readline() == "\n", f"{client} failed"
            count = round((arguments.seconds + 1) * arguments.consumers)
            _write(cluster.bootstrap, topic, itertools.islice(itertools.cycle(numbers), count), 1 / arguments.consumers)
            result: dict[str, float] = json.loads(process.communicate()[0])
        return result

    found = rounds(arguments, [(loop,) for loop in arguments.loops], measure)
    cluster.delete_topic(topic)
    print(f"\n{arguments.consumers} consumers in one loop, {arguments.rounds} rounds: medians (least to most)\n")
    print("| loop | client | first record of all, s | of it CPU | idle, % of a core | with a record a second each "
          "| memory, MB | close, s |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    for (loop, client), results in found.items():
        shown = {"start_s": 2, "start_cpu_s": 2, "idle_percent": 1, "busy_percent": 1, "mb": 0, "close_s": 2}
        cells = [spread(results, name, 1, digits) for name, digits in shown.items()]
        print(f"| {loop} | {client} | {' | '.join(cells)} |")
    return True


def _write(bootstrap: str, topic: str, partitions: Iterator[int], pause: float) -> None:
    """Write a record to each of the partitions, with a pause after each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    began = time.perf_counter()
    for number, partition in enumerate(partitions):
        producer.produce(topic, b"x" * 100, partition=partition)
        producer.poll(0)
        time.sleep(max(0.0, began + number * pause - time.perf_counter()))
    producer.flush()


def start(*arguments: object, tree: str | None) -> subprocess.Popen[str]:
    """Start a reader whose output is read while it runs."""
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tree))


def _tree(client: str, arguments: argparse.Namespace) -> str | None:
    tree: str | None = arguments.tree
    return tree if client == OURS else None


PARTS = {"rate": compare_rates, "latency": compare_latencies, "many": compare_many}

if __name__ == "__main__":
    sys.exit(main())
