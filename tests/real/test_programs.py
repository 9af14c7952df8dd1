"""Whole programs around the consumer: struck by Ctrl-C, and held to their memory."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proving import filling
from realkafka import Administration

PROGRAMS = Path(__file__).with_name("proving")
NewTopic = Callable[..., str]
MB = 1 << 20


@contextlib.contextmanager
def started(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Start one of the programs beside these tests, and kill it in the end if it still runs.

    A program that outlives its test would slow down the next one. It imports what we import.
    """
    command = [sys.executable, str(PROGRAMS / program), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as child:
        try:
            yield child
        finally:
            child.kill()


def write(bootstrap: str, topic: str, count: int, partitions: int, size: int) -> None:
    target = filling.producer(bootstrap, batch_size=100_000, queue_buffering_max_kbytes=1 << 20)
    value = random.Random(1).randbytes(size)
    for n in range(count):
        target.produce(topic, value, partition=n % partitions)
        if n % 1000 == 0:
            target.poll(0)
    assert target.flush(120) == 0


def strike(child: subprocess.Popen[str]) -> int:
    """Send SIGINT at random moments to a program that is ready; return how often."""
    assert child.stdout is not None
    assert child.stdout.readline() == "READY\n"
    chance = random.Random(4)
    until = time.monotonic() + 60
    strikes = 0
    while child.poll() is None and time.monotonic() < until and strikes < 400:
        time.sleep(chance.random() * 0.02)  # not for waiting: so that each blow falls elsewhere
        child.send_signal(signal.SIGINT)
        strikes += 1
    return strikes


def test_interrupts_at_random_moments_lose_and_repeat_nothing(kafka: Administration, new_topic: NewTopic) -> None:
    """SIGINT again and again: each poll that raised has delivered nothing, and the same consumer reads on."""
    count, partitions = 60_000, 3
    topic = new_topic(kafka, partitions)
    write(kafka.bootstrap, topic, count, partitions, 200)
    with started("interrupted.py", kafka.bootstrap, topic, partitions, count) as child:
        strikes = strike(child)
        printed, complaints = child.communicate(timeout=90)
    assert child.returncode == 0, complaints[-3000:]
    *rows, last = printed.splitlines()
    _, interrupts, *ends = last.split()
    print(f"{strikes} signals, {interrupts} raised out of poll, {len(rows)} records")
    assert int(interrupts) > 20
    for partition in range(partitions):
        offsets = [int(row.split()[1]) for row in rows if row.split()[0] == str(partition)]
        assert offsets == list(range(count // partitions))
        assert int(ends[partition]) == count // partitions
    assert "Traceback" not in complaints


def test_fifty_partitions_stay_within_max_buffered_bytes(kafka: Administration, new_topic: NewTopic) -> None:
    """200 MB in fifty partitions at a cap of 16 MB: paused, resumed, read out; and never a thread."""
    partitions, size, limit = 50, 10_000, 16 * MB
    topic = new_topic(kafka, partitions)
    write(kafka.bootstrap, topic, 20_000, partitions, size)
    with started("hungry.py", kafka.bootstrap, topic, partitions, 20_000, limit) as child:
        printed, complaints = child.communicate(timeout=120)
    assert child.returncode == 0, complaints[-3000:]
    began, paused, most, pinned, read, threads = map(int, printed.split())
    print(
        f"resident {began / 1024:.0f} MB at the start, {paused / 1024:.0f} MB at most while paused, "
        f"{most / 1024:.0f} MB at most; {pinned / MB:.1f} MB pinned of {limit / MB:.0f} MB"
    )
    assert read == 20_000
    assert threads == 1
    assert pinned <= limit + MB, "a batch more than the cap, per broker, is allowed"
    assert paused - began < (limit + 64 * MB) / 1024
    assert most - began < (limit + 64 * MB) / 1024
