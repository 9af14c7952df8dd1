"""What the builder writes beyond what peers write: transactions, markers, appended batches."""

from __future__ import annotations

from kafka.record.memory_records import MemoryRecords

from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker, restamp

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


def test_marker_reads_as_one_elsewhere():
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        batch = theirs(build_marker(kind, producer_id=77, producer_epoch=3, base_offset=9, timestamp=1000))
        assert batch.is_control_batch
        assert batch.is_transactional
        (record,) = batch
        assert (record.abort, record.commit) == (kind is ControlType.ABORT, kind is ControlType.COMMIT)


def test_leader_stamps_offset_and_epoch_without_a_new_checksum():
    produced = build_batch(RECORDS)
    appended = restamp(produced, 500, 12)
    assert theirs(appended).base_offset == 500
    assert theirs(appended).leader_epoch == 12
    assert appended[16:] == produced[16:]


def test_leader_stamps_its_time(only):
    batch = only(restamp(build_batch(RECORDS), 500, 12, log_append_time=9999))
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in batch.decode("t", 0)] == [(500, 9999, 1), (501, 9999, 1)]
