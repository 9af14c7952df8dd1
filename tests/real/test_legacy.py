"""Old brokers and old formats: sets v0 and v1 as a 2.8 broker keeps them, read as kafka-python's consumer reads them.

The broker converts what producers send to the topic's ``message.format.version``. Everything newer that it does not
know (Fetch above 12, topic ids in it) must not be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from proving import filling
from realkafka import KafkaCluster, wait_for

from thinconsumer import Consumer, TopicPartition
from thinconsumer.network.negotiate import choose_version
from thinconsumer.records.batches import split
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest

pytestmark = pytest.mark.timeout(240)

FORMATS = {"0.9.0": 0, "0.10.2": 1, "2.8": 2}
KEEP = {"retention.ms": -1}
SMALL = {"max_partition_fetch_bytes": 1500, "fetch_max_bytes": 4000}
Row = tuple[Any, ...]


def by_kafka_python(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Row]:
    """Return the records and the end position of each partition, as kafka-python sees them."""
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Theirs

    rows: list[Row] = []
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation)
    try:
        tps = [Theirs(topic, partition) for partition in (0, 1)]
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            for records in consumer.poll(200).values():
                for r in records:
                    headers = tuple((name, value and bytes(value)) for name, value in r.headers)
                    kind = -1 if r.timestamp_type is None else r.timestamp_type
                    timestamp = -1 if r.timestamp is None else r.timestamp
                    rows.append((r.partition, r.offset, timestamp, kind, r.key, r.value, headers))
        rows += [(tp.partition, ends[tp], "end") for tp in tps]
    finally:
        consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def by_us(bootstrap: str, topic: str, isolation: str = "read_uncommitted", **options: Any) -> list[Row]:
    """Return the same, as we see them."""
    rows: list[Row] = []
    settings = {"auto_offset_reset": "earliest", "isolation_level": isolation} | options
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        tps = [TopicPartition(topic, partition) for partition in (0, 1)]
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            for records in consumer.poll(200).values():
                for r in records:
                    headers = tuple((name, value) for name, value in r.headers)
                    rows.append((r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, headers))
        rows += [(tp.partition, consumer.position(tp), "end") for tp in tps]
    return sorted(rows, key=lambda row: row[:2])


def magics(cluster: KafkaCluster, topic: str) -> set[int]:
    """Return the formats in the broker's own files."""
    found = set()
    for partition in (0, 1):
        for file in cluster.data_folder(1, topic, partition).glob("*.log"):
            batches, error = split(memoryview(file.read_bytes()))
            assert error is None
            found |= {batch.magic for batch in batches}
    return found


