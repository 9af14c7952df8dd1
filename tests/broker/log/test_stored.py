"""Stored batches, and the exception for rejected ones."""

import pickle

import pytest

from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.log.stored import AppendRefused, StoredBatch


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
