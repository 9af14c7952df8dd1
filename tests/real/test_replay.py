"""Traces of members of real groups replay to the same requests, in other processes, too, and have no secret.

Members come and go, are interrupted by Ctrl-C and killed; a broker is killed, or stands still. ``--soak``: 54 traces.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from realkafka import Administration, KafkaCluster
from realkafka.processes import LAUNCHER
from realkafka.produce import New, with_confluent

from tests.replay.elsewhere import line_of, lines_elsewhere
from thinconsumer.replay import read_trace, replay

PROGRAM = Path(__file__).parent / "proving" / "traced.py"
NUMBERS = itertools.count()
CANARY = b"s3cret-canary"
SECONDS = 3.0


class Crew:
    """Two members of one group, of which each writes a trace."""

    def __init__(self, folder: Path, topic: str, options: dict[str, Any], draws: random.Random) -> None:
        self.folder, self.topic, self.draws = folder, topic, draws
        self.options = {
            "group_id": f"traced-{os.getpid()}-{next(NUMBERS)}", "auto_offset_reset": "earliest",
            "max_partition_fetch_bytes": 20_000, "consumer_timeout_ms": 500, **options,
        }  # fmt: skip
        self.traces: list[str] = []
        self.members = [self.start(), self.start()]

    def start(self) -> subprocess.Popen[str]:
        self.traces.append(str(self.folder / f"trace-{next(NUMBERS)}"))
        more = {"trace": self.traces[-1], "trace_bytes_max": self.draws.choice([100_000, 1 << 28])}
        arguments = [json.dumps({**self.options, **more}), self.topic, str(self.draws.randrange(1000))]
        member = subprocess.Popen(
            [sys.executable, "-ISE", str(LAUNCHER), str(os.getpid()), sys.executable, str(PROGRAM), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert member.stdout is not None and member.stdout.readline() == "READY\n"
        return member

    def trouble(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        is_killed = False
        while time.monotonic() < until:
            time.sleep(self.draws.uniform(0.05, 0.4))
            self.draws.choice(self.members).send_signal(signal.SIGINT)
            if not is_killed and until - time.monotonic() < seconds / 2:
                is_killed = True
                self.members[0].kill()
                self.members[0].communicate()
                self.members[0] = self.start()

    def end(self) -> None:
        for member in self.members:
            assert member.communicate("over\n", timeout=60)[0] == "DONE\n"

    def stop(self) -> None:
        for member in self.members:
            if member.poll() is None:
                member.kill()
                member.communicate()


def judge(traces: list[str], secrets: list[bytes]) -> int:
    """Replay traces here and in two other processes; return how many requests were the same."""
    lines = []
    for path in traces:
        events = read_trace(path)
        done = replay(path)
        assert done.divergence is None, f"{path}: {done.divergence}"
        assert done.events == len(events)
        lines.append(line_of(done))
        shown = repr(events).encode()
        for secret in secrets:
            wide = secret.decode().encode("utf-16-le")
            for form in secret, base64.b64encode(secret)[:-4], secret.hex().encode(), wide:
                assert form not in shown
                assert repr(form)[2:-1].encode() not in shown
    for hash_seed in "1", "2":
        assert lines_elsewhere(traces, hash_seed) == lines
    return sum(int(line.split()[0]) for line in lines)


def rounds(soak_seconds: float) -> Iterator[int]:
    """Yield one round, or nine in a soak: each makes three traces, with two tests 54."""
    return iter(range(9 if soak_seconds > 30 else 1))


@pytest.fixture
def crews(tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    made: list[Crew] = []

    def make(topic: str, options: dict[str, Any], seed: int) -> Crew:
        made.append(Crew(tmp_path, topic, options, random.Random(seed)))
        return made[-1]

    yield make
    for crew in made:
        crew.stop()


def fill(cluster: Administration, topic: str, bootstrap: str) -> None:
    headers = (("h", CANARY),)
    with_confluent(
        bootstrap, topic, [New(CANARY + b"-value %d" % n, CANARY, headers, partition=n % 4) for n in range(3000)]
    )


@pytest.mark.soak(180)
def test_members_that_log_in_over_tls_replay(
    secured_kafka: KafkaCluster, new_topic: Callable[..., str], crews: Callable[..., Crew], soak_seconds: float
) -> None:
    topic = new_topic(secured_kafka, 4)
    fill(secured_kafka, topic, secured_kafka.bootstrap)
    options = secured_kafka.client_options("SECURE", "SCRAM-SHA-512", "admin") | {"session_timeout_ms": 6000}
    for seed in rounds(soak_seconds):
        crew = crews(topic, options, seed)
        crew.trouble(SECONDS / 2)
        secured_kafka.pause(1)
        time.sleep(0.5)
        secured_kafka.resume(1)
        crew.trouble(SECONDS / 2)
        crew.end()
        assert judge(crew.traces, [CANARY, options["sasl_plain_password"].encode()]) > 50


@pytest.mark.soak(180)
def test_members_of_a_consumer_group_replay_whose_brokers_are_killed(
    kafka3: KafkaCluster, new_topic: Callable[..., str], crews: Callable[..., Crew], soak_seconds: float
) -> None:
    topic = new_topic(kafka3, 4)
    fill(kafka3, topic, kafka3.bootstrap)
    for seed in rounds(soak_seconds):
        crew = crews(topic, {"bootstrap_servers": kafka3.bootstrap, "group_protocol": "consumer"}, seed)
        crew.trouble(SECONDS / 2)
        node = 1 + seed % 3
        kafka3.kill(node)
        crew.trouble(SECONDS / 2)
        kafka3.restart(node, wait=False)
        crew.end()
        assert judge(crew.traces, [CANARY]) > 50
        kafka3.wait_for_nodes()