@pytest.mark.parametrize("stamp", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("version", FORMATS)
def test_old_formats_read_as_kafka_python_reads_them(
    kafka28: KafkaCluster, new_topic: Callable[..., str], version: str, stamp: str
) -> None:
    """Every codec that kafka-python can read in that format here, one after the other; usual limits and tiny ones."""
    magic = FORMATS[version]
    topic = new_topic(kafka28, 2, config={"message.format.version": version, "message.timestamp.type": stamp} | KEEP)
    codecs = ("none", "gzip", "lz4")[: 3 if magic else 2]
    fill(kafka28, topic, codecs)
    assert magics(kafka28, topic) == {magic}
    expected = by_kafka_python(kafka28.bootstrap, topic)
    assert len(expected) == 400 * len(codecs) + 2
    assert by_us(kafka28.bootstrap, topic) == expected
    assert by_us(kafka28.bootstrap, topic, **SMALL) == expected


@pytest.mark.parametrize("version", FORMATS)
def test_codecs_that_kafka_python_cannot_read_here(
    kafka28: KafkaCluster, new_topic: Callable[..., str], version: str
) -> None:
    """Snappy, and the lz4 of format 0 with its wrong checksum: what was written comes back."""
    topic = new_topic(kafka28, 2, config={"message.format.version": version} | KEEP)
    written = fill(kafka28, topic, ("snappy", "lz4"))
    assert magics(kafka28, topic) == {FORMATS[version]}
    for options in ({}, SMALL):
        rows = by_us(kafka28.bootstrap, topic, **options)
        for partition, parts in written.items():
            mine = [row for row in rows if row[0] == partition]
            assert [row[1] for row in mine] == list(range(len(parts) + 1))
            assert [row[4:6] for row in mine[:-1]] == [(part["key"], part["value"]) for part in parts]


def fill(cluster: KafkaCluster, topic: str, codecs: Sequence[str]) -> dict[int, list[dict[str, Any]]]:
    """Write 400 records with each codec, without headers, which old formats do not have; return them by partition."""
    written: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    for round_, codec in enumerate(codecs):
        target = filling.producer(cluster.bootstrap, compression_type=codec, linger_ms=20)
        numbers = range(400 * round_, 400 * (round_ + 1))
        for partition, parts in filling.write(target, topic, numbers, headers=False).items():
            written[partition] += parts
    return written


def test_a_log_that_changed_its_format_midway(kafka28: KafkaCluster, new_topic: Callable[..., str]) -> None:
    """Formats 0, 1 and 2 in one partition, as upgraded clusters have them."""
    topic = new_topic(kafka28, 2, config={"message.format.version": "0.9.0"} | KEEP)
    target = filling.producer(kafka28.bootstrap, compression_type="gzip")
    for version, magic in FORMATS.items():
        kafka28.set_topic_config(topic, {"message.format.version": version})
        wait_for(
            # The broker gets the new configuration some time later, from ZooKeeper.
            lambda magic=magic: (
                filling.write(target, topic, range(300), headers=False) and magic in magics(kafka28, topic)
            ),
            20,
            f"format {version}",
        )
    assert magics(kafka28, topic) == {0, 1, 2}
    expected = by_kafka_python(kafka28.bootstrap, topic)
    assert len(expected) >= 902
    assert by_us(kafka28.bootstrap, topic) == expected
    assert by_us(kafka28.bootstrap, topic, **SMALL) == expected


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_transactions_of_an_old_broker(kafka28: KafkaCluster, new_topic: Callable[..., str], isolation: str) -> None:
    """Aborted and committed, interleaved."""
    topic = new_topic(kafka28, 2, config=KEEP)
    filling.interleave_transactions(kafka28.bootstrap, topic, 60, codecs=("none", "gzip", "lz4"))
    expected = by_kafka_python(kafka28.bootstrap, topic, isolation)
    assert len(expected) > 100
    assert by_us(kafka28.bootstrap, topic, isolation) == expected


@pytest.fixture
def reading(kafka28: KafkaCluster, new_topic: Callable[..., str]) -> Iterator[tuple[Consumer[Any, Any], str]]:
    """A consumer that has read a hundred records of a two-partition topic of the old broker, and the topic."""
    topic = new_topic(kafka28, 2)
    filling.write(filling.producer(kafka28.bootstrap), topic, range(100))
    with Consumer(bootstrap_servers=kafka28.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert sum(1 for _ in consumer.read_to_end()) == 100
        yield consumer, topic


def test_versions_that_an_old_broker_speaks(reading: tuple[Consumer[Any, Any], str]) -> None:
    """Versions negotiated with Kafka 2.8: its newest ones, below the first with topic ids."""
    consumer, _ = reading
    routes = consumer._shell.engine.network._routes.values()
    ranges = next(route.connection.ranges for route in routes if route.connection is not None)
    highest = {api.__name__: choose_version(api, ranges, 1) for api in
               (FetchRequest, MetadataRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest)}  # fmt: skip
    assert highest == {
        "FetchRequest": 12,
        "MetadataRequest": 11,
        "ListOffsetsRequest": 6,
        "OffsetForLeaderEpochRequest": 4,
    }


def test_questions_to_an_old_broker(kafka28: KafkaCluster, reading: tuple[Consumer[Any, Any], str]) -> None:
    """Every method that asks something."""
    consumer, topic = reading
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert topic in consumer.topics()
    assert consumer.partitions_for_topic(topic) == {0, 1}
    assert consumer.partitions_for_topic("missing") is None
    assert consumer.beginning_offsets(tps) == dict.fromkeys(tps, 0)
    assert consumer.end_offsets(tps) == dict.fromkeys(tps, 50)
    assert consumer.lag() == dict.fromkeys(tps, 0)
    found = consumer.offsets_for_times({tps[0]: 0, tps[1]: 2**42})
    first = found[tps[0]]
    assert first is not None
    assert first.offset == 0
    assert found[tps[1]] is None
    kafka28.delete_records(topic, 0, 20)
    consumer.seek(tps[0], 3)
    offsets = [record.offset for record in consumer.read_to_end()]
    assert offsets == list(range(20, 50)), "expiry leads to the log's start"


def _created(cluster: KafkaCluster, topic: str) -> bool:
    """Whether the topic could be created: ZooKeeper may still be deleting the old one when no broker knows it."""
    from kafka.errors import TopicAlreadyExistsError

    try:
        return bool(cluster.create_topic(topic, 2))
    except TopicAlreadyExistsError:
        return False


def test_a_topic_deleted_and_created_again_on_an_old_broker(
    kafka28: KafkaCluster, reading: tuple[Consumer[Any, Any], str]
) -> None:
    """Metadata names topic ids here although Fetch does not: the new topic is read from its start."""
    consumer, topic = reading
    kafka28.delete_topic(topic)
    wait_for(lambda: _created(kafka28, topic), 20, f"{topic} created again")
    filling.write(filling.producer(kafka28.bootstrap), topic, range(60))
    got: list[int] = []
    for _ in range(100):
        for records in consumer.poll(200).values():
            got += [record.offset for record in records]
        if len(got) == 60:
            break
    assert sorted(got) == sorted([*range(30), *range(30)])
