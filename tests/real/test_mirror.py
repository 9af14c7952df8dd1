"""``python -m thinconsumer mirror`` between topics of a real cluster: equal copies, and kills without a loss."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from realkafka import Administration
from realkafka.produce import confluent_producer

from thinconsumer import Consumer, RawBatch, TopicPartition

NewTopic = Callable[..., str]
PARTITIONS = 3
CODECS = ("none", "gzip", "lz4", "zstd")
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@contextlib.contextmanager
def mirror(bootstrap: str, source: str, target: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command, a static member of its group: the next one joins without waiting for a session's end."""
    words = ["mirror", f"{source}={target}", "--group", target, "--bootstrap-server", bootstrap, "--progress"]
    command = [sys.executable, "-m", "thinconsumer", *words, "--property", "group.instance.id=mirror", *more]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as child:
        try:
            yield child
        finally:
            child.kill()


def finish(bootstrap: str, source: str, target: str) -> str:
    """Copy what is left; return the last words of the command."""
    with mirror(bootstrap, source, target, "--until-end") as child:
        _, said = child.communicate(timeout=90)
    assert child.returncode == 0, said[-2000:]
    return said


def raw_batches(bootstrap: str, topic: str) -> dict[int, list[RawBatch]]:
    found: dict[int, list[RawBatch]] = {number: [] for number in range(PARTITIONS)}
    tps = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        reader.assign(tps)
        ends = reader.end_offsets(tps)
        while any(reader.position(tp) < ends[tp] for tp in tps):
            for tp, batches in reader.poll_raw(1000).items():
                found[tp.partition] += batches
    return found


def write(bootstrap: str, topic: str) -> None:
    """Write records in each codec, with headers and null keys, and two transactions, of which one is aborted."""
    for codec in CODECS:
        producer = confluent_producer(bootstrap, compression_type=codec)
        for number in range(3000):
            value = f'{{"codec": "{codec}", "number": {number}, "text": "{"x" * (number % 50)}"}}'.encode()
            key = None if number % 7 == 0 else b"key %d" % (number % 100)
            headers = [("h", b"1"), ("empty", None)] if number % 3 == 0 else None
            producer.produce(
                topic, value, key, number % PARTITIONS, headers=headers, timestamp=1_700_000_000_000 + number
            )
            producer.poll(0)
        assert producer.flush(30) == 0
    producer = confluent_producer(bootstrap, transactional_id=topic, compression_type="zstd")
    producer.init_transactions(30)
    for word, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(30):
            producer.produce(topic, word, b"t", number % PARTITIONS)
        assert producer.flush(30) == 0
        end(30)


def test_the_copy_is_equal_for_kafkas_own_consumer_and_byte_for_byte(
    kafka: Administration, new_topic: NewTopic
) -> None:
    source, target = new_topic(kafka, PARTITIONS), new_topic(kafka, PARTITIONS)
    write(kafka.bootstrap, source)
    said = finish(kafka.bootstrap, source, target)
    assert f"{12_030:,} records" in said and "3 aborted" in said and "transactional" in said
    there, copy = raw_batches(kafka.bootstrap, source), raw_batches(kafka.bootstrap, target)
    for number in range(PARTITIONS):
        assert [bytes(batch.records) for batch in copy[number]] == [bytes(batch.records) for batch in there[number]]
        assert [batch.codec for batch in copy[number]] == [batch.codec for batch in there[number]]
    printed = []
    for topic in (source, target):
        shown = ("print.key", "print.headers", "print.timestamp", "print.partition")
        options = [word for name in shown for word in ("--formatter-property", f"{name}=true")]
        options += ["--topic", topic, "--from-beginning", "--timeout-ms", "5000", "--isolation-level", "read_committed"]
        printed.append(kafka.java_tool(CONSOLE_CONSUMER, *options))
    rows = [
        [[row for row in text.splitlines() if f"Partition:{number}\t" in row] for number in range(PARTITIONS)]
        for text in printed
    ]
    assert sum(map(len, rows[0])) == 12_030 and rows[0] == rows[1]


@pytest.mark.soak(100)
def test_killed_again_and_again_nothing_is_lost(kafka: Administration, new_topic: NewTopic, request) -> None:
    """With ``--soak`` fifty SIGKILLs: the copy has each record in order; only what follows a commit may be doubled."""
    kills = 50 if request.config.getoption("--soak") else 5
    source, target = new_topic(kafka, PARTITIONS), new_topic(kafka, PARTITIONS)
    chance = random.Random(3)
    written = 0
    producer = confluent_producer(kafka.bootstrap, compression_type="zstd")
    for _ in range(kills):
        with mirror(kafka.bootstrap, source, target) as child:
            until = time.monotonic() + chance.uniform(0.3, 1.8)
            while time.monotonic() < until:
                for _ in range(300):
                    producer.produce(source, b"%d" % (written // PARTITIONS), partition=written % PARTITIONS)
                    written += 1
                producer.poll(0.01)
            child.kill()
            child.wait(10)
    assert producer.flush(30) == 0
    finish(kafka.bootstrap, source, target)
    doubled = 0
    for number, batches in raw_batches(kafka.bootstrap, target).items():
        values = [int(record.value or b"") for batch in batches for record in batch.decode()]
        wanted = len(range(number, written, PARTITIONS))
        assert sorted(set(values)) == list(range(wanted))
        assert all(after <= before + 1 for before, after in pairwise(values))
        doubled += len(values) - wanted
    print(f"{kills} kills, {written} records, {doubled} doubled")
