"""The builder: transactions, markers, and batches as the leader appends them."""

import pytest
from handmade import encode_record, varint_of
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from thinconsumer.records.batch import HEADER_SIZE, ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer_testing.broker.log.validation import restamp

RECORDS = [NewRecord(b"a", timestamp=1000), NewRecord(b"b", b"k", [("h", None)], 1005)]


def theirs(data):
    (batch,) = MemoryRecords(data)
    assert batch.validate_crc()
    return batch


def test_idempotent_and_transactional_fields():
    batch = theirs(
        build_batch(RECORDS, producer_id=77, producer_epoch=3, base_sequence=40, transactional=True, leader_epoch=5)
    )
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 40)
    assert batch.is_transactional
    assert not batch.is_control_batch
    assert (batch.leader_epoch, batch.first_timestamp, batch.max_timestamp) == (5, 1000, 1005)
    assert (batch.base_offset, batch.last_offset, batch.records_count) == (0, 1, 2)


def test_other_clients_read_the_marker():
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        batch = theirs(build_marker(kind, producer_id=77, producer_epoch=3, base_offset=9, timestamp=1000))
        assert batch.is_control_batch
        assert batch.is_transactional
        (record,) = batch
        assert (record.abort, record.commit) == (kind is ControlType.ABORT, kind is ControlType.COMMIT)


def test_restamp_sets_offset_and_epoch_and_keeps_the_checksum():
    produced = build_batch(RECORDS)
    appended = restamp(produced, 500, 12)
    assert theirs(appended).base_offset == 500
    assert theirs(appended).leader_epoch == 12
    assert appended[16:] == produced[16:]


def test_restamp_sets_log_append_time(only_batch):
    batch = only_batch(restamp(build_batch(RECORDS), 500, 12, log_append_time=9999))
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in batch.decode("t", 0)] == [(500, 9999, 1), (501, 9999, 1)]


def encode_byte_by_byte(record, offset_delta, timestamp_delta):
    """Return one record encoded as Kafka's documentation describes it, without lookup tables."""

    def sized(out, data):
        out += varint_of(-1 if data is None else len(data))
        out += data or b""

    body = bytearray(1)
    body += varint_of(timestamp_delta)
    body += varint_of(offset_delta)
    sized(body, record.key)
    sized(body, record.value)
    body += varint_of(len(record.headers))
    for name, data in record.headers:
        sized(body, name.encode())
        sized(body, data)
    out = bytearray()
    out += varint_of(len(body))
    return bytes(out + body)


@given(data=st.data())
@settings(max_examples=200)
def test_any_record_is_encoded_as_documented(data, record_lists):
    records = data.draw(record_lists)
    base = records[0].timestamp
    laid_out = b"".join(encode_byte_by_byte(r, n, r.timestamp - base) for n, r in enumerate(records))
    assert build_batch(records)[HEADER_SIZE:] == laid_out


@pytest.mark.parametrize("edge", [62, 63, 64, 65, 8191 // 2, 4094, 4095, 4096, 4097, 8191, 8192, 1 << 20, 1 << 21])
def test_numbers_around_the_widths_of_varints_and_the_end_of_the_table(edge):
    """Each varint in turn: the sizes of value, key and record, and both deltas."""
    for size in range(max(0, edge - 12), edge + 2):
        record = NewRecord(bytes(size))
        assert encode_record(record, 0, 0) == encode_byte_by_byte(record, 0, 0)
    record = NewRecord(b"v", bytes(edge))
    assert encode_record(record, edge, edge) == encode_byte_by_byte(record, edge, edge)
    assert encode_record(record, edge, -edge) == encode_byte_by_byte(record, edge, -edge)


def test_an_empty_batch_has_no_records():
    """Compaction leaves such batches."""
    assert build_batch([], last_offset_delta=4)[HEADER_SIZE:] == b""
