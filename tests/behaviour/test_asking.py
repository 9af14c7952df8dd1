"""Queries about a cluster: topics, partitions, beginning and end offsets, offsets for times."""

import pytest

from thinconsumer import KafkaTimeoutError, OffsetAndTimestamp, TopicPartition
from thinconsumer.records.builder import NewRecord

DAY = 1_700_000_000_000


def test_topics_and_partitions(world):
    topic = world.topic(partitions=4)
    with world.consumer() as consumer:
        assert topic in consumer.topics()
        assert consumer.partitions_for_topic(topic) == {0, 1, 2, 3}
        assert consumer.partitions_for_topic(f"{topic}-none") is None


def test_both_ends(world):
    topic = world.topic(partitions=2)
    tps = [TopicPartition(topic, p) for p in range(2)]
    world.write(topic, [b"a"] * 7, partition=1)
    world.delete_records(topic, 1, 3)
    with world.consumer() as consumer:
        assert consumer.beginning_offsets(tps) == {tps[0]: 0, tps[1]: 3}
        assert consumer.end_offsets(tps) == {tps[0]: 0, tps[1]: 7}


@pytest.mark.parametrize("codec", [0, 4], ids=["none", "zstd"])
def test_offsets_for_times(world, codec):
    """The first record at or after the time, within its batch too; None after the last."""
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [NewRecord(b"a", timestamp=DAY + n * 10) for n in range(5)], codec=codec)
    world.write(topic, [NewRecord(b"b", timestamp=DAY + 100 + n * 10) for n in range(5)], codec=codec)
    with world.consumer() as consumer:

        def found(timestamp):
            return consumer.offsets_for_times({tp: timestamp})[tp]

        assert found(DAY - 5) == OffsetAndTimestamp(0, DAY, 0)
        assert found(DAY + 20) == OffsetAndTimestamp(2, DAY + 20, 0)
        assert found(DAY + 21) == OffsetAndTimestamp(3, DAY + 30, 0)
        assert found(DAY + 41) == OffsetAndTimestamp(5, DAY + 100, 0)
        assert found(DAY + 141) is None


def test_times_out_of_order(world):
    """The result is the lowest offset with a timestamp not before the requested one."""
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [NewRecord(b"a", timestamp=DAY + t) for t in (50, 10, 70, 20)])
    with world.consumer() as consumer:
        assert consumer.offsets_for_times({tp: DAY + 15})[tp] == OffsetAndTimestamp(0, DAY + 50, 0)
        assert consumer.offsets_for_times({tp: DAY + 60})[tp] == OffsetAndTimestamp(2, DAY + 70, 0)


def test_a_topic_that_does_not_exist(world):
    """Asking fails with its name; polling waits for it to appear."""
    name = world.name()
    tp = TopicPartition(name, 0)
    with world.consumer(auto_offset_reset="earliest", metadata_max_age_ms=500, default_api_timeout_ms=3000) as consumer:
        with pytest.raises(KafkaTimeoutError, match=name):
            consumer.end_offsets([tp])
        consumer.assign([tp])
        assert consumer.poll(timeout_ms=300) == {}
        world.topic(name=name)
        world.write(name, [b"at last"])
        deadline = world.now() + 20
        while not (records := consumer.poll(timeout_ms=200)):
            assert world.now() < deadline
        assert records[tp][0].value == b"at last"


def test_nodes_are_connected_when_asked_for(world):
    with world.consumer() as consumer:
        consumer.bootstrap(timeout_ms=10_000)
        assert consumer.bootstrap_connected()
