"""Workers on real clusters: the program, its worker processes and brokers are killed; the handlers' diary is judged.

And other clients beside the commits of workers, which have a map of finished records in their metadata.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from groups.crew import MEMBERS
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from proving.tools import kafka_tools
from realkafka import Administration, KafkaCluster
from realkafka.admin import wait_for
from realkafka.jars import NoJars
from realkafka.processes import LAUNCHER
from realkafka.produce import New, with_confluent

import thinconsumer
from thinconsumer import Consumer, TopicPartition
from thinconsumer.admin import Admin, ClientOptions
from thinconsumer.cli import main
from thinconsumer.sockets.secured import open_driver
from thinconsumer.types import OffsetAndMetadata
from thinconsumer.workers import HandlerFailedError, Workers, WorkerSettings
from thinconsumer.workers.offset_map import decode

PARTITIONS, KEYS = 4, 200
COMMIT_MS = 100
CONSOLE = "consumer.ConsoleConsumer"
Record = tuple[int, int]  #: Partition and offset.


class Judge:
    """Follows the diary, line after line, and what commits have named as finished meanwhile."""

    def __init__(self, diary: Path) -> None:
        self._diary = diary
        self._read = 0
        self._commits: dict[int, int] = {}  #: By partition: the last committed offset that was seen.
        self._busy: dict[str, tuple[int, bool]] = {}  #: By key: the last offset that was begun, and whether it ended.
        self._incarnation = 0
        self.assigned = 0  #: The last incarnation that has had partitions assigned.
        self.named: set[Record] = set()  #: The records that commits have named as finished.
        self.named_before: frozenset[Record] = frozenset()  #: The same, when the present incarnation was started.
        self.finished: set[Record] = set()
        self.repeated = 0  #: Records that had ended, and were begun again.
        self.lost = 0  #: How often partitions were lost.
        self.behind = 0  #: Records that maps have named, behind committed offsets.

    def begin(self, incarnation: int) -> None:
        """Begin with another incarnation: keys start anew, and it must not repeat what is named by now."""
        self.follow()
        self._incarnation, self._busy, self.named_before = incarnation, {}, frozenset(self.named)

    def follow(self) -> int:
        """Read on; return how many records have been finished."""
        with self._diary.open("rb") as file:
            file.seek(self._read)
            written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            incarnation, what, *words = line.split()
            if what in ("begin", "end"):
                self._take(int(incarnation), what, int(words[0]), int(words[1]), words[2])
            elif what == "assigned":
                self.assigned = int(incarnation)
            elif what == "lost":
                self.lost += 1
                self._busy.clear()  # handlers of before may go on beside those of the next assignment
        return len(self.finished)

    def _take(self, incarnation: int, what: str, partition: int, offset: int, key: str) -> None:
        record = (partition, offset)
        if what == "begin":
            self.repeated += record in self.finished
        else:
            self.finished.add(record)
        if incarnation != self._incarnation:
            return  # a worker process whose parent was killed ends with the record that it has
        if what == "end":
            assert self.lost or self._busy.get(key) == (offset, False), f"{key} at end of {record}"
            self._busy[key] = (offset, True)
            return
        assert record not in self.named_before, f"{record} was given again, though a commit had named it as finished"
        before, has_ended = self._busy.get(key, (-1, True))
        # A worker process that is killed has not told that it had ended with its record, or had not ended.
        assert offset == before or (offset > before and has_ended), f"{key}: {offset} begun after {before, has_ended}"
        self._busy[key] = (offset, False)

    def committed(self, offsets: dict[TopicPartition, OffsetAndMetadata], topic_id: bytes) -> None:
        """Take commits that the group has now: they name only what was finished."""
        self.follow()
        for tp, (offset, metadata, *_) in offsets.items():
            named = set(range(self._commits.get(tp.partition, 0), offset))
            if metadata:
                found = decode(metadata, offset, topic_id)
                behind = set(range(offset + 1, found.end)) - set(found.unfinished)
                self.behind += len(behind)
                named |= behind
            self._commits[tp.partition] = offset
            self.named.update((tp.partition, each) for each in named)
        assert self.named <= self.finished, f"named, but not finished: {sorted(self.named - self.finished)[:20]}"


class Program:
    """Incarnations of the program, one after the other. As a static member each has its partitions at once."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self.topic, self.group = topic, f"workers-{topic}"
        self.diary, self.log = folder / "diary", folder / "log"
        self.diary.touch()
        self.incarnation = 0
        self._servers = servers
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.incarnation += 1
        options = {
            "bootstrap_servers": self._servers, "group_id": self.group, "group_instance_id": "one",
            "session_timeout_ms": 30_000,
        }  # fmt: skip
        settings = {"pool": "processes", "concurrency": 4, "commit_interval_ms": COMMIT_MS, "attempts": None}
        told = {
            "incarnation": self.incarnation, "diary": str(self.diary), "topic": self.topic, "options": options,
            "settings": settings,
        }  # fmt: skip
        command = [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), sys.executable, str(MEMBERS / "workers.py")]
        environment = {**os.environ, "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1])}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, json.dumps(told)], stdout=output, stderr=output, env=environment
            )

    def check(self) -> None:
        assert self._process is not None and self._process.poll() is None, self.words()

    def words(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def workers(self) -> list[int]:
        """Return the process ids of the worker processes."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [int(each) for each in children if b"spawn_main" in _command(int(each))]

    def kill(self) -> None:
        """SIGKILL to the program; its worker processes must end by themselves."""
        assert self._process is not None
        workers = self.workers()
        self._process.kill()
        self._process.wait()
        wait_for(lambda: not any(b"spawn_main" in _command(each) for each in workers), 10, "the end of its workers")

    def end(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) == 0, self.words()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def administration(servers: str) -> Iterator[Admin]:
    options = ClientOptions.from_options(bootstrap_servers=servers)
    with Admin(options, driver=open_driver(options)) as admin:
        yield admin


def look(judge: Judge, servers: str, topic: str, group: str) -> None:
    """Let the judge see the group's commits."""
    with administration(servers) as admin:
        topic_id = admin.describe_topics([topic])[topic].topic_id
        offsets: Any = admin.list_group_offsets([group])[group]
    judge.committed(offsets, topic_id)


def keyed(count: int) -> Iterator[New]:
    for number in range(count):
        key = number * 7919 % KEYS
        yield New(b"%d" % number, b"k%d" % key, partition=key % PARTITIONS)


def plan(kills: int) -> list[str]:
    """Return what is killed, in a random order that is always the same."""
    kinds = [*itertools.islice(itertools.cycle(["program", "worker", "program", "worker", "broker"]), kills)]
    random.Random(7).shuffle(kinds)
    return kinds


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kills" in metafunc.fixturenames:
        long = metafunc.config.getoption("--soak")
        metafunc.parametrize(("count", "kills"), [(200_000, 50) if long else (8_000, 6)])


@pytest.mark.skipif(sys.platform != "linux", reason="finds worker processes in /proc")
@pytest.mark.timeout(3600)
def test_kills_lose_no_record_and_repeat_none_that_a_commit_has_named(
    kafka3: KafkaCluster, new_topic: Callable[..., str], tmp_path: Path, count: int, kills: int, record_property: Any
) -> None:
    """Keys stay in order in each incarnation of the program, and its worker processes end with it."""
    topic = new_topic(kafka3, PARTITIONS, 3)
    with_confluent(kafka3.bootstrap, topic, keyed(count))
    rng, began = random.Random(1), time.monotonic()
    with Program(kafka3.bootstrap, topic, tmp_path) as program:
        judge = Judge(program.diary)

        def wait_until(finished: int) -> None:
            def is_there() -> bool:
                program.check()
                return judge.follow() >= finished

            wait_for(is_there, 120, f"{finished} of {count} records, after {program.words()}")

        judge.begin(1)
        program.start()
        for number, what in enumerate(plan(kills), 1):
            wait_until(count * number // (kills + 1))
            if what == "worker":
                os.kill(rng.choice(wait_for(program.workers, 30, "worker processes")), signal.SIGKILL)
            elif what == "broker":
                for name, partition in [(topic, number) for number in range(PARTITIONS)] + [("__consumer_offsets", 0)]:
                    kafka3.wait_in_sync(name, partition)  # since the broker that was killed before
                kafka3.kill(node := rng.choice(list(kafka3.ports)))
                kafka3.restart(node, wait=False)
            else:
                program.kill()
                look(judge, kafka3.bootstrap, topic, program.group)
                judge.begin(program.incarnation + 1)
                program.start()
        wait_until(count)
        wait_for(lambda: judge.follow() and judge.assigned == program.incarnation, 60, "an assignment")
        program.end()
        look(judge, kafka3.bootstrap, topic, program.group)
    said = (
        f"{count} records, {dict(Counter(plan(kills)))} killed in {time.monotonic() - began:.0f} s: "
        f"{judge.repeated} records given again that no commit had named, {judge.behind} behind committed offsets named "
        f"by maps, partitions lost {judge.lost} times"
    )
    print(said)
    record_property("kills", said)
    assert len(judge.named) == len(judge.finished) == count
    assert judge.behind


def test_other_clients_read_the_commits_and_a_reset_lets_all_be_processed_again(
    kafka: Administration, new_topic: Callable[..., str]
) -> None:
    """kafka-python, Java's consumer and Kafka's own tool see plain offsets; ``groups reset`` works on such a group."""
    topic = new_topic(kafka)
    group = f"group-{topic}"
    with_confluent(kafka.bootstrap, topic, [New(b"%d" % n, b"k%d" % (n % 4)) for n in range(12)])
    seen: list[int] = []
    options: dict[str, Any] = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}

    def work(failing: int, enough: int) -> None:
        def handle(record: Any) -> None:
            if record.offset == failing:
                raise ValueError(failing)
            seen.append(record.offset)
            if len(seen) == enough:
                workers.stop()

        with (
            Consumer(topic, bootstrap_servers=kafka.bootstrap, **options) as consumer,
            Workers(consumer, handle, WorkerSettings(attempts=2, backoff=0.5)) as workers,
        ):
            workers.run()

    with pytest.raises(HandlerFailedError):
        work(2, 12)
    assert seen == [0, 1, 3, 4, 5, 7, 8, 9, 11]  # 6 and 10 wait for 2, which has their key
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap, **options) as theirs:
        assert theirs.committed(KafkaTopicPartition(topic, 0)) == 2
    try:
        with kafka_tools(kafka.bootstrap) as tools:
            described = tools("consumer.group.ConsumerGroupCommand", "--describe", "--group", group)
            assert [group, topic, "0", "2", "12", "10"] in [line.split()[:6] for line in described.splitlines()]
            never = ("--command-property", "enable.auto.commit=false")
            read = tools(CONSOLE, "--topic", topic, "--group", group, "--max-messages", "10", *never)
            assert read.split() == [str(n) for n in range(2, 12)]
    except NoJars:
        pass  # on a given cluster without Java here: the other clients have been tried
    work(-1, 12)
    assert sorted(seen) == list(range(12))
    seen.clear()
    reset = ["groups", "reset", group, "--to-earliest", "--topic", topic, "--execute"]
    assert main([*reset, "--bootstrap-server", kafka.bootstrap]) == 0
    work(-1, 12)
    assert seen == list(range(12))
