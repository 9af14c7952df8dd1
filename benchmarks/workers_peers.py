"""Workers beside parallel-consumer (Java) and prosody-events: ``python benchmarks/workers_peers.py``, seven minutes.

The same records, handlers, concurrency and commits (one a second), each program in a fresh process:

* **wait**: handlers that wait 10 ms, 1,000 at a time: tasks here, threads in Java; in order by key, and in no order.
* **compute**: handlers that compute for 1 ms of CPU time: eight processes here, eight threads in Java.
* **stuck**: for 20 s one record does not end, and holds back its key: the first record of a partition, or one that has
  one percent of the partition's records. How far do the others go on, and how large are the commit's metadata?
* **kills**: with such a record, the program is killed (SIGKILL) and started again: how many records does it repeat?

Rates and CPU time count from a fifth of the records on, and CPU time has all threads and worker processes.
prosody-events takes part if it is installed, and the environment variable PROSODY_CASSANDRA_NODES names its Cassandra.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from clusters import BENCHMARKS, broker, environment, memory_mb, say, unique
from realkafka.jars import java, parallel_consumer_class_path
from realkafka.processes import LAUNCHER
from realkafka.processes import run as run_java
from realkafka.produce import New, with_confluent

from thinconsumer import TopicPartition
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.sockets.secured import open_driver
from thinconsumer.workers.foreign_maps import decode_any

PARTITIONS, KEYS = 6, 20_000
STUCK_S = 20.0
TICKS = os.sysconf("SC_CLK_TCK")
PEERS = ("thinconsumer", "parallel-consumer", "prosody")


def main() -> int:
    """Run what was asked for, and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a cluster; without it a broker is started")
    parser.add_argument("--records", type=int, default=200_000, help="of wait; other parts have a share of it")
    parser.add_argument("--rounds", type=int, default=3, help="of wait and compute")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["wait", "compute", "stuck", "kills"])
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS))
    arguments = parser.parse_args()
    has_prosody = importlib.util.find_spec("prosody") and os.environ.get("PROSODY_CASSANDRA_NODES")
    peers = [each for each in arguments.peers if each != "prosody" or has_prosody]
    with broker(arguments.bootstrap) as cluster, tempfile.TemporaryDirectory() as folder:
        place = Place(cluster, Path(folder))
        if "parallel-consumer" in peers:
            jars = os.pathsep.join(map(str, Path(parallel_consumer_class_path()).parent.glob("*.jar")))
            source = str(BENCHMARKS / "WorkersProgram.java")
            run_java(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars, "-d", folder, source], 120)
        if {"wait", "compute"} & {*arguments.parts}:
            _rates(place, peers, arguments)
        if "stuck" in arguments.parts:
            _stuck(place, peers, arguments.records * 2)
        if "kills" in arguments.parts:
            _kills(place, peers, arguments.records * 3 // 10, arguments.kills)
    return 0


class Place(NamedTuple):
    """Where programs run."""

    cluster: Any
    folder: Path

    def topic(self, name: str, count: int, stuck: range) -> str:
        """Write records; those of the numbers ``stuck`` have a key of their own, and are in the partition 0."""
        topic = unique(name)
        self.cluster.create_topic(topic, PARTITIONS, 1)
        records = (
            New(b'{"id": %d, "customer": "%d", "paid": 12.5, "note": "as ordered"}' % (n, key),
                b"stuck" if n in stuck else b"customer-%011d" % key, partition=key % PARTITIONS)
            for n, key in ((n, n * 7_919 % KEYS if n not in stuck else 0) for n in range(count))
        )  # fmt: skip
        with_confluent(self.cluster.bootstrap, topic, records)
        return topic


class Program:
    """One program, with what it has said of its progress."""

    def __init__(self, peer: str, place: Place, *words: object) -> None:
        self.log = place.folder / "log"
        command = [sys.executable, str(BENCHMARKS / "workers_programs.py"), peer]
        if peer == "parallel-consumer":
            classes = os.pathsep.join([parallel_consumer_class_path(), str(place.folder)])
            command = [java(), "-Xmx1g", "-cp", classes, "WorkersProgram"]
        command = [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), *command, place.cluster.bootstrap]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *map(str, words)], stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )

    def lines(self) -> Iterator[int]:
        """Yield how many records are done. Raises: RuntimeError, if the program has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield int(line)
        raise RuntimeError(f"the program has ended: {self.log.read_text(errors='replace')[-3000:]}")

    def _tree(self) -> list[int]:
        found = [self._process.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, children.read_text().split())
        return found

    def cpu_s(self) -> float:
        """Return the CPU time of the program and its processes."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._tree()]
        return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS

    def memory_mb(self) -> float:
        """Return the sum of the peaks of the program and its processes."""
        return sum(memory_mb("VmHWM", pid) for pid in self._tree())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(peer: str, place: Place, *words: object) -> Iterator[Program]:
    """Run a program in a group of its own, unless the second word names one, for the time of a block."""
    program = Program(peer, place, *words)
    try:
        yield program
    finally:
        program.kill()


# -- rates


