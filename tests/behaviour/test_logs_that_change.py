"""Logs are not arrays: records are deleted, compacted, rolled back; topics grow, vanish and return."""

import pytest

from thinconsumer import OffsetOutOfRangeError, TopicPartition
from thinconsumer.records.builder import NewRecord


@pytest.mark.parametrize(("policy", "first"), [("earliest", 60), ("latest", None), ("none", None)])
def test_records_deleted_under_the_position(world, policy, first):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    for n in range(10):
        world.write(topic, [b"%d" % m for m in range(n * 10, n * 10 + 10)])
    world.delete_records(topic, 0, 60)
    with world.consumer(auto_offset_reset=policy) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 30)
        if policy == "none":
            with pytest.raises(OffsetOutOfRangeError) as raised:
                world.read(consumer, 1)
            assert (raised.value.position, raised.value.log_start, raised.value.log_end) == (30, 60, 100)
        elif policy == "latest":
            deadline = world.now() + 20
            while consumer.position(tp) != 100:
                consumer.poll(timeout_ms=100)
                assert world.now() < deadline
        else:
            assert world.read(consumer, 40)[0].offset == first


def test_the_logs_start_may_lie_within_a_batch(world):
    """Records below it are not delivered, although their batch is."""
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"%d" % n for n in range(10)])
    world.delete_records(topic, 0, 4)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert [record.offset for record in world.read(consumer, 6)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_transactions(world, isolation):
    """Markers are skipped, and aborted records are returned under read_uncommitted only."""
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"plain"])
    world.transaction(topic, [b"good-1", b"good-2"], commit=True)
    world.transaction(topic, [b"bad-1", b"bad-2"], commit=False)
    world.transaction(topic, [b"good-3"], commit=True)
    world.write(topic, [b"last"])
    wanted = [b"plain", b"good-1", b"good-2", b"bad-1", b"bad-2", b"good-3", b"last"]
    if isolation == "read_committed":
        wanted = [value for value in wanted if not value.startswith(b"bad")]
    with world.consumer(auto_offset_reset="earliest", isolation_level=isolation) as consumer:
        consumer.assign([tp])
        found = world.read(consumer, len(wanted))
        assert [record.value for record in found] == wanted
        assert consumer.poll(timeout_ms=300) == {}
        assert consumer.position(tp) == found[-1].offset + 1 == 10
        assert consumer.lag() == {tp: 0}


def test_an_open_transaction_holds_readers_of_committed_back(world):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"before"])
    open_one = world.begin(topic, [b"pending"])
    world.write(topic, [b"after"])
    with (
        world.consumer(auto_offset_reset="earliest", isolation_level="read_committed") as committed,
        world.consumer(auto_offset_reset="earliest") as uncommitted,
    ):
        committed.assign([tp])
        uncommitted.assign([tp])
        assert [r.value for r in world.read(uncommitted, 3)] == [b"before", b"pending", b"after"]
        assert [r.value for r in world.read(committed, 1)] == [b"before"]
        assert committed.poll(timeout_ms=300) == {}
        assert committed.end_offsets([tp]) == {tp: 1}
        assert uncommitted.end_offsets([tp]) == {tp: 3}
        world.end(open_one, commit=True)
        assert [r.value for r in world.read(committed, 2)] == [b"pending", b"after"]


def test_partitions_added_while_the_topic_is_read(world):
    """Under latest, what was written to a new partition before it was noticed is not skipped."""
    topic = world.topic()
    with world.consumer(auto_offset_reset="latest", metadata_max_age_ms=500) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.position(TopicPartition(topic, 0)) == 0
        world.expand(topic, 3)
        for partition in range(3):
            world.write(topic, [b"%d" % partition] * 2, partition=partition)
        consumer.assign([TopicPartition(topic, p) for p in range(3)])
        assert sorted(record.value for record in world.read(consumer, 6)) == [b"0"] * 2 + [b"1"] * 2 + [b"2"] * 2


def test_a_topic_deleted_and_created_again_is_another_one(world):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"old-%d" % n for n in range(5)])
    with world.consumer(auto_offset_reset="earliest", metadata_max_age_ms=500) as consumer:
        consumer.assign([tp])
        assert len(world.read(consumer, 5)) == 5
        world.delete_topic(topic)
        consumer.poll(timeout_ms=300)
        world.topic(name=topic)
        world.write(topic, [b"new-%d" % n for n in range(8)])
        assert [(r.offset, r.value) for r in world.read(consumer, 8)] == [(n, b"new-%d" % n) for n in range(8)]


def test_compacted_topics_are_read_across_their_holes(world):
    """The last value of each key, at its own offset; the position goes over what is gone."""
    topic = world.topic(**world.COMPACTED)
    tp = TopicPartition(topic, 0)
    for n in range(200):
        world.write(topic, [NewRecord(b"%d" % n, b"k%d" % (n % 3))])
    world.compact(topic)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        found = {}
        offsets = []
        deadline = world.now() + 30
        while consumer.position(tp) < 200:
            assert world.now() < deadline
            for record in (consumer.poll(timeout_ms=200) or {tp: []})[tp]:
                if record.offset < 200:  # behind them are those by which a real world begins new segments
                    found[record.key] = record.value
                    offsets.append(record.offset)
        assert found == {b"k%d" % k: b"%d" % max(n for n in range(200) if n % 3 == k) for k in range(3)}
        assert offsets == sorted(set(offsets))
        assert len(offsets) < 200, "nothing was compacted"
