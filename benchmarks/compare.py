"""Read the same topics with every client in turns, and print a table: ``python benchmarks/compare.py``.

Figures of different machines, or of one machine at different times, say nothing. So all readers run in one go, each in
a fresh process, one after the other, and that several times over; ratios are of medians.

``--pages`` measures what the pages show and writes ``benchmarks/figures.json``, from which
``python benchmarks/pages.py`` makes their figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from clusters import ROOT, broker, child, rotated, say, unique
from floor import batch_sizes
from pages import FIGURES, FLOOR, RAW, READERS_SHOWN
from readers import EVERY_FIELD, MAX_RECORDS, READERS
from realkafka import CURRENT
from topics import TEXTS, TOPICS, Topic, write

JAVA = "java"
#: The topics that are read for the figures of the pages (``--pages``).
TOPICS_SHOWN = ("documents", "documents-lz4", "documents-zstd", "headers", "large", "six", "one", "plain", "lz4")
OURS = "thinconsumer"
Result = dict[str, float]


def main() -> None:
    """Write the topics, run the rounds, print and store what came out."""
    arguments = parse()
    topics = [topic for topic in (*TOPICS, *TEXTS) if topic.name in arguments.topics]
    results: dict[str, dict[str, list[Result]]] = {topic.name: {} for topic in topics}
    shapes = {}
    load = os.getloadavg()[0]
    with broker(arguments.bootstrap) as cluster:
        names = {topic.name: unique(topic.name) for topic in topics}
        for topic in topics:
            name = names[topic.name]
            cluster.create_topic(name, topic.partitions, 1, {"compression.type": "producer"})
            count = count_of(topic, arguments)
            say(f"writing {count:,} records: {topic.what}")
            write(cluster.bootstrap, topic, name, count)
            shapes[topic.name] = check_batches(topic, *batch_sizes(cluster.bootstrap, name, topic.partitions))
        for number in range(arguments.rounds):
            for topic in topics:
                for reader in rotated(arguments.readers, number):
                    result = run(reader, cluster, names[topic.name], topic.partitions, count_of(topic, arguments))
                    results[topic.name].setdefault(reader, []).append(result)
                    say(f"round {number + 1}, {topic.name}, {reader}: {result['per_second'] / 1e3:,.0f} krec/s")
                check_bytes(topic, results[topic.name])
        for name in names.values():
            cluster.delete_topic(name)
    print(report(topics, results, shapes, arguments))
    store(arguments, topics, results, shapes, load)


def parse() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster of one broker; without it one is started")
    parser.add_argument("--records", type=int, help="per topic (default: 2,000,000; with --pages 600,000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", action="store_true", help=f"write {FIGURES.relative_to(ROOT)}")
    every = [*READERS, JAVA]
    parser.add_argument("--readers", type=lambda text: text.split(","), help=f"of {', '.join(every)}")
    names = [topic.name for topic in TOPICS]
    texts = [topic.name for topic in TEXTS]
    parser.add_argument("--topics", type=lambda text: text.split(","), help=f"of {', '.join([*names, *texts])}")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.records = arguments.records or (600_000 if arguments.pages else 2_000_000)
    arguments.readers = arguments.readers or (list(READERS_SHOWN) if arguments.pages else every)
    arguments.topics = arguments.topics or (TOPICS_SHOWN if arguments.pages else names)
    results = ROOT / "benchmarks" / "results" / f"{int(time.time())}.json"
    arguments.json = arguments.json or (FIGURES if arguments.pages else results)
    if unknown := {*arguments.readers, *arguments.topics} - {*every, *names, *texts}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return arguments


def count_of(topic: Topic, arguments: argparse.Namespace) -> int:
    """Return how many records a topic has.

    With a rest that fills no call, confluent-kafka's ``consume`` would wait for its timeout at the end.
    """
    return max(1, round(arguments.records * topic.share / MAX_RECORDS)) * MAX_RECORDS


def check_bytes(topic: Topic, results: dict[str, list[Result]]) -> None:
    """Complain if two readers that read the same fields have not read the same number of bytes."""
    for every_field in (False, True):
        read = {
            reader: rounds[-1]["bytes"]
            for reader, rounds in results.items()
            if reader not in (JAVA, RAW, FLOOR) and reader.endswith(EVERY_FIELD) == every_field
        }
        if len(set(read.values())) > 1:
            raise RuntimeError(f"not all have read the same of {topic.name}: {read}")


def check_batches(topic: Topic, records: int, size: int) -> dict[str, int]:
    """Return a topic's median batch, and complain if it is not what the table claims."""
    if topic.batch_records is not None and records != topic.batch_records:
        say(f"NOT AS STATED: batches of {topic.name} have {records} records, not {topic.batch_records}")
    if topic.batch_records is None and not 0.7 * topic.batch_bytes <= size <= 1.1 * topic.batch_bytes:
        say(f"NOT AS STATED: batches of {topic.name} have {size} bytes, not {topic.batch_bytes}")
    return {"batch_records": records, "batch_bytes": size}


