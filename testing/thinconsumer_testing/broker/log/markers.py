"""Transaction markers: the control batches that end a transaction. Follows Kafka's ``EndTransactionMarker``."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from thinconsumer.records import columns
from thinconsumer.records.batch import HEADER_SIZE, ControlType
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord
from thinconsumer.records.varints import Malformed

from .stored import StoredBatch

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class Marker(NamedTuple):
    is_abort: bool
    coordinator_epoch: int
    timestamp: int


def control_record(batch: StoredBatch) -> NewRecord | None:
    """Return the record of a control batch, None if compaction has removed it."""
    if not batch.record_count:
        return None
    view = memoryview(batch.data)
    (header,), _ = split(view)
    found = columns.decode(header, bytes(view[HEADER_SIZE:]))
    return NewRecord(found.values[0], found.keys[0], timestamp=found.timestamps[0], offset=0)


def marker_of(batch: StoredBatch) -> Marker | None:
    """Return the commit or abort marker in a control batch; None if it has no valid marker."""
    try:
        record = control_record(batch)
        if record is None or record.key is None or record.value is None:
            return None
        kind = _KEY.unpack_from(record.key)[1]
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        return Marker(kind == ControlType.ABORT, _VALUE.unpack_from(record.value)[1], record.timestamp)
    except (Malformed, StructError):
        return None
