"""The header of a raw batch in all formats; what ``poll_raw`` returns is in tests/consumer/test_raw_batches.py."""

import pickle

import pytest
from handmade import build_legacy

from thinconsumer import TopicPartition
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.compression import Codec
from thinconsumer.records.raw_batch import RawBatch

T0 = TopicPartition("t", 0)
RECORDS = [NewRecord(b"%d" % n, b"k", timestamp=1000 + n) for n in range(5)]


@pytest.mark.parametrize(("magic", "codec"), [(0, Codec.NONE), (0, Codec.GZIP), (1, Codec.NONE), (1, Codec.LZ4)])
def test_messages_of_old_formats(magic, codec):
    records = RECORDS if codec else RECORDS[:1]
    data = build_legacy(records, magic=magic, codec=codec, base_offset=40)
    batch = RawBatch(T0, data, 0)
    assert (batch.magic, batch.codec, batch.count) == (magic, codec.name.lower(), 1)
    assert (batch.base_offset, batch.next_offset) == (40 + len(records) - 1, 40 + len(records))
    assert (batch.leader_epoch, batch.producer_id, batch.producer_epoch) == (-1, -1, -1)
    assert (batch.is_transactional, batch.is_compacted, batch.has_delete_horizon) == (False, False, False)
    assert bytes(batch.records) == bytes(batch.data) == data
    assert batch.timestamp_type == (0 if magic else -1) and batch.max_timestamp >= -1
    assert [record.offset for record in batch.decode()] == list(range(40, 40 + len(records)))


def test_log_append_time_is_the_time_of_all_records():
    batch = RawBatch(T0, build_batch(RECORDS, log_append_time=7777), 0)
    assert (batch.timestamp_type, batch.first_timestamp, batch.max_timestamp) == (1, 7777, 7777)


def test_decode_begins_at_the_start():
    batch = RawBatch(T0, build_batch(RECORDS, base_offset=10), 13)
    assert [record.offset for record in batch.decode()] == [13, 14]


def test_batches_are_equal_if_their_bytes_and_start_are():
    data = build_batch(RECORDS)
    batch = RawBatch(T0, data, 0)
    assert batch == pickle.loads(pickle.dumps(batch)) and hash(batch) == hash(RawBatch(T0, data, 0))
    assert batch != RawBatch(T0, data, 1) and batch != RawBatch(T0, build_batch(RECORDS[:4]), 0) and batch != data