class Rate(NamedTuple):
    """The figures of one run: records a second, CPU time for each record in microseconds, memory."""

    per_second: float
    cpu_us: float
    memory_mb: float


def _rates(place: Place, peers: list[str], arguments: argparse.Namespace) -> None:
    topic = place.topic("even", arguments.records, range(0))
    runs = {("wait", "key"): (1_000, arguments.records), ("wait", "none"): (1_000, arguments.records)}
    runs["compute", "key"] = (8, arguments.records // 20)
    found: dict[tuple[str, ...], list[Rate]] = {}
    for number, ((handler, order), (concurrency, count)) in itertools.product(range(arguments.rounds), runs.items()):
        if handler in arguments.parts:
            for peer in peers:
                if peer == "prosody" and order == "none":
                    continue
                group = f"{topic}-{number}-{handler}-{order}-{peer}"
                words = (topic, group, order, concurrency, handler, max(1, count // 100), "")
                with running(peer, place, *words) as program:
                    rate = _rate(program, count)
                found.setdefault((handler, order, peer), []).append(rate)
                say(f"round {number + 1}, {handler}, {order}, {peer}: {rate.per_second:,.0f} records/s")
    print("| handlers | order | with | records/s, median (least to most) | CPU us per record | peak memory, MB |")
    print("|---|---|---|---|---|---|")
    for words, results in found.items():
        rates, cpu, memory = zip(*results)
        middle = f"{median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        print(f"| {' | '.join(words)} | {middle} | {median(cpu):,.0f} | {median(memory):,.0f} |")
    print(flush=True)


def _rate(program: Program, count: int) -> Rate:
    first, began, cpu = 0, 0.0, 0.0
    for done in program.lines():
        if not first and done >= count // 5:
            first, began, cpu = done, time.perf_counter(), program.cpu_s()
        elif done >= count * 99 // 100:  # at the very end, few are left to run beside one another
            seconds, cpu = time.perf_counter() - began, program.cpu_s() - cpu
            return Rate((done - first) / seconds, 1e6 * cpu / (done - first), program.memory_mb())
    raise AssertionError


# -- a record that is stuck


def _stuck(place: Place, peers: list[str], count: int) -> None:
    print(
        "| stuck | with | records in 20 s | of its partition | metadata, characters | unfinished named | memory, MB |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    # The numbers that are multiples of 6 are those of the partition 0, as customers are.
    for words, stuck in (("one record", range(1)), ("1 % of a partition", range(0, count, 100 * PARTITIONS))):
        topic = place.topic("stuck", count, stuck)
        for peer in peers:
            group = f"{topic}-{peer}"
            with running(peer, place, topic, group, "key", 100, "stick", 100, diary := place.folder / group) as program:
                lines = program.lines()
                next(lines)
                done, until = 0, time.monotonic() + STUCK_S
                while time.monotonic() < until:  # a program that has nothing more to do says nothing
                    time.sleep(0.5)
                places = diary.read_text().splitlines()
                done, ours = len(places), sum(each.startswith("0 ") for each in places)
                print(f"| {words} | {peer} | {done:,} of {count:,} | {ours:,} | {_metadata(place, topic, group)} "
                      f"| {program.memory_mb():,.0f} |", flush=True)  # fmt: skip
    print()


def _metadata(place: Place, topic: str, group: str) -> str:
    """Return the length of what was committed for the partition 0, and how many unfinished records it names."""
    options = ClientOptions.from_options(bootstrap_servers=place.cluster.bootstrap)
    with Admin(options, driver=open_driver(options)) as admin:
        topic_id = admin.describe_topics([topic])[topic].topic_id
        committed: Any = admin.list_group_offsets([group])[group]
    offset, metadata, *_ = committed.get(TopicPartition(topic, 0)) or (0, "")
    if not metadata:
        return "0 | none"
    named = decode_any(metadata, offset, topic_id)
    return f"{len(metadata):,} | {0 if named is None else len(named.unfinished):,}"


# -- kills


def _kills(place: Place, peers: list[str], count: int, kills: int) -> None:
    topic = place.topic("kills", count, range(1))
    print(
        f"| {count:,} records, {kills} kills, with | processed again | lost | seconds |\n|---|---|---|---|", flush=True
    )
    for peer in peers:
        group = f"{topic}-{peer}"
        diary = place.folder / group
        began = time.monotonic()
        for number in range(kills + 1):
            handler = "stick" if number < kills else "wait"
            with running(peer, place, topic, group, "key", 100, handler, 100, diary):
                enough = count * (number + 1) // (kills + 1)
                until = time.monotonic() + 120
                while len(seen := _seen(diary)) < enough and time.monotonic() < until:
                    time.sleep(0.05)
        again = seen.total() - len(seen)
        print(f"| {peer} | {again:,} | {count - len(seen):,} | {time.monotonic() - began:.0f} |", flush=True)
    print()


def _seen(diary: Path) -> Counter[str]:
    # The last line may be half written.
    return Counter(diary.read_text().rpartition("\n")[0].splitlines()) if diary.exists() else Counter()


if __name__ == "__main__":
    sys.exit(main())
