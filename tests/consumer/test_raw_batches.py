"""``poll_raw``: what poll promises, for whole batches that are neither decompressed nor decoded."""

import pickle

import pytest

from thinconsumer import Consumer, CorruptRecordError, RawBatch, TopicPartition
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def extents(found):
    return {
        tp.partition: [(batch.base_offset, batch.next_offset) for batch in batches] for tp, batches in found.items()
    }


def records(*values, at=1000):
    return [NewRecord(value, b"k", (("h", b"1"),), timestamp=at + number) for number, value in enumerate(values)]


@pytest.mark.parametrize(("codec", "name"), [(0, "none"), (1, "gzip"), (3, "lz4"), (4, "zstd")])
def test_a_batch_is_the_bytes_of_the_log_and_the_fields_of_its_header(world, codec, name):
    w = world()
    written = build_batch(records(b"a", b"b", b"c"), codec=codec, producer_id=7, producer_epoch=2, base_sequence=0)
    w.cluster.append_batch(T0, written)
    consumer = w.consumer()
    (batch,) = consumer.poll_raw(1000)[T0]
    assert (batch.topic, batch.partition, batch.start, batch.count) == ("t", 0, 0, 3)
    assert (batch.base_offset, batch.next_offset) == (0, 3)
    assert (batch.codec, batch.magic, batch.timestamp_type) == (name, 2, 0)
    assert (batch.first_timestamp, batch.max_timestamp) == (1000, 1002)
    assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (7, 2, False)
    assert bytes(batch.data)[21:] == written[21:] and batch.size == len(written)  # offset and epoch are the leader's
    assert bytes(batch.records) == written[61:]
    consumer.seek(T0, 0)
    assert batch.decode() == consumer.poll(1000)[T0]


def test_positions_are_behind_what_was_returned_and_calls_can_be_mixed(world):
    w = world(topics={"t": 2})
    w.append(4)
    w.append(2)
    w.append(2, partition=1)
    consumer = w.consumer(("t", 0), ("t", 1))
    assert len(consumer.poll(1000, max_records=1)) == 1
    found = {}
    while sum(map(len, found.values())) < 3:
        found.update(extents(consumer.poll_raw(1000)))
    assert found == {0: [(0, 4), (4, 6)], 1: [(0, 2)]}
    assert (consumer.position(T0), consumer.position(T1)) == (6, 2)
    assert consumer.poll(0) == {} and consumer.poll_raw(0) == {}


def test_batches_come_until_their_size_reaches_the_limit(reading):
    w, consumer = reading(3)
    w.append(3)
    w.append(3)
    size = consumer.poll_raw(1000, max_bytes=1)[T0][0].size
    assert consumer.position(T0) == 3
    assert extents(consumer.poll_raw(1000, max_bytes=size + 1)) == {0: [(3, 6), (6, 9)]}


@pytest.mark.parametrize("way", ["a seek", "a poll of some records"])
def test_a_batch_with_the_position_inside_comes_whole_and_names_where_to_start(reading, way):
    w, consumer = reading(5)
    w.append(1)
    if way == "a seek":
        consumer.seek(T0, 3)
    else:
        assert len(consumer.poll(1000, max_records=3)[T0]) == 3
    first, second = consumer.poll_raw(1000)[T0]
    assert (first.base_offset, first.start, first.count) == (0, 3, 5)
    assert [record.offset for record in first.decode()] == [3, 4]
    assert (second.base_offset, second.start) == (5, 5)
    assert consumer.position(T0) == 6


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_aborted_batches_come_only_to_those_that_read_uncommitted(world, level):
    w = world()
    about = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    w.cluster.append_batch(T0, build_batch(records(b"aborted"), base_sequence=0, **about))
    w.append(1)
    w.cluster.append_batch(T0, build_marker(ControlType.ABORT, producer_id=7))
    w.cluster.append_batch(T0, build_batch(records(b"kept"), base_sequence=1, **about))
    w.cluster.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=7))
    consumer = w.consumer(isolation_level=level)
    found = []
    while consumer.position(T0) < 5:
        found += extents(consumer.poll_raw(1000)).get(0, [])
    assert found == ([(1, 2), (3, 4)] if level == "read_committed" else [(0, 1), (1, 2), (3, 4)])


def test_without_check_crcs_the_checksum_is_the_readers_business(world):
    w = world()
    broken = bytearray(build_batch(records(b"broken")))
    broken[-1] ^= 1
    w.cluster.append_batch(T0, bytes(broken))
    (batch,) = w.consumer(check_crcs=False).poll_raw(1000)[T0]
    with pytest.raises(CorruptRecordError):
        batch.decode()


def test_compaction_shows(world):
    w = world()
    kept = [NewRecord(b"a", timestamp=1), NewRecord(b"c", timestamp=3, offset=2)]
    w.cluster.append_batch(T0, build_batch(kept, last_offset_delta=4))
    w.cluster.append_batch(T0, build_batch([], last_offset_delta=2))
    w.cluster.append_batch(T0, build_batch(records(b"a"), delete_horizon=99))
    consumer = w.consumer()
    first, last = consumer.poll_raw(1000)[T0]
    assert (first.is_compacted, first.count, first.next_offset) == (True, 2, 5)
    assert (last.is_compacted, last.first_timestamp, last.base_offset) == (True, None, 8)
    assert consumer.position(T0) == 9


def test_a_batch_can_be_pickled_and_says_what_it_is(reading):
    _, consumer = reading(3)
    (batch,) = consumer.poll_raw(1000)[T0]
    again = pickle.loads(pickle.dumps(batch))
    assert isinstance(again, RawBatch) and again == batch and again.decode() == batch.decode()
    assert repr(batch) == f"<RawBatch t-0 offsets 0 to 2, 3 records, none, {batch.size} bytes>"


def test_an_unknown_codec_is_named_by_its_number(world):
    w = world()
    unknown = bytearray(build_batch(records(b"a"), codec=0))
    unknown[22] |= 5
    w.cluster.append_batch(T0, bytes(unknown))
    (batch,) = w.consumer(check_crcs=False).poll_raw(1000)[T0]
    assert batch.codec == "codec 5"


def test_nothing_is_needed_but_the_calls_of_a_consumer():
    """The name is there without an import of the module."""
    import thinconsumer

    assert thinconsumer.RawBatch is RawBatch and Consumer.poll_raw
