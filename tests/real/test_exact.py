"""Must hold: whatever was written, and however, is read exactly as the Java consumer reads it.

Every topic is filled in another way, dumped by the Java consumer under both isolation levels, and read by ours with
usual limits and with limits so small that most answers end inside a batch. Positions must end where Java's do, behind
control batches and holes too, and lag must be 0 there.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from proving import filling
from proving.java import run_java
from proving.lines import ISOLATIONS, by_java, by_us
from realkafka import KafkaCluster, wait_for

pytestmark = pytest.mark.timeout(300)

#: Old timestamps must not make a broker delete what was just written.
KEEP = {"retention.ms": -1}
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": 50,
    "min.cleanable.dirty.ratio": 0.001,
    "min.compaction.lag.ms": 0,
}
SMALL = {"max_partition_fetch_bytes": 1500, "fetch_max_bytes": 4000}


def _by_librdkafka(codec: str) -> Callable[[KafkaCluster, str], None]:
    def fill(cluster: KafkaCluster, topic: str) -> None:
        filling.write(filling.producer(cluster.bootstrap, compression_type=codec), topic, range(2000))

    return fill


def _by_kafka_python(codec: str) -> Callable[[KafkaCluster, str], None]:
    def fill(cluster: KafkaCluster, topic: str) -> None:
        filling.write_like_kafka_python(cluster.bootstrap, topic, codec, 1500)

    return fill


def _by_java(codec: str) -> Callable[[KafkaCluster, str], None]:
    def fill(cluster: KafkaCluster, topic: str) -> None:
        """One JVM fills all of Java's topics, see the fixture."""

    return fill


def _transactions(cluster: KafkaCluster, topic: str) -> None:
    filling.interleave_transactions(cluster.bootstrap, topic, rounds=150)


def _stamped_by_the_broker(cluster: KafkaCluster, topic: str) -> None:
    for codec in ("zstd", "none"):
        filling.write(filling.producer(cluster.bootstrap, compression_type=codec), topic, range(400))


def _odd_headers(cluster: KafkaCluster, topic: str) -> None:
    filling.write_odd_headers(cluster.bootstrap, topic)


def _nothing(cluster: KafkaCluster, topic: str) -> None:
    pass


def _large(cluster: KafkaCluster, topic: str) -> None:
    target = filling.producer(cluster.bootstrap, message_max_bytes=20_000_000)
    for n in range(6):
        target.produce(topic, bytes([n]) * (3_000_000 if n % 3 == 1 else 10), partition=n % 2)
        target.flush(30)


def _deleted_records(cluster: KafkaCluster, topic: str) -> None:
    # In one batch each, so that the log then starts in the middle of one.
    target = filling.producer(cluster.bootstrap, linger_ms=500, compression_type="lz4")
    filling.write(target, topic, range(400))
    cluster.delete_records(topic, 0, 77)


def _compacted(cluster: KafkaCluster, topic: str) -> None:
    """Holes within batches, batches that lost their tail, tombstones, and batches with nothing left in them."""
    target = filling.producer(cluster.bootstrap, enable_idempotence=True, compression_type="lz4", linger_ms=20)
    chance = random.Random(11)
    for round_ in range(4):
        for n in range(400):
            value = None if chance.random() < 0.2 else b"round %d, number %d" % (round_, n)
            target.produce(topic, value, b"key-%d" % chance.randrange(300), partition=n % 2)
        assert target.flush(30) == 0
        _roll_and_clean(cluster, topic)


def _compacted_transactions(cluster: KafkaCluster, topic: str) -> None:
    for seed in range(2):
        filling.interleave_transactions(cluster.bootstrap, topic, rounds=60, seed=seed, keys=30)
        _roll_and_clean(cluster, topic)


def _roll_and_clean(cluster: KafkaCluster, topic: str) -> None:
    """Close the segments that there are, which happens only on append, and wait until all closed ones were cleaned."""
    target = filling.producer(cluster.bootstrap)
    ends: dict[int, int] = {}
    for partition in (0, 1):
        target.produce(
            topic,
            b"end",
            b"end",
            partition=partition,
            on_delivery=lambda _, m: ends.update({m.partition(): m.offset()}),
        )
    assert target.flush(10) == 0

    def rolled() -> bool:
        for partition in ends:
            target.produce(topic, b"roll", b"roll", partition=partition)
        target.flush(10)
        return all(_active(cluster, topic, partition) > end for partition, end in ends.items())

    wait_for(rolled, 10, f"{topic}: a new segment behind {ends}")
    # A batch without keys cannot be left: an open transaction holds the cleaner back, so there must be none.
    wait_for(
        lambda: all(_cleaned(cluster, topic, p) > end for p, end in ends.items()), 30, f"{topic} cleaned to {ends}"
    )


