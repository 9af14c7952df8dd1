"""Offset lookups by timestamp. Follows Kafka's ``FileRecords.searchForTimestamp`` and ``offsetOfMaxTimestamp``.

A transaction marker counts as a record, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import KafkaError
from ...records.batch import split
from .batches import BatchList
from .stored import StoredBatch


class TimestampedOffset(NamedTuple):
    """A record found by timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def by_timestamp(batches: BatchList, timestamp: int, start_offset: int, end_offset: int) -> TimestampedOffset | None:
    """Return the first record between two offsets with at least this timestamp."""
    for index in range(batches.first_index_since(timestamp), len(batches)):
        batch = batches.items[index]
        if batch.base_offset >= end_offset:
            return None
        if batch.max_timestamp >= timestamp:
            for offset, stamp in zip(*_columns(batch)):
                if stamp >= timestamp and offset >= start_offset:
                    return TimestampedOffset(offset, stamp, batch.leader_epoch) if offset < end_offset else None
    return None


def of_max_timestamp(batches: BatchList, end_offset: int) -> TimestampedOffset | None:
    """Return the first record with the highest timestamp; with LogAppendTime, the last record of its batch."""
    highest: StoredBatch | None = None
    for batch in batches.items:
        if batch.base_offset >= end_offset:
            break
        if highest is None or batch.max_timestamp > highest.max_timestamp:
            highest = batch
    if highest is None or highest.max_timestamp < 0:
        return None
    if highest.has_log_append_time:
        return TimestampedOffset(highest.last_offset, highest.max_timestamp, highest.leader_epoch)
    for offset, stamp in zip(*_columns(highest)):
        if stamp == highest.max_timestamp:
            return TimestampedOffset(offset, stamp, highest.leader_epoch)
    return None


def _columns(batch: StoredBatch) -> tuple[Sequence[int], Sequence[int]]:
    """Return offsets and timestamps of a batch's records; a single entry if they cannot be decoded."""
    if batch.is_control:
        return ((batch.base_offset,), (batch.max_timestamp,)) if batch.record_count else ((), ())
    try:
        found = split(memoryview(batch.data))[0][0].columns(check_crcs=False)
    except KafkaError:
        # Large batches are not fully validated on append, and a codec may be missing: the batch counts as one record.
        return (batch.base_offset,), (batch.max_timestamp,)
    assert found is not None
    return found.offsets, found.timestamps
