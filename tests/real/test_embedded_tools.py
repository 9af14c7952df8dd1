"""Kafka's own tools on the embedded broker: topics, groups, codecs, transactions of Java's producer, offsets, records.

A group shared with other clients is in ``test_embedded_judges``. No real broker runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from proving.tools import KafkaTools, kafka_tools
from realkafka.jars import NoJars

from thinconsumer.testing import CertificateAuthority
from thinconsumer_testing.broker.process import BrokerProcess
from thinconsumer_testing.broker.security import ListenerSecurity

COUNT = 300
LINES = [f"line {number}" for number in range(COUNT)]
CONSUMER = "consumer.ConsoleConsumer"
GROUPS = "consumer.group.ConsumerGroupCommand"
PATIENCE = ("--timeout-ms", "20000")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(3) as process:
        yield process


@pytest.fixture(scope="module")
def run(broker: BrokerProcess) -> Iterator[KafkaTools]:
    try:
        with kafka_tools(broker.bootstrap_servers) as tools:
            yield tools
    except NoJars as error:
        pytest.skip(str(error))


def test_topics_and_groups_are_managed(run: KafkaTools) -> None:
    """Create, describe, write, read in a group, describe and delete the group: all with Kafka's own tools."""
    run("TopicCommand", "--create", "--topic", "j", "--partitions", "3", "--config", "retention.ms=1000000")
    described = run("TopicCommand", "--describe", "--topic", "j")
    assert "PartitionCount: 3\tReplicationFactor: 3" in described
    assert "retention.ms=1000000" in described
    run("ConsoleProducer", "--topic", "j", given="\n".join(LINES) + "\n")
    group = ("--group", "tools")
    read = run(CONSUMER, "--topic", "j", "--from-beginning", *group, "--max-messages", str(COUNT), *PATIENCE)
    assert sorted(read.splitlines()) == sorted(LINES)
    assert "tools" in run(GROUPS, "--list").split()
    rows = [line.split() for line in run(GROUPS, "--describe", *group).splitlines()]
    # Java's producer may put everything into one partition, and its consumer stop before it has read the others.
    assert {row[5] for row in rows if row[:2] == ["tools", "j"]} == {"0"}
    run(GROUPS, "--reset-offsets", *group, "--topic", "j", "--to-earliest", "--execute")
    lags = re.findall(r"tools\s+j\s+\d+\s+\d+\s+\d+\s+(\d+)", run(GROUPS, "--describe", *group))
    assert len(lags) == 3
    assert sum(map(int, lags)) == COUNT
    assert "Empty" in run(GROUPS, "--describe", *group, "--state")
    rows = [line.split()[:3] for line in run(GROUPS, "--delete-offsets", *group, "--topic", "j:0,7").splitlines()]
    assert ["j", "0", "Successful"] in rows and ["j", "7", "Error:"] in rows
    assert len(re.findall(r"tools\s+j\s+\d+\s+\d+", run(GROUPS, "--describe", *group))) == 2
    run(GROUPS, "--delete", *group)
    assert "tools" not in run(GROUPS, "--list").split()
    run("TopicCommand", "--delete", "--topic", "j")
    assert "j" not in run("TopicCommand", "--list").split()


def test_every_codec_of_javas_producer(broker: BrokerProcess, run: KafkaTools) -> None:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        broker.create_topic(f"codec-{codec}", 3)
        lines = "".join(f"{codec} {line}\n" for line in LINES)
        run("ConsoleProducer", "--topic", f"codec-{codec}", "--compression-codec", codec, given=lines)
    count = str(len(codecs) * COUNT)
    read = run(CONSUMER, "--include", "codec-.*", "--from-beginning", "--max-messages", count, *PATIENCE)
    assert sorted(read.splitlines()) == sorted(f"{codec} {line}" for codec in codecs for line in LINES)


def test_transactions_of_javas_producer(broker: BrokerProcess, run: KafkaTools) -> None:
    """A producer of 4.x: epochs of their own for each transaction, partitions that join by being written to."""
    broker.create_topic("transactions", 3)
    printed = run(
        "ProducerPerformance", "--topic", "transactions", "--num-records", "5000", "--record-size", "100",
        "--throughput", "-1", "--transactional-id", "performance", "--transaction-duration-ms", "50",
    )  # fmt: skip
    assert "5000 records sent" in printed
    read = run(
        CONSUMER, "--topic", "transactions", "--from-beginning", "--isolation-level", "read_committed",
        "--max-messages", "5000", *PATIENCE,
    )  # fmt: skip
    assert len(read.splitlines()) == 5000


