"""Reading assigned partitions returns each record once and in order, from the requested position."""

import pytest

from thinconsumer import OffsetAndMetadata, OffsetOutOfRangeError, TopicPartition, WakeupError
from thinconsumer.records.builder import NewRecord


def values(records):
    return [record.value for record in records]


def nothing_comes(world, consumer, seconds=0.6):
    deadline = world.now() + seconds
    while world.now() < deadline:
        assert consumer.poll(timeout_ms=100) == {}


def test_everything_is_read_once_and_in_order(world):
    topic = world.topic(partitions=3)
    for n in range(30):
        world.write(topic, [b"%d" % n], partition=n % 3)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(3)])
        found = world.read(consumer, 30)
        nothing_comes(world, consumer)
    assert sorted(int(record.value) for record in found) == list(range(30))
    for partition in range(3):
        mine = [record for record in found if record.partition == partition]
        assert [record.offset for record in mine] == list(range(10))
        assert values(mine) == [b"%d" % n for n in range(30) if n % 3 == partition]


@pytest.mark.parametrize("codec", [0, 1, 3, 4], ids=["none", "gzip", "lz4", "zstd"])
def test_keys_values_headers_and_times_arrive_as_written(world, codec):
    topic = world.topic()
    written = [
        NewRecord(b"v", b"k", [("a", b"1"), ("a", None)], 1_700_000_000_000),
        NewRecord(None, b"tombstone", (), 1_700_000_000_001),
        NewRecord(b"", None, (), 1_700_000_000_005),
        NewRecord(b"x" * 5000, b"", [("größe", b"\xff")], 1_700_000_000_003),
    ]
    world.write(topic, written, codec=codec)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = world.read(consumer, 4)
    assert [(r.value, r.key, list(r.headers), r.timestamp) for r in found] == [
        (w.value, w.key, list(w.headers), w.timestamp) for w in written
    ]
    assert {record.timestamp_type for record in found} == {0}
    assert {record.leader_epoch for record in found} == {0}


def test_log_append_time_is_the_brokers(world):
    topic = world.topic(**{"message.timestamp.type": "LogAppendTime"})
    world.write(topic, [NewRecord(b"a", timestamp=1), NewRecord(b"b", timestamp=2)])
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = world.read(consumer, 2)
    assert [record.timestamp_type for record in found] == [1, 1]
    assert found[0].timestamp == found[1].timestamp > 1_600_000_000_000


def test_max_records_bounds_a_poll_and_nothing_is_left_out(world):
    topic = world.topic()
    world.write(topic, [b"%d" % n for n in range(100)])
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = []
        while len(found) < 100:
            records = consumer.poll(timeout_ms=5000, max_records=7)
            assert 0 < sum(map(len, records.values())) <= 7
            found += [record.offset for batch in records.values() for record in batch]
    assert found == list(range(100))


def test_latest_begins_with_what_comes_after(world):
    topic = world.topic()
    world.write(topic, [b"old"])
    tp = TopicPartition(topic, 0)
    with world.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == 1
        world.write(topic, [b"new"])
        assert values(world.read(consumer, 1)) == [b"new"]


def test_seek_goes_anywhere_and_position_follows(world):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    for n in range(0, 50, 5):
        world.write(topic, [b"%d" % m for m in range(n, n + 5)])
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        for wanted in (43, 7, 0, 49, 12):
            consumer.seek(tp, wanted)
            assert consumer.position(tp) == wanted
            (record,) = world.read(consumer, 1, max_records=1)
            assert (record.offset, record.value) == (wanted, b"%d" % wanted)
            assert consumer.position(tp) == wanted + 1
        consumer.seek(tp, OffsetAndMetadata(3, "", 0))
        assert world.read(consumer, 1, max_records=1)[0].offset == 3


def test_seek_to_either_end(world):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"a", b"b", b"c"])
    with world.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        consumer.seek_to_end(tp)
        assert consumer.position(tp) == 3
        consumer.seek_to_beginning(tp)
        assert values(world.read(consumer, 3)) == [b"a", b"b", b"c"]


def test_an_old_answer_is_not_delivered_after_a_seek(world):
    """Seek while a fetch is out: what comes is from the new place."""
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"%d" % n for n in range(20)])
    with world.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=50) as consumer:
        consumer.assign([tp])
        assert consumer.position(tp) == 0
        consumer.poll(timeout_ms=0)
        consumer.seek(tp, 15)
        consumer.poll(timeout_ms=0)
        consumer.seek(tp, 10)
        assert [record.offset for record in world.read(consumer, 10)] == list(range(10, 20))


