"""Every record is written once although Spark's driver, workers and source process are killed at random.

The job is ``followed.py``. Three kills on the embedded broker; with ``--soak`` twenty, on real Kafka. The seed of times
and victims is printed; THINCONSUMER_SEED repeats it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from thinconsumer import Consumer, TopicPartition

PROGRAM = Path(__file__).with_name("followed.py")
PARTITIONS = 2
PATIENCE_S = 240.0
#: A driver that is killed soon starts faster without the optimising compiler.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")


class Job:
    """One run of the program, with all processes that it started."""

    def __init__(self, servers: str, topic: str, folder: Path, master: str) -> None:
        self._how = servers, topic, folder, master
        self.output = folder / "output.txt"
        self.mark = self.output.stat().st_size if self.output.exists() else 0
        with self.output.open("ab") as output:
            self.child = subprocess.Popen(
                [sys.executable, str(PROGRAM), servers, topic, str(folder), master],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    "JDK_JAVA_OPTIONS": QUICK,
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONFAULTHANDLER": "1",
                },
            )
        self.seen: set[tuple[tuple[int, str], str]] = set()

    def again(self) -> Job:
        return Job(*self._how)

    def said(self, words: str) -> bool:
        return words.encode() in self.output.read_bytes()[self.mark :]

    def wait_for(self, words: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not self.said(words):
            if self.child.poll() is not None or time.monotonic() > until:
                printed = self.output.read_text()[self.mark :][-4000:]
                raise AssertionError(f"did not say {words!r}: {printed}\n\nwhere it is:\n{self.stacks()}")
            time.sleep(0.05)

    def stacks(self) -> str:
        """Return what the threads of the queries and of Python's processes are doing; ends the latter."""
        mark = self.output.stat().st_size
        for (pid, _), command in descendants(self.child.pid).items():
            with contextlib.suppress(ProcessLookupError):
                # A JVM prints its threads, a Python process that dies of this signal does, too.
                os.kill(pid, signal.SIGQUIT if "/java " in command else signal.SIGABRT)
        # Not by its id: if it has ended, another process may have that now.
        self.child.send_signal(signal.SIGABRT)
        time.sleep(3)
        threads = self.output.read_text(errors="replace")[mark:].split("\n\n")
        found = ["\n".join(one.splitlines()[:8]) for one in threads if "stream execution" in one or "File " in one]
        return "\n\n".join(dict.fromkeys(found))

    def kill(self, victim: str) -> bool:
        processes = descendants(self.child.pid)
        self.seen |= processes.items()
        if victim == "driver":
            found = [self.child.pid, *(pid for (pid, _), command in processes.items() if "/java " in command)]
        else:
            words = "python_streaming_source_runner" if victim == "source" else "pyspark.daemon pyspark.worker"
            of_kind = [(int(started), pid) for (pid, started), command in processes.items() if words in command]
            # The oldest one is the daemon itself. It need not have the lowest id, since ids begin anew after some time.
            # Without its daemon, Spark uses the workers that it has, which are found no longer, and starts no others.
            found = [pid for _, pid in sorted(of_kind)[victim == "worker" :][-1:]]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    def finish(self) -> None:
        """Close standard input, and wait until everything is read."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.wait_for("done")

    def end(self) -> None:
        """Kill the program; its other processes must end by themselves within a minute, also on a busy machine."""
        self.seen |= descendants(self.child.pid).items()
        self.child.kill()
        self.child.communicate()
        until = time.monotonic() + 60
        while (left := self.seen & running().items()) and time.monotonic() < until:
            time.sleep(0.05)
        for (pid, _), _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not left, f"processes left running: {left}"


def running() -> dict[tuple[int, str], str]:
    """Return the command of every process, by process id and start time, since ids are reused."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                started = (entry / "stat").read_text().rpartition(")")[2].split()[19]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if command:
                    found[int(entry.name), started] = command
    return found


def descendants(root: int) -> dict[tuple[int, str], str]:
    """Return the running processes that descend from ``root``."""
    parents = {}
    everything = running()
    for pid, _ in everything:
        with contextlib.suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    below, level = set(), {root}
    while level:
        below |= level
        level = {pid for pid, parent in parents.items() if parent in level}
    return {key: command for key, command in everything.items() if key[0] in below - {root}}


@contextlib.contextmanager
def steady(produce) -> Iterator[None]:
    """Produce ten records ten times a second, to the partitions in turn."""
    enough = threading.Event()

    def run() -> None:
        number = 0
        while not enough.wait(0.1):
            produce([b"%d" % n for n in range(number, number + 10)], number // 10 % PARTITIONS)
            number += 10

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def survive(job: Job, kills: int, rng: random.Random) -> Job:
    """Kill processes of the job at random times; return the surviving run."""
    # Every kind of process is killed; only the order is random.
    victims = [("driver", "worker", "source")[n % 3] for n in range(kills)]
    rng.shuffle(victims)
    job.wait_for("running")
    for victim in victims:
        # Some kills hit the start of the job, most of them its reading.
        starting = rng.random() < 0.3
        if not starting:
            job.wait_for("read")
        moment = rng.uniform(0, 2)
        time.sleep(moment)
        until = time.monotonic() + PATIENCE_S
        while not job.kill(victim):
            assert job.child.poll() is None, job.output.read_text()[-4000:]
            assert time.monotonic() < until, f"there is no {victim}: {job.stacks()}"
            time.sleep(0.1)
        job.mark = job.output.stat().st_size
        print(f"killed the {victim} {moment:.2f} s after it was {'running' if starting else 'reading'}")
        if victim == "driver":
            job.end()
            job = job.again()
            job.wait_for("running")
    return job


def records_of(servers: str, topic: str) -> Counter:
    """Return every record of the topic, as (partition, offset, value)."""
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        return Counter((r.partition, r.offset, r.value.decode()) for r in consumer.read_to_end(60_000))


def rows_of(session, *folders: Path) -> Counter:
    """Return every row in Spark's files; Spark reads only the files that its sink has committed."""
    rows = session.read.parquet(*map(str, folders)).collect()
    return Counter((row["partition"], row["offset"], row["value"]) for row in rows)


@pytest.fixture
def produced(request, broker):
    """Return servers, a topic, and a context manager that writes to it."""
    topic = f"crashes-{os.getpid()}"
    if not request.config.getoption("--soak"):
        broker.create_topic(topic, PARTITIONS)
        return broker.bootstrap_servers, topic, steady(lambda values, number: broker.produce(topic, values, number))
    from realkafka.produce import SteadyProducer

    cluster = request.getfixturevalue("kafka")
    cluster.create_topic(topic, PARTITIONS)
    return cluster.bootstrap, topic, SteadyProducer(cluster.bootstrap, topic, PARTITIONS, records_per_second=100)


@pytest.mark.soak(1200)
@pytest.mark.timeout(3600)
def test_every_record_is_written_once_despite_kills(request, spark, produced, tmp_path):
    seed = int(os.environ.get("THINCONSUMER_SEED", random.randrange(2**32)))
    print(f"THINCONSUMER_SEED={seed}")
    servers, topic, producing = produced
    job = Job(servers, topic, tmp_path, "local[2,4]")
    try:
        with producing:
            job = survive(job, 20 if request.config.getoption("--soak") else 3, random.Random(seed))
        job.finish()
    finally:
        job.end()
    expected = records_of(servers, topic)
    assert expected.total() > 0
    for folders in ([tmp_path / "files"], sorted((tmp_path / "batches").iterdir())):
        found = rows_of(spark, *folders)
        assert (expected - found, found - expected) == (Counter(), Counter()), "(missing, too many)"
