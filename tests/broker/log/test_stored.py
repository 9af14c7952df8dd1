"""Stored batches, and the exception for rejected ones."""

import pickle

import pytest

from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.log.stored import AppendRefused, StoredBatch


def test_stored_batch_matches_its_header():
    data = build_batch(
        [NewRecord(b"a", timestamp=3), NewRecord(b"b", timestamp=9)],
        base_offset=7, codec=1, leader_epoch=4, producer_id=5, producer_epoch=6, base_sequence=8, transactional=True,
    )  # fmt: skip
    batch = StoredBatch.of(data)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.record_count) == (7, 8, 9, 2)
    assert (batch.base_timestamp, batch.max_timestamp, batch.leader_epoch) == (3, 9, 4)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (5, 6, 8, 9)
    assert (batch.is_control, batch.is_transactional, batch.has_log_append_time) == (False, True, False)
    assert (batch.codec, batch.delete_horizon_ms) == (1, None)
    assert batch.data is data


def test_attribute_flags():
    assert StoredBatch.of(build_marker(ControlType.ABORT, producer_id=1)).is_control
    assert StoredBatch.of(build_batch([NewRecord(None, b"k", timestamp=1)], delete_horizon=77)).delete_horizon_ms == 77
    assert StoredBatch.of(build_batch([NewRecord(b"v")], log_append_time=5)).has_log_append_time


@pytest.mark.parametrize(
    ("first", "count", "last"),
    [(0, 1, 0), (-1, 2, -1), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 2, 0), (2**31 - 2, 5, 2)],
)
def test_sequence_numbers_wrap(first, count, last):
    data = build_batch([NewRecord(b"v")] * count, producer_id=1, base_sequence=first)
    assert StoredBatch.of(data).last_sequence == last


def test_append_refused_has_a_message_and_can_be_pickled():
    refused = AppendRefused(Code.INVALID_RECORD, "two of them", [(1, "no key")])
    assert str(refused) == "error 87: two of them"
    again = pickle.loads(pickle.dumps(refused))
    assert (again.code, again.message, again.record_errors) == (87, "two of them", [(1, "no key")])
