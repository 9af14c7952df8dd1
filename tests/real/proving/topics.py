"""Topics of every kind there is, each filled in another way, for tests that compare what readers make of them.

They have codecs of three producers, transactions, compaction, deletion and odd headers. Topics named ``compacted...``
need a cluster of our own, since only a broker's files show whether the log cleaner has run.
"""

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from realkafka import KafkaCluster, wait_for

from . import filling
from .java import run_java

#: Old timestamps must not make a broker delete what was just written.
KEEP = {"retention.ms": -1}
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": 50,
    "min.cleanable.dirty.ratio": 0.001,
    "min.compaction.lag.ms": 0,
}


def _by_librdkafka(codec: str) -> Callable[[KafkaCluster, str], None]:
    def fill(cluster: KafkaCluster, topic: str) -> None:
        filling.write(filling.producer(cluster.bootstrap, compression_type=codec), topic, range(2000))

    return fill


def _by_kafka_python(codec: str) -> Callable[[KafkaCluster, str], None]:
    def fill(cluster: KafkaCluster, topic: str) -> None:
        filling.write_like_kafka_python(cluster.bootstrap, topic, codec, 1500)

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
    file = cluster.folder / "data-1" / "cleaner-offset-checkpoint"
    rows = [row.split() for row in file.read_text().splitlines()] if file.exists() else []
    return next((int(row[2]) for row in rows if row[:2] == [topic, str(partition)]), 0)


#: name: (how it is filled, partitions, extra topic configuration)
TOPICS: dict[str, tuple[Callable[[KafkaCluster, str], None], int, dict[str, Any]]] = {
    **{f"librdkafka-{codec}": (_by_librdkafka(codec), 2, {}) for codec in filling.CODECS},
    **{f"kafka-python-{codec}": (_by_kafka_python(codec), 2, {}) for codec in filling.CODECS if codec != "snappy"},
    **{f"java-{codec}": (_nothing, 2, {}) for codec in filling.CODECS},  # one JVM fills them all
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


def fill(cluster: KafkaCluster, names: Mapping[str, str]) -> None:
    """Make the topics of these kinds, by the names that they are to have on the cluster."""
    java = [f"{codec}={names[f'java-{codec}']}" for codec in filling.CODECS if f"java-{codec}" in names]
    for kind, name in names.items():
        _, partitions, config = TOPICS[kind]
        cluster.create_topic(name, partitions, config=KEEP | config)
    with ThreadPoolExecutor() as pool:  # transactions and compaction wait for the broker most of the time
        done = [pool.submit(TOPICS[kind][0], cluster, name) for kind, name in names.items()]
        if java:
            done.append(pool.submit(run_java, "ProduceRecords.java", cluster.bootstrap, "2000", *java))
    for each in done:
        each.result()
