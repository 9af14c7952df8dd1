"""Compares Spark's own Kafka connector with thinconsumer on the same topics: ``python benchmarks/spark.py``.

Needs the PySpark version ``realkafka.jars.SPARK``, which the connector's jars fit, numpy, pyarrow and confluent-kafka.
Both sources read everything in one session, in turns, into Spark's ``noop`` sink. ``--also PYTHON`` names a Python with
a newer PySpark, on which thinconsumer alone reads the same topics. CPU seconds (Linux only) include the driver, its JVM
and its Python workers, but not the broker.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

# Imported from this folder, which is first on the path; no module here may have the name of a library.
import topics
from clusters import ROOT, broker, environment, say, unique
from floor import batch_sizes
from sparks import session

#: Wall and CPU seconds of every round, by case, mode and reader.
Results = dict[str, dict[str, dict[str, list[tuple[float, float]]]]]

#: Rounds that are not counted: Java still compiles in the second one, at the cost of the source that runs first.
WARM_UP = 2

#: For fewer records the table has seconds in place of rates: the time that a query takes whatever it reads.
RATE_MIN = 10_000

OFFICIAL, OURS = "Spark's connector", "thinconsumer"
FORMATS = {OFFICIAL: "kafka", OURS: "thinconsumer"}
#: The JSON documents of the other benchmarks, then records of random letters. Batches of 16 kB are the Java producer's
#: default. ``share`` scales ``--records`` for cases with large records.
CASES: dict[str, topics.Topic] = {
    case.name: case
    for case in (
        *(topic for topic in topics.TOPICS if topic.content == "documents"),
        topics.Topic("lz4", "100 bytes, 6 partitions, lz4", 6, "lz4", 16384, "text of 100 B"),
        topics.Topic("plain", "100 bytes, one partition, uncompressed", 1, "none", 16384, "text of 100 B"),
        topics.Topic("random", "50 to 150 bytes, 6 partitions, lz4", 6, "lz4", 16384, "text"),
        topics.Topic("1k", "1000 bytes, 6 partitions, uncompressed", 6, "none", 16384, "text of 1 kB"),
        topics.Topic("1k-lz4", "1000 bytes, 6 partitions, lz4", 6, "lz4", 16384, "text of 1 kB", share=0.3),
    )
}


@dataclasses.dataclass(frozen=True)
class Topic:
    """The topic of one case."""

    name: str
    records: int
    batch: int


@contextmanager
def session_with_readers(memory: str) -> Iterator[tuple[Any, list[str]]]:
    """Yield a session, and the sources that it can use."""
    import pyspark
    from realkafka import jars

    both = pyspark.__version__ == jars.SPARK
    with session(memory, jars.connector_jars() if both else ()) as (spark, _):
        yield spark, [OFFICIAL, OURS] if both else [OURS]


def batch(spark: Any, reader: str, options: dict[str, str], topic: Topic) -> float:
    """Read everything with ``spark.read``; return the seconds from ``load()`` to the last row."""
    started = time.perf_counter()
    frame = spark.read.format(FORMATS[reader]).options(**options).load()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def stream(spark: Any, reader: str, options: dict[str, str], topic: Topic) -> float:
    """Read everything with a new AvailableNow stream; return the seconds from ``load()`` to its end."""
    with tempfile.TemporaryDirectory(prefix="benchmark-checkpoint-") as folder:
        started = time.perf_counter()
        frame = spark.readStream.format(FORMATS[reader]).options(**options, startingOffsets="earliest").load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
    check(reader, topic, sum(progress["numInputRows"] for progress in query.recentProgress))
    return seconds


MODES: dict[str, Callable[[Any, str, dict[str, str], Topic], float]] = {"batch": batch, "AvailableNow": stream}


def check(reader: str, topic: Topic, rows: int) -> None:
    """Raise if a source read fewer or more records than the topic has."""
    if rows != topic.records:
        raise RuntimeError(f"{reader} read {rows:,} of {topic.records:,} records")


def measure(bootstrap: str, written: dict[str, Topic], arguments: argparse.Namespace) -> Results:
    """Check that each source reads all records, then measure the sources in turns."""
    results: Results = {}
    with session_with_readers(arguments.memory) as (spark, readers):
        for case, topic in written.items():
            options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic.name}
            for reader in readers:
                check(reader, topic, spark.read.format(FORMATS[reader]).options(**options).load().count())
            for number in range(-WARM_UP, arguments.rounds):
                for mode in arguments.modes:
                    for reader in readers if number % 2 else readers[::-1]:
                        before = processor_seconds()
                        seconds = MODES[mode](spark, reader, options, topic)
                        used = processor_seconds() - before
                        say(f"{case}, {mode}, round {number}: {reader} {seconds:.2f} s, CPU {used:.2f} s")
                        if number >= 0:
                            rounds = results.setdefault(case, {}).setdefault(mode, {}).setdefault(reader, [])
                            rounds.append((seconds, used))
    return results


def processor_seconds() -> float:
    """Return the CPU seconds of this process and its descendants; ended ones count with their parent."""
    found: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    if not found:
        return float("nan")
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in found.items() if parent in family} - family:
        family |= more
    return sum(found[pid][1] for pid in family)


def prepare(cluster: Any, case: topics.Topic, records: int) -> Topic:
    """Create and fill the topic of a case."""
    name, count = unique(f"spark-{case.name}"), int(records * case.share)
    cluster.create_topic(name, case.partitions, 1, {"compression.type": "producer"})
    topics.write(cluster.bootstrap, case, name, count)
    inside, _ = batch_sizes(cluster.bootstrap, name, case.partitions)
    say(f"{case.name}: {count:,} records, {inside} a batch")
    return Topic(name, count, inside)


def also(python: str, bootstrap: str, written: dict[str, Topic], arguments: argparse.Namespace) -> Results:
    """Measure with the PySpark of another Python."""
    described = json.dumps({case: dataclasses.asdict(topic) for case, topic in written.items()})
    command = [python, __file__, "--bootstrap", bootstrap, "--written", described, "--rounds", str(arguments.rounds)]
    command += ["--modes", ",".join(arguments.modes), "--memory", arguments.memory]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, timeout=900, check=True)
    found: Results = json.loads(done.stdout.splitlines()[-1])
    return found


def version(python: str) -> str:
    """Return the version of a Python's PySpark."""
    command = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def main() -> None:
    """Write the topics, run the rounds, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster of one broker (default: start one)")
    parser.add_argument("--records", type=int, default=3_000_000, help="records per case (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help=f"measured rounds, after {WARM_UP} warm-up rounds (default: %(default)s)"
    )
    names = functools.partial(str.split, sep=",")
    parser.add_argument("--cases", type=names, default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--modes", type=names, default=list(MODES), help=f"of {', '.join(MODES)}")
    parser.add_argument("--memory", default="2g", help="memory of Spark's JVM (default: %(default)s)")
    parser.add_argument("--also", help="a Python with a newer PySpark")
    parser.add_argument("--written", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "results" / f"spark-{int(time.time())}.json")
    arguments = parser.parse_args()
    if unknown := {*arguments.cases, *arguments.modes} - {*CASES, *MODES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if arguments.written:  # the run with the other Python
        written = {case: Topic(**topic) for case, topic in arguments.written.items()}
        print(json.dumps(measure(arguments.bootstrap, written, arguments)))
        return
    with broker(arguments.bootstrap) as cluster:
        written = {case: prepare(cluster, CASES[case], arguments.records) for case in arguments.cases}
        found = {version(sys.executable): measure(cluster.bootstrap, written, arguments)}
        if arguments.also:
            found[version(arguments.also)] = also(arguments.also, cluster.bootstrap, written, arguments)
    print(report(found, written, arguments))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    described = {case: dataclasses.asdict(topic) for case, topic in written.items()}
    arguments.json.write_text(json.dumps({"topics": described, "seconds": found}, indent=1), encoding="utf-8")
    say(f"all figures: {arguments.json}")


def report(found: dict[str, Results], written: dict[str, Topic], arguments: argparse.Namespace) -> str:
    """Return the tables as Markdown."""
    machine = f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}"
    lines = [
        f"{arguments.rounds} rounds after {WARM_UP} warm-up rounds, local[2], {machine}.",
        "Medians of 1,000 rows/s (lowest to highest) and of CPU seconds per million rows; ratios are of medians.",
        f"With fewer than {RATE_MIN:,} records: medians of seconds, and of CPU seconds.",
    ]
    for pyspark, results in found.items():
        readers = list(next(iter(next(iter(results.values())).values())))
        ordered = [reader for reader in FORMATS if reader in readers]
        ratio = " ratio | CPU ratio |" if OFFICIAL in readers else ""
        lines += ["", f"PySpark {pyspark}:", "", f"| | | {' | '.join(ordered)} |{ratio}"]
        lines += ["|---" * (2 + len(ordered) + 2 * bool(ratio)) + "|"]
        for case, modes in results.items():
            for mode, rounds in modes.items():
                cells = [f"{written[case].records:,} of {CASES[case].what}, {written[case].batch} a batch", mode]
                cells += [spread(written[case], rounds[reader]) for reader in ordered]
                if ratio:
                    pairs = zip(zip(*rounds[OFFICIAL]), zip(*rounds[OURS]))
                    cells += [f"{median(theirs) / median(ours):.2f}" for theirs, ours in pairs]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(topic: Topic, rounds: list[tuple[float, float]]) -> str:
    """Return the table cell of one source."""
    if topic.records < RATE_MIN:
        walls, cpus = zip(*rounds)
        return f"{median(walls):.2f} s ({min(walls):.2f} to {max(walls):.2f}), CPU {median(cpus):.2f} s"
    rates = [topic.records / wall / 1000 for wall, _ in rounds]
    used = median(cpu for _, cpu in rounds) / topic.records * 1e6
    return f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}), CPU {used:.2f} s"


if __name__ == "__main__":
    main()
