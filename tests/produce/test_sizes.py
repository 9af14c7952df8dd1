"""The upper bound of a record's bytes, compared with encoded batches."""

import pytest

from thinconsumer.produce.sizes import size_of
from thinconsumer.records.builder import NewRecord, build_batch


@pytest.mark.parametrize(
    "record",
    [
        NewRecord(None, None, (), 0),
        NewRecord(b"v" * 1000, b"k" * 100, (), 5),
        NewRecord(b"v", None, (("name", b"data"), ("é" * 50, None)), 5),
    ],
)
def test_a_record_takes_at_most_this_many_bytes(record):
    empty = len(build_batch([NewRecord(None, None, (), 0)]))
    assert len(build_batch([record])) - empty <= size_of(record)