def run(reader: str, cluster: Any, topic: str, partitions: int, count: int) -> Result:
    """Run one reader to the end of the topic in a process of its own."""
    if reader == JAVA:
        return run_java(cluster, topic, count)
    result: Result = child("readers.py", reader, cluster.bootstrap, topic, partitions, count)
    if result["records"] != count:
        say(f"{reader} read {result['records']} of {count} records")
    return result


def run_java(cluster: Any, topic: str, count: int) -> Result:
    """Run Kafka's own ConsumerPerformance; its CPU includes Java's start, and it joins a group first."""
    before = os.times()
    tool = "org.apache.kafka.tools.ConsumerPerformance"
    printed = cluster.java_tool(tool, "--topic", topic, "--num-records", str(count), "--timeout", "60000", seconds=300)
    after = os.times()
    cells = [cell.strip() for cell in printed.strip().splitlines()[-1].split(",")]
    megabytes, records, whole, fetching = (float(cells[at]) for at in (2, 4, 5, 9))
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "records": int(records),
        "bytes": megabytes * (1 << 20),
        "per_second": fetching,
        "per_second_whole": whole,
        "cpu_per_million": cpu / records * 1e6,
        "peak_mb": float("nan"),
    }


def report(topics: list[Topic], results: dict[str, dict[str, list[Result]]], shapes: Any, arguments: Any) -> str:
    """Return the tables as Markdown."""
    lines = [
        f"{arguments.records:,} records, {arguments.rounds} rounds, {os.cpu_count()} cores, {platform.platform()},",
        f"{', '.join(f'{name} {version}' for name, version in versions().items())}.",
        "Medians (minimum to maximum). *rate*: from the first records handed over; *whole*: connecting included.",
    ]
    for topic in topics:
        shape = shapes[topic.name]
        lines += [
            "",
            f"**{topic.name}**: {topic.what} (on the log: {shape['batch_records']} records a batch)",
            "",
            "| reader | rate, krec/s | whole, krec/s | CPU s per M records | peak MB | ours is |",
            "|---|---|---|---|---|---|",
        ]
        found = results[topic.name]
        for reader, rounds in found.items():
            ours = found.get(f"{OURS}{EVERY_FIELD}" if reader.endswith(EVERY_FIELD) else OURS)
            lines.append(row(reader, rounds, None if ours is None else median(each["per_second"] for each in ours)))
    return "\n".join(lines)


def row(reader: str, rounds: list[Result], ours: float | None) -> str:
    """Return one line of the table."""

    def spread(name: str, unit: float, digits: int) -> str:
        values = [each[name] / unit for each in rounds]
        return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"

    rate = median(each["per_second"] for each in rounds)
    peak = median(each["peak_mb"] for each in rounds)
    cells = [
        reader,
        spread("per_second", 1e3, 0),
        spread("per_second_whole", 1e3, 0),
        spread("cpu_per_million", 1, 2),
        "-" if peak != peak else f"{peak:.0f}",
        "-" if ours is None or reader.removesuffix(EVERY_FIELD) == OURS else f"{ours / rate:.2f}x",
    ]
    return f"| {' | '.join(cells)} |"


def versions() -> dict[str, str]:
    """Return which clients are compared, and what they run on."""
    import thinconsumer

    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    found = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    names = ("kafka-python", "aiokafka", "confluent-kafka", "numpy", "pyarrow")
    ours = {"thinconsumer": f"{thinconsumer.__version__} ({found})" if found else thinconsumer.__version__}
    return {"Python": platform.python_version(), **ours, **{name: metadata.version(name) for name in names}}


def machine() -> str:
    """Return what the readers and the broker share."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    return f"{os.cpu_count()} cores ({model}), {platform.system()}"


def store(arguments: argparse.Namespace, topics: list[Topic], results: Any, shapes: Any, load: float) -> None:
    """Write everything that was measured, and on what, as JSON with one line for each run of a reader."""
    what = {
        "command": " ".join(["python benchmarks/compare.py", *sys.argv[1:]]),
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "machine": machine(),
        "load_before": round(load, 2),
        "kafka": "given" if arguments.bootstrap else CURRENT,
        "versions": versions(),
        "records": arguments.records,
        "rounds": arguments.rounds,
        "topics": {
            topic.name: {"what": topic.what, "content": topic.content, **shapes[topic.name]} for topic in topics
        },
    }
    runs = ",\n".join(
        f" {json.dumps(topic)}: {{\n" + ",\n".join(_lines(reader, rounds) for reader, rounds in found.items()) + "\n }"
        for topic, found in results.items()
    )
    text = json.dumps(what, indent=1).removesuffix("\n}")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(f'{text},\n "results": {{\n{runs}\n }}\n}}\n', encoding="utf-8")
    say(f"all figures: {arguments.json}")


def _lines(reader: str, rounds: list[Result]) -> str:
    """Return a reader's runs, one a line; more than five digits of a measurement say nothing."""
    runs = [
        {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in run.items()}
        for run in rounds
    ]
    return f"  {json.dumps(reader)}: [\n" + ",\n".join(f"   {json.dumps(run)}" for run in runs) + "\n  ]"


if __name__ == "__main__":
    main()
