"""Parsing of transaction markers, without exceptions on invalid ones."""

import pytest

from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer_testing.broker.log.markers import Marker, control_record, marker_of
from thinconsumer_testing.broker.log.stored import StoredBatch


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_marker_is_parsed(kind):
    data = build_marker(kind, producer_id=1, base_offset=90, timestamp=5, coordinator_epoch=7)
    assert marker_of(StoredBatch.of(data)) == Marker(kind == ControlType.ABORT, 7, 5)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [NewRecord(bytes(6), bytes(3))],
        [NewRecord(bytes(5), bytes(4))],
        [NewRecord(None, bytes(4))],
        [NewRecord(bytes(6), None)],
        [NewRecord(bytes(6), b"\0\0\0\2")],  # a KRaft leader change record
    ],
)
def test_other_control_batches_are_no_markers(records):
    assert marker_of(StoredBatch.of(build_batch(records, control=True))) is None


def test_invalid_markers_are_ignored():
    data = bytearray(build_marker(ControlType.ABORT, producer_id=1))
    data[61:] = b"\xff" * len(data[61:])
    assert marker_of(StoredBatch.of(bytes(data))) is None


def test_control_record_can_be_rebuilt():
    data = build_marker(ControlType.COMMIT, producer_id=1, producer_epoch=2, timestamp=5, coordinator_epoch=7)
    record = control_record(StoredBatch.of(data))
    again = build_batch([record], producer_id=1, producer_epoch=2, transactional=True, control=True)
    assert again == data