def test_topics_grow_and_refusals_reach_the_user(broker: BrokerProcess, run: KafkaTools) -> None:
    broker.create_topic("grows", 1)
    run("TopicCommand", "--alter", "--topic", "grows", "--partitions", "4")
    assert "PartitionCount: 4" in run("TopicCommand", "--describe", "--topic", "grows")
    assert "already exists" in run("TopicCommand", "--create", "--topic", "grows", fails=True)
    assert "Unknown topic config name" in run(
        "TopicCommand", "--create", "--topic", "odd", "--config", "retention.hours=1", fails=True
    )


def test_partition_counts_of_a_topic_with_ordered_delivery_rise_and_fall(
    broker: BrokerProcess, run: KafkaTools
) -> None:
    """KIP-253 lets kafka-topics.sh lower the count, too. Java's clients write to such a topic, and read all of it.

    The tool itself creates no topic with a config that it does not know.
    """
    broker.create_topic("ordered", 2, configs={"enable.ordered.delivery": "true"})
    ordered = ("--topic", "ordered", "--partitions")
    for count, listed in ((4, 4), (2, 4)):
        run("TopicCommand", "--alter", *ordered, str(count))
        described = run("TopicCommand", "--describe", "--topic", "ordered")
        assert f"PartitionCount: {listed}" in described and "enable.ordered.delivery=true" in described
        run("ConsoleProducer", "--topic", "ordered", given="\n".join(LINES) + "\n")
    read = run(CONSUMER, "--topic", "ordered", "--from-beginning", "--max-messages", str(2 * COUNT), *PATIENCE)
    assert sorted(read.splitlines()) == sorted(2 * LINES)
    run("TopicCommand", "--alter", *ordered, "1", fails=True)  # fewer than it was created with


def test_ends_of_logs_and_deleted_records(broker: BrokerProcess, run: KafkaTools, tmp_path: Path) -> None:
    broker.create_topic("ends", 2)
    broker.produce("ends", [b"a", b"b", b"c"], 0)

    def offsets(time: str) -> dict[str, str]:
        return dict(re.findall(r"ends:(\d):(\d+)", run("GetOffsetShell", "--topic", "ends", "--time", time)))

    assert offsets("latest") == {"0": "3", "1": "0"}
    wanted = tmp_path / "offsets.json"
    wanted.write_text('{"partitions": [{"topic": "ends", "partition": 0, "offset": 2}], "version": 1}')
    assert "low_watermark: 2" in run("DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert offsets("earliest") == {"0": "2", "1": "0"}


MODULES = {
    "PLAIN": 'plain.PlainLoginModule required username="alice" password="{}";',
    "SCRAM-SHA-256": 'scram.ScramLoginModule required username="alice" password="{}";',
    "SCRAM-SHA-512": 'scram.ScramLoginModule required username="alice" password="{}";',
    "OAUTHBEARER": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
}


def test_javas_clients_log_in(run: KafkaTools, tmp_path: Path) -> None:
    """With TLS and every mechanism; a wrong password is reported as such."""
    authority = CertificateAuthority()
    security = ListenerSecurity(
        security_protocol="SASL_SSL",
        sasl_enabled_mechanisms=tuple(MODULES),
        users={"alice": "secret"},
        **authority.broker_settings(),
    )
    trusted = tmp_path / "authority.pem"
    trusted.write_text(authority.certificate)

    def config(mechanism: str, password: str) -> str:
        module = f"org.apache.kafka.common.security.{MODULES[mechanism].format(password)}"
        file = tmp_path / f"{mechanism}.properties"
        file.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
            f"sasl.mechanism={mechanism}\nsasl.jaas.config={module}\n"
        )
        return str(file)

    with BrokerProcess(topics={"secured": 1}, security=security) as process:
        servers = process.bootstrap_servers
        for mechanism in MODULES:
            listed = run("TopicCommand", "--list", "--command-config", config(mechanism, "secret"), servers=servers)
            assert listed.split() == ["secured"]
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            wrong = ("--command-config", config(mechanism, "wrong"))
            run("TopicCommand", "--list", *wrong, servers=servers, fails=True)


def test_versions_of_every_api_are_told(run: KafkaTools) -> None:
    printed = run("BrokerApiVersionsCommand")
    assert printed.count("(id: ") == 3
    assert re.search(r"Fetch\(1\): 4 to 18", printed)
