"""The examples that need nothing but this package and its tests' own tools, run as a reader would run them."""

import asyncio
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import thinconsumer
from thinconsumer import Consumer, TopicPartition
from thinconsumer.broker import BrokerProcess

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).parents[1] / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(thinconsumer.__file__).parents[1])}


@pytest.fixture
def start(tmp_path):
    """Start an example in a folder where nothing else is, and see that it ends."""
    children = []

    def start_one(name, *words):
        command = [sys.executable, EXAMPLES / name, *words]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        children.append(subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, **streams))
        return children[-1]

    yield start_one
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def broker():
    """Three partitions of orders, three orders in each."""
    with BrokerProcess(topics={"orders": 3}) as process:
        for partition in range(3):
            process.produce("orders", [f"{partition}/{number}".encode() for number in range(3)], partition)
        yield process


def committed(broker, group):
    """How far a group is in each partition."""
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


def test_the_asyncio_example_commits_only_what_it_has_yielded_and_leaves_the_loop_to_the_next_consumer(broker):
    """A generator that is left after some records must not keep the loop's reader, or count the records behind."""
    example = runpy.run_path(str(EXAMPLES / "asyncio_consumer.py"))

    async def read(count):
        found = []
        options = {"group_id": "left", "auto_offset_reset": "earliest"}
        with Consumer("orders", bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
            async for record in example["records"](consumer):
                found.append(record.value)
                if len(found) == count:
                    break
        return found

    async def read_twice():
        return await read(4), await asyncio.wait_for(read(5), 30)

    first, second = asyncio.run(read_twice())
    assert sorted(first + second) == [f"{p}/{n}".encode() for p in range(3) for n in range(3)]
    assert committed(broker, "left") == [3, 3, 3]


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
        env={**ENVIRONMENT, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_pool_of_workers_settles_four_times(tmp_path):
    """Twelve shards, each with one worker after each change; the last one waits for a session to end."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "worker_pool.py"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "two workers",
        "a strong third one",
        "bob leaves",
        "cid crashes",
    ]