def test_what_is_written_while_polling_comes_at_once(world):
    """A long poll ends with the first record, not with its time."""
    topic = world.topic()
    with world.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=5000) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        nothing_comes(world, consumer)
        began = world.now()
        world.write(topic, [b"now"])
        assert values(world.read(consumer, 1)) == [b"now"]
        assert world.now() - began < 2.5


def test_pause_and_resume(world):
    topic = world.topic(partitions=2)
    tps = [TopicPartition(topic, p) for p in range(2)]
    for tp in tps:
        world.write(topic, [b"%d" % tp.partition] * 3, partition=tp.partition)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(tps)
        consumer.pause(tps[0])
        assert {record.partition for record in world.read(consumer, 3)} == {1}
        nothing_comes(world, consumer)
        assert consumer.paused() == {tps[0]}
        assert consumer.position(tps[0]) == 0
        consumer.resume(tps[0])
        assert {record.partition for record in world.read(consumer, 3)} == {0}


def test_assign_anew_keeps_the_place_of_what_stays(world):
    topic = world.topic(partitions=2)
    tps = [TopicPartition(topic, p) for p in range(2)]
    for tp in tps:
        world.write(topic, [b"%d" % n for n in range(10)], partition=tp.partition)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tps[0]])
        assert [record.offset for record in world.read(consumer, 4, max_records=4)] == [0, 1, 2, 3]
        consumer.assign(tps)
        found = world.read(consumer, 16)
        assert [record.offset for record in found if record.partition == 0] == list(range(4, 10))
        assert [record.offset for record in found if record.partition == 1] == list(range(10))
        consumer.assign([tps[1]])
        world.write(topic, [b"unwanted"], partition=0)
        world.write(topic, [b"wanted"], partition=1)
        assert values(world.read(consumer, 1)) == [b"wanted"]


def test_iteration_reads_until_nothing_comes(world):
    topic = world.topic()
    world.write(topic, [b"%d" % n for n in range(25)])
    with world.consumer(auto_offset_reset="earliest", consumer_timeout_ms=800) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.offset for record in consumer] == list(range(25))


def test_read_to_end_stops_at_the_end_there_was(world):
    topic = world.topic(partitions=2)
    world.write(topic, [b"a"] * 5, partition=0)
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(2)])
        assert [(record.partition, record.offset) for record in consumer.read_to_end(timeout_ms=20_000)] == [
            (0, n) for n in range(5)
        ]


def test_wakeup_ends_the_poll_it_meets(world):
    topic = world.topic()
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=60_000)
        world.write(topic, [b"after"])
        assert values(world.read(consumer, 1)) == [b"after"]


def test_a_big_record_comes_through_small_limits(world):
    """At least one batch is returned whatever the limits say (KIP-74)."""
    topic = world.topic()
    world.write(topic, [b"x" * 200_000])
    world.write(topic, [b"y" * 100])
    with world.consumer(auto_offset_reset="earliest", max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [len(record.value) for record in world.read(consumer, 2)] == [200_000, 100]


def test_many_batches_through_small_limits(world):
    """The answer's last batch may be cut off; nothing is lost or doubled by that."""
    topic = world.topic(partitions=2)
    for n in range(40):
        world.write(topic, [b"%05d" % n * 40] * 3, partition=n % 2)
    with world.consumer(auto_offset_reset="earliest", max_partition_fetch_bytes=1500, fetch_max_bytes=2500) as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(2)])
        found = world.read(consumer, 120)
    for partition in range(2):
        assert [r.offset for r in found if r.partition == partition] == list(range(60))


def test_highwater_and_lag(world):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"%d" % n for n in range(10)])
    with world.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        world.read(consumer, 4, max_records=4)
        assert consumer.highwater(tp) == 10
        assert consumer.lag() == {tp: 6}


def test_none_raises_when_there_is_no_place_to_begin(world):
    topic = world.topic()
    tp = TopicPartition(topic, 0)
    world.write(topic, [b"a"])
    with world.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 100)
        with pytest.raises(OffsetOutOfRangeError) as raised:
            world.read(consumer, 1)
        assert raised.value.position == 100
        with pytest.raises(OffsetOutOfRangeError):
            next(iter(consumer))  # again: it has no deadline, and would wait for ever
        consumer.seek(tp, 0)
        assert values(world.read(consumer, 1)) == [b"a"]
