"""The examples that need nothing but this package and its tests' own tools, run as a reader would run them."""

import contextlib
import os
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import BrokerProcess
from thinconsumer.records.builder import NewRecord
from thinconsumer.testing import MemoryCluster
from thinconsumer_testing.simulation.observed import SimConsumer

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def start(tmp_path):
    """Start an example in a folder where nothing else is, and see that it ends."""
    children = []

    def start_one(name, *words):
        command = [sys.executable, EXAMPLES / name, *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        children.append(subprocess.Popen(command, cwd=tmp_path, **streams))
        return children[-1]

    yield start_one
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def broker():
    with BrokerProcess(topics={"orders": 3}) as process:
        for partition in range(3):
            process.produce("orders", [f"{partition}/{number}".encode() for number in range(3)], partition)
        yield process


def committed(broker, group):
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        return [consumer.committed(TopicPartition("orders", partition)) for partition in range(3)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_member_to_be_copied_commits_when_it_is_stopped(broker, start, tmp_path, number):
    """It prints what it processes, is well, and leaves in order: the next one finds nothing to do."""
    child = start("group_consumer.py", broker.bootstrap_servers, "orders", "alive")
    lines = [child.stdout.readline().split() for _ in range(9)]
    assert sorted(value for _, _, value in lines) == [f"{p}/{n}" for p in range(3) for n in range(3)]
    deadline = time.monotonic() + 30
    while not (tmp_path / "alive").exists():
        assert time.monotonic() < deadline, "it does not say that it is alive"
        time.sleep(0.01)
    child.send_signal(number)
    out, err = child.communicate(timeout=50)
    assert (child.returncode, out) == (0, ""), err
    assert "Traceback" not in err
    assert committed(broker, "billing") == [3, 3, 3]


def test_two_of_the_member_to_be_copied_repeat_nothing(broker, start):
    """The first one commits when the second one comes."""
    words = ("group_consumer.py", broker.bootstrap_servers, "orders")
    first = start(*words)
    lines = [first.stdout.readline() for _ in range(9)]
    second = start(*words)
    while " partitions, " not in second.stderr.readline():
        pass  # it has joined
    for partition in range(3):
        broker.produce("orders", [f"{partition}/3".encode()], partition)
    lines.append(second.stdout.readline())
    for child in (first, second):
        child.send_signal(signal.SIGTERM)
        lines += child.communicate(timeout=50)[0].splitlines()
    values = [line.split()[2] for line in lines]
    assert len(set(values)) == len(values)
    assert set(values) >= {f"{p}/{n}" for p in range(3) for n in range(3)}


@pytest.mark.parametrize("words", [(), ("billing",)], ids=["alone", "in a group"])
def test_the_asyncio_example_reads(broker, start, words):
    """It goes on for ever."""
    child = start("asyncio_consumer.py", broker.bootstrap_servers, "orders", *words)
    lines = [child.stdout.readline() for _ in range(9)]
    assert sorted(eval(line.split(" ", 2)[2]).decode() for line in lines) == [
        f"{p}/{n}" for p in range(3) for n in range(3)
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_orders_are_processed_in_parallel_and_committed_when_it_is_stopped(broker, start, number):
    """It ends while it waits, and while orders are processed: then the next one has the rest."""
    for key in range(20):
        broker.produce("orders", [NewRecord(b"an order", b"customer %d" % key)] * 5, key % 3)
    words = ("orders_in_parallel.py", broker.bootstrap_servers, "orders")
    first = start(*words)
    lines = [first.stdout.readline() for _ in range(20)]
    first.send_signal(number)
    lines += first.stdout.readlines()
    _, err = first.communicate(timeout=50)
    assert (first.returncode, "Traceback" in err) == (0, False), err
    assert len(lines) < 109
    second = start(*words)
    lines += [second.stdout.readline() for _ in range(109 - len(lines))]
    time.sleep(0.2)  # so that it waits
    second.send_signal(number)
    out, err = second.communicate(timeout=50)
    assert (second.returncode, out, "Traceback" in err) == (0, "", False), err
    places = [tuple(map(int, line.split()[:2])) for line in lines]
    assert len(places) == len(set(places)) == sum(committed(broker, "billing")) == 109


# -- offsets in a database


class Killed(BaseException):
    """The end of a process in which nothing runs any more."""


class MortalConnection(sqlite3.Connection):
    """Kills its process before or after one of its statements or commits."""

    moments_left = float("inf")
    last = None  #: The cursor of the last statement.

    def pass_moment(self):
        self.moments_left -= 1
        if self.moments_left < 0:
            raise Killed

    def execute(self, *words):
        self.pass_moment()
        cursor = self.last = super().execute(*words)
        self.pass_moment()
        return cursor

    def __exit__(self, kind, *rest):
        if kind is Killed:
            return False
        self.pass_moment()
        super().__exit__(kind, *rest)
        self.pass_moment()
        return False


class Counting:
    """A cluster in memory with numbered orders, and members of the example that count them into one file."""

    def __init__(self, file, orders):
        self.file, self.orders = file, orders
        session = {"group_consumer_session_timeout_ms": 200, "group_consumer_heartbeat_interval_ms": 150}
        self.cluster = MemoryCluster(1, {"orders": 3}, **session)
        values = [(partition, f"{partition}/{n}".encode()) for n in range(orders) for partition in range(3)]
        for first in range(0, len(values), 60):
            for partition in range(3):
                batch = [value for owner, value in values[first : first + 60] if owner == partition]
                self.cluster.produce("orders", batch, partition)
        self.example = types.SimpleNamespace(**runpy.run_path(str(EXAMPLES / "own_offsets.py")))
        self.example.new_consumer.__globals__["Consumer"] = SimConsumer  # a killed process closes nothing
        self.db = self.open(sqlite3.Connection)

    def open(self, factory):
        db = sqlite3.connect(self.file, factory=factory)
        db.execute("PRAGMA synchronous = OFF")  # what ends is the process, not the machine
        return db

    @contextlib.contextmanager
    def member(self, moments=float("inf"), **options):
        """Start a member that is killed after some moments; its connections then break."""
        driver = self.cluster.driver()
        consumer = self.example.new_consumer(self.cluster.bootstrap_servers, driver=driver, **options)
        with contextlib.closing(self.open(MortalConnection)) as db:
            with contextlib.suppress(Killed):
                counter = self.example.Counter(consumer, "orders", db)
                db.moments_left = moments
                yield counter
            # As the end of a process does: a cursor that is still referenced would keep the transaction and its lock.
            if db.last is not None:
                db.last.close()
            db.rollback()
        driver.close()

    def check(self):
        """See that exactly the records before the stored offsets are counted, once; return the number of them."""
        offsets = self.db.execute("SELECT partition, next FROM offsets").fetchall()
        expected = {f"{partition}/{n}": 1 for partition, after in offsets for n in range(after)}
        assert dict(self.db.execute("SELECT value, count FROM results")) == expected
        return len(expected)

    def finish(self, counter):
        while self.check() < 3 * self.orders:
            for tp, records in counter.consumer.poll(1000).items():
                counter.store(tp, records)


def test_own_offsets_survive_kills_at_every_statement(tmp_path, capsys):
    """500 processes one after the other, each killed a statement later than the one before; seventy positions."""
    counting = Counting(tmp_path / "results.db", 2000)
    kills = 0
    for life in range(500):
        with counting.member(life % 70, max_poll_records=5) as counter:
            kills += 1
            counter.run()
            kills -= 1
        counting.check()
    assert kills == 500
    assert counting.check() > 1000
    with counting.member() as counter:
        counting.finish(counter)
        assert counting.check() == 6000
    counting.db.close()


def test_own_offsets_survive_sigkill(start, tmp_path):
    """Three processes are killed between two transactions or within one; the fourth counts the rest, and is stopped."""
    config = {"group.consumer.session.timeout.ms": 500, "group.consumer.heartbeat.interval.ms": 100}
    file, count = tmp_path / "results.db", 0
    with BrokerProcess(topics={"orders": 3}, config=config) as broker:
        for life in range(4):
            for partition in range(3):
                values = [f"{partition}/{n}".encode() for n in range(count, count + 1000)]
                broker.produce("orders", values, partition)
            count += 1000
            child = start("own_offsets.py", broker.bootstrap_servers, "orders", file)
            counted = dict.fromkeys("012", "0")
            while counted != dict.fromkeys("012", str(count)):
                counted.update([child.stdout.readline().split()])
                if life < 3:
                    break
            child.send_signal(signal.SIGKILL if life < 3 else signal.SIGTERM)
            _, err = child.communicate(timeout=50)
            assert child.returncode == (-signal.SIGKILL if life < 3 else 0), err
            with contextlib.closing(sqlite3.connect(file)) as db:
                offsets = db.execute("SELECT partition, next FROM offsets").fetchall()
                expected = {f"{partition}/{n}": 1 for partition, after in offsets for n in range(after)}
                assert dict(db.execute("SELECT value, count FROM results")) == expected
    assert len(expected) == 12_000


def test_a_member_that_lost_its_partitions_meanwhile_counts_nothing(tmp_path, capsys, caplog):
    """It has polled records, is stopped for longer than its session, and goes on after another one has counted them."""
    counting = Counting(tmp_path / "results.db", 20)
    with counting.member() as stopped, counting.member() as other:
        while not (polled := stopped.consumer.poll(1000)):
            pass
        counting.cluster.clock.advance_to(counting.cluster.clock.now() + 60)
        counting.finish(other)
        for tp, records in polled.items():
            stopped.store(tp, records)
        assert "another member has counted records of partition" in caplog.text
        assert counting.check() == 60
        while not stopped.consumer.assignment() or not other.consumer.assignment():
            for counter in (stopped, other):
                counter.consumer.poll(1000)
        for partition in range(3):
            counting.cluster.produce("orders", [f"{partition}/20".encode()], partition)
        counting.orders += 1
        while counting.check() < 63:
            for counter in (stopped, other):
                for tp, records in counter.consumer.poll(1000).items():
                    counter.store(tp, records)
    counting.db.close()


def test_the_strong_get_more(start):
    """An assignor of one's own."""
    out, err = start("custom_assignor.py").communicate(timeout=50)
    assert out == "".join(f"strength {n}: {2 * n} of 12 partitions\n" for n in (1, 2, 3)), err


def test_the_example_of_a_users_test_passes(tmp_path):
    """In a folder of its own, where no configuration of ours is in force."""
    shutil.copytree(EXAMPLES / "testing", tmp_path / "testing")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "testing"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_pool_of_workers_settles_four_times(start):
    """Twelve shards, each with one worker after each change; the last one waits for a session to end."""
    out, err = start("worker_pool.py").communicate(timeout=50)
    changes = ["two workers", "a strong third one", "bob leaves", "cid crashes"]
    assert [line.split("  ")[0] for line in out.splitlines()] == changes, err


def test_long_work_keeps_its_generation(broker, start):
    broker.create_topic("tasks", 1)
    broker.produce("tasks", [b"last"])
    out, err = start("long_work.py", broker.bootstrap_servers, "tasks", "4").communicate(timeout=50)
    assert "the same generation" in out, err
