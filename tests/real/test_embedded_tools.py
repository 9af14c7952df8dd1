"""Kafka's own tools on the embedded broker: codecs, transactions of Java's producer, offsets, records, settings.

Topics, groups and a group shared with other clients are in ``test_embedded_judges``. No real broker runs.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from realkafka.jars import NoJars, java, tools_class_path

from thinconsumer.broker.process import BrokerProcess

COUNT = 300
LINES = [f"line {number}" for number in range(COUNT)]
CONSUMER = "consumer.ConsoleConsumer"
GROUPS = "consumer.group.ConsumerGroupCommand"

Run = Callable[..., str]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """Three brokers in a process of their own."""
    with BrokerProcess(3) as process:
        yield process


@pytest.fixture(scope="module")
def run(broker: BrokerProcess) -> Run:
    """``run(tool, *arguments, given="", fails=False)`` runs one of the tools, and returns what it printed."""
    try:
        classes = tools_class_path()
    except NoJars as error:
        pytest.skip(str(error))
    start = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", classes]

    def call(tool: str, *arguments: str, given: str = "", fails: bool = False) -> str:
        command = [*start, f"org.apache.kafka.tools.{tool}", "--bootstrap-server", broker.bootstrap_servers, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout

    return call


def test_every_codec_of_javas_producer(broker: BrokerProcess, run: Run) -> None:
    """One consumer reads the topics of all codecs: each of Kafka's tools takes seconds to start."""
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        broker.create_topic(f"codec-{codec}", 3)
        lines = "".join(f"{codec} {line}\n" for line in LINES)
        run("ConsoleProducer", "--topic", f"codec-{codec}", "--compression-codec", codec, given=lines)
    count = str(len(codecs) * COUNT)
    read = run(CONSUMER, "--include", "codec-.*", "--from-beginning", "--max-messages", count, "--timeout-ms", "20000")
    assert sorted(read.splitlines()) == sorted(f"{codec} {line}" for codec in codecs for line in LINES)


def test_transactions_of_javas_producer(broker: BrokerProcess, run: Run) -> None:
    """A producer of 4.x: epochs of their own for each transaction, partitions that join by being written to."""
    broker.create_topic("transactions", 3)
    printed = run(
        "ProducerPerformance", "--topic", "transactions", "--num-records", "5000", "--record-size", "100",
        "--throughput", "-1", "--transactional-id", "performance", "--transaction-duration-ms", "50",
    )  # fmt: skip
    assert "5000 records sent" in printed
    read = run(
        CONSUMER, "--topic", "transactions", "--from-beginning", "--isolation-level", "read_committed",
        "--max-messages", "5000", "--timeout-ms", "20000",
    )  # fmt: skip
    assert len(read.splitlines()) == 5000


def test_topics_grow_and_refusals_reach_the_user(broker: BrokerProcess, run: Run) -> None:
    broker.create_topic("grows", 1)
    run("TopicCommand", "--alter", "--topic", "grows", "--partitions", "4")
    assert "PartitionCount: 4" in run("TopicCommand", "--describe", "--topic", "grows")
    assert "already exists" in run("TopicCommand", "--create", "--topic", "grows", fails=True)
    assert "Unknown topic config name" in run(
        "TopicCommand", "--create", "--topic", "odd", "--config", "retention.hours=1", fails=True
    )


def test_offsets_are_reset(broker: BrokerProcess, run: Run) -> None:
    broker.create_topic("reset", 3)
    run("ConsoleProducer", "--topic", "reset", given="\n".join(LINES) + "\n")
    group = ("--group", "resetters")
    run(CONSUMER, "--topic", "reset", "--from-beginning", "--max-messages", str(COUNT), *group)

    def lags() -> list[int]:
        described = run(GROUPS, "--describe", *group)
        return [int(lag) for lag in re.findall(r"resetters\s+reset\s+\d+\s+\d+\s+\d+\s+(\d+)", described)]

    # Java's producer may put everything into one partition, and its consumer stop before it is elsewhere.
    assert set(lags()) == {0}
    run(GROUPS, "--reset-offsets", *group, "--topic", "reset", "--to-earliest", "--execute")
    assert len(lags()) == 3
    assert sum(lags()) == COUNT


def test_ends_of_logs_and_deleted_records(broker: BrokerProcess, run: Run, tmp_path: Path) -> None:
    broker.create_topic("ends", 2)
    broker.produce("ends", [b"a", b"b", b"c"], 0)

    def offsets(time: str) -> dict[str, str]:
        return dict(re.findall(r"ends:(\d):(\d+)", run("GetOffsetShell", "--topic", "ends", "--time", time)))

    assert offsets("latest") == {"0": "3", "1": "0"}
    wanted = tmp_path / "offsets.json"
    wanted.write_text('{"partitions": [{"topic": "ends", "partition": 0, "offset": 2}], "version": 1}')
    assert "low_watermark: 2" in run("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert offsets("earliest") == {"0": "2", "1": "0"}


def test_versions_of_every_api_are_told(run: Run) -> None:
    printed = run("BrokerApiVersionsCommand")
    assert printed.count("(id: ") == 3
    assert re.search(r"Fetch\(1\): 4 to 18", printed)
