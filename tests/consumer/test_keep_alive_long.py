"""Thousands of ``keep_alive`` blocks with nesting, exceptions and signals, and a step at every line of a block."""

import importlib
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from unittest.mock import Mock

import pytest

from thinconsumer import TopicPartition
from thinconsumer.consumer import keep_alive

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here"),
    pytest.mark.filterwarnings("ignore:max_poll_interval_ms=.* is above"),
]


class InjectedError(Exception):
    pass


def raise_injected(number, frame):
    raise InjectedError


def spin(draw):
    """Compute for a moment, in a function and its comprehension."""
    return sum(x * x for x in range(draw.randrange(3000)))


@pytest.fixture
def handlers():
    """Let SIGUSR1 raise, and SIGUSR2 only come; return how often the latter has."""
    came = []
    before = [
        (number, signal.signal(number, handler))
        for number, handler in ((signal.SIGUSR1, raise_injected), (signal.SIGUSR2, lambda *about: came.append(1)))
    ]
    yield came
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.soak(600)
@pytest.mark.timeout(1200)
def test_blocks_with_random_nesting_exceptions_and_signals(make_group, handlers, request, monkeypatch):
    """Ten thousand with ``--soak``. Each record is returned once, and signal, timer and log are as before."""
    blocks = 10_000 if request.config.getoption("--soak") else 150
    monkeypatch.setattr(keep_alive, "PERIOD_S", 0.001)
    monkeypatch.setattr(keep_alive, "REST", 2)
    group, draw = make_group(partitions=2, style="cooperative-sticky"), random.Random(7)
    members = [group.member(session_timeout_ms=60_000, max_poll_interval_ms=3_000_000) for _ in range(2)]
    group.settle(*members)
    offsets, produced, alarms, expected = {}, [0, 0], [], 0
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, lambda *about: alarms.append(time.monotonic()))
    program = signal.getsignal(signal.SIGALRM)
    raised = 0

    def read(member, timeout_ms=0):
        for tp, records in member.poll(timeout_ms).items():
            for record in records:
                offsets.setdefault(tp, []).append(record.offset)

    def nest(stack, depth):
        for _ in range(depth):
            stack.enter_context(draw.choice(members).keep_alive())
            action = draw.random()
            spin(draw)
            if action < 0.2:
                read(draw.choice(members))
            elif action < 0.3:
                signal.raise_signal(signal.SIGUSR1)
            elif action < 0.4:
                os.kill(os.getpid(), signal.SIGUSR2)
            elif action < 0.5:
                raise InjectedError
            elif action < 0.6:
                with members[0].keep_alive():
                    time.sleep(0.001)
            spin(draw)

    try:
        for number in range(blocks):
            if draw.random() < 0.5:
                partition = draw.randrange(2)
                group.cluster.produce("t", [b"x"], partition)
                produced[partition] += 1
            has_alarm = draw.random() < 0.3
            if has_alarm:
                signal.setitimer(signal.ITIMER_REAL, draw.random() * 0.003 + 0.0001)
                expected += 1
            try:
                with ExitStack() as stack:
                    nest(stack, draw.randrange(1, 5))
            except InjectedError:
                raised += 1
            assert signal.getsignal(signal.SIGALRM) is program and not keep_alive._keeper._blocks, number
            end = time.monotonic() + 10
            while len(alarms) < expected and time.monotonic() < end:
                time.sleep(0.0005)
            assert len(alarms) == expected and signal.getitimer(signal.ITIMER_REAL) == (0, 0), number
            group.cluster.clock.advance(0.01)
            if number % 10 == 0:
                read(draw.choice(members))
        while sum(map(len, offsets.values())) < sum(produced):
            for member in members:
                read(member, 50)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.setitimer(signal.ITIMER_REAL, *before[1])
    assert {tp.partition: found for tp, found in offsets.items()} == {n: [*range(c)] for n, c in enumerate(produced)}
    assert raised > blocks / 20 and handlers


def test_a_step_at_every_line_of_a_block_and_of_what_it_calls(make_group, timer, tmp_path, monkeypatch):
    """Of the engine, of imports, of ``logging`` and of the program; where a step is possible, one is made."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for number in range(3):
        (tmp_path / f"module_at_every_line_{number}.py").write_text("import logging\nVALUE = [n for n in range(9)]\n")
    group = make_group(partitions=1)
    kept = group.member(session_timeout_ms=60_000, max_poll_interval_ms=3_000_000)
    group.settle(kept)
    log = logging.getLogger("someone")
    handler = logging.FileHandler(tmp_path / "log")
    log.addHandler(handler)
    log.propagate = False
    step, lines, steps = Mock(wraps=keep_alive._step), 0, Counter()
    monkeypatch.setattr(keep_alive, "_step", step)

    def trace(frame, event, arg):
        nonlocal lines
        if event == "line":
            before = step.call_count
            keep_alive._keeper._tick(frame)
            is_import = frame.f_code.co_filename.startswith("<frozen importlib")
            package = "import" if is_import else frame.f_globals.get("__name__", "").partition(".")[0]
            steps[package] += step.call_count - before
            lines += 1
        return trace

    def block():
        for number in range(3):
            importlib.import_module(f"module_at_every_line_{number}")
            log.warning("a line %d", number)
            kept.commit_async({TopicPartition("t", 0): 0})
            for records in kept.poll(20).values():
                offsets.extend(record.offset for record in records)
            group.cluster.produce("t", [b"x"])

    offsets = []
    before = sys.gettrace()
    with kept.keep_alive():
        sys.settrace(trace)
        try:
            block()
        finally:
            sys.settrace(before)
    log.removeHandler(handler)
    handler.close()
    while len(offsets) < 3:
        offsets += [record.offset for records in kept.poll(500).values() for record in records]
    assert offsets == [0, 1, 2]
    assert (tmp_path / "log").read_text() == "a line 0\na line 1\na line 2\n"
    assert steps["thinconsumer"] == steps["thinconsumer_testing"] == steps["import"] == 0
    assert steps["logging"] > 50 and lines > 1000