def _active(cluster: KafkaCluster, topic: str, partition: int) -> int:
    return max(int(file.stem) for file in cluster.data_folder(1, topic, partition).glob("*.log"))


def _cleaned(cluster: KafkaCluster, topic: str, partition: int) -> int:
    """Return the first offset that the cleaner has not been over."""
    file = cluster.folder / "data-1" / "cleaner-offset-checkpoint"
    rows = [row.split() for row in file.read_text().splitlines()] if file.exists() else []
    return next((int(row[2]) for row in rows if row[:2] == [topic, str(partition)]), 0)


#: name: (how it is filled, partitions, extra topic configuration)
TOPICS: dict[str, tuple[Callable[[KafkaCluster, str], None], int, dict[str, Any]]] = {
    **{f"librdkafka-{codec}": (_by_librdkafka(codec), 2, {}) for codec in filling.CODECS},
    **{f"kafka-python-{codec}": (_by_kafka_python(codec), 2, {}) for codec in filling.CODECS if codec != "snappy"},
    **{f"java-{codec}": (_by_java(codec), 2, {}) for codec in filling.CODECS},
    "transactions": (_transactions, 2, {}),
    "log-append-time": (_stamped_by_the_broker, 2, {"message.timestamp.type": "LogAppendTime"}),
    "recompressed": (_by_librdkafka("gzip"), 2, {"compression.type": "zstd"}),
    "odd-headers": (_odd_headers, 1, {}),
    "empty": (_nothing, 3, {}),
    "large": (_large, 2, {"max.message.bytes": 20_000_000}),
    "deleted-records": (_deleted_records, 2, {}),
    "compacted": (_compacted, 2, COMPACT | {"delete.retention.ms": 86_400_000}),
    "compacted-tombstones-gone": (_compacted, 2, COMPACT | {"delete.retention.ms": 1}),
    "compacted-transactions": (_compacted_transactions, 2, COMPACT | {"delete.retention.ms": 1}),
}


@pytest.fixture(scope="module")
def filled(kafka: KafkaCluster) -> tuple[str, dict[str, str], dict[tuple[str, str], list[str]]]:
    """Bootstrap address, real topic names, and what Java sees of them: by isolation level and real name."""
    run = uuid.uuid4().hex[:6]
    ours = isinstance(kafka, KafkaCluster)  # when the cleaner has been there shows only in a broker's files
    names = {name: f"exact-{name}-{run}" for name in TOPICS if ours or not name.startswith("compacted")}
    for name in names:
        fill, partitions, config = TOPICS[name]
        kafka.create_topic(names[name], partitions, config=KEEP | config)
        fill(kafka, names[name])
    run_java("ProduceRecords.java", kafka.bootstrap, "2000", *(f"{c}={names[f'java-{c}']}" for c in filling.CODECS))
    return kafka.bootstrap, names, by_java(kafka.bootstrap, names.values())


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("name", TOPICS)
def test_yields_what_java_yields(filled: Any, name: str, isolation: str) -> None:
    """Every record, in every field, and where positions end; with usual limits and tiny ones."""
    bootstrap, names, java = filled
    if name not in names:
        pytest.skip("needs a cluster of our own")
    expected = java[isolation, names[name]]
    least = {"empty": 3, "large": 6, "compacted-transactions": 30, "compacted": 60, "compacted-tombstones-gone": 60}
    assert len(expected) >= least.get(name, 300), "there is too little to compare"
    assert by_us(bootstrap, names[name], isolation) == expected
    assert by_us(bootstrap, names[name], isolation, **SMALL) == expected


def test_there_is_something_to_get_wrong(filled: Any) -> None:
    """The topics contain what they are here for: holes, tombstones, aborted records, ends behind the last record."""
    _, names, java = filled

    def offsets(name: str, isolation: str = "read_uncommitted") -> list[int]:
        return [
            int(row.split("\t")[2])
            for row in java[isolation, names[name]]
            if row.split("\t")[1] == "0" and "ends" not in row
        ]

    if "compacted" not in names:
        pytest.skip("needs a cluster of our own")
    for name in ("compacted", "compacted-tombstones-gone"):
        assert offsets(name)[-1] - offsets(name)[0] > 1.5 * len(offsets(name)), f"{name} has hardly any holes"
    tombstones = {n: sum("\tnull\t" in row for row in java["read_uncommitted", names[n]]) for n in names}
    assert tombstones["compacted"] > tombstones["compacted-tombstones-gone"]
    assert len(offsets("transactions", "read_committed")) < 0.9 * len(offsets("transactions"))
    assert offsets("deleted-records")[0] == 77
