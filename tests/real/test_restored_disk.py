"""The disk of a single broker is replaced by an older copy, with lower leader epochs than clients have seen."""

import shutil
import time
from collections.abc import Iterator

import pytest
from realkafka import KafkaCluster, produce
from realkafka.fixtures import start

from thinconsumer import Consumer, TopicPartition

RESTARTS = 3
#: Seconds within which a record is read that was written after the copy was put back.
SOON = 10.0


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Return a broker of this test alone: all its topics go back in time."""
    yield from start(request)


def poll_until(consumer: Consumer, count: int, seconds: float) -> list[bytes]:
    """Return the values of the first ``count`` records, or of those that came within ``seconds``."""
    values: list[bytes] = []
    end = time.monotonic() + seconds
    while len(values) < count and time.monotonic() < end:
        values += [bytes(record.value) for records in consumer.poll(100).values() for record in records]
    return values


def test_reading_goes_on_after_the_disk_was_restored_from_a_copy(broker, new_topic, tmp_path, caplog):
    topic = new_topic(broker)
    tp = TopicPartition(topic, 0)
    produce.with_confluent(broker.bootstrap, topic, produce.numbered(3))
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert poll_until(consumer, 3, 30) == [b"0", b"1", b"2"]
        broker.kill(1)
        data, copy = broker.folder / "data-1", tmp_path / "copy"
        shutil.copytree(data, copy)
        for _ in range(RESTARTS):
            broker.restart(1)
            broker.wait_for_partitions(topic, 1)
            assert poll_until(consumer, 1, 1.0) == [], "the consumer meets the new leader epoch"
            broker.kill(1)
        shutil.rmtree(data)
        copy.rename(data)
        broker.restart(1)
        broker.wait_for_partitions(topic, 1)
        produce.with_confluent(broker.bootstrap, topic, produce.numbered(1))
        began = time.monotonic()
        assert poll_until(consumer, 1, SOON) == [b"0"], consumer.health()
        assert consumer.position(tp) == 4
        print(f"read {time.monotonic() - began:.1f} s after it was written")
    assert "leader epoch" in caplog.text, "the copy has a lower leader epoch than the consumer has seen"
