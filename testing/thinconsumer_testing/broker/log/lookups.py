"""Offset lookups by timestamp. Follows Kafka's ``FileRecords.searchForTimestamp`` and ``offsetOfMaxTimestamp``.

As in Kafka, a lookup may also find a transaction marker, as if it were a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thinconsumer.errors import KafkaError
from thinconsumer.records.batches import split

from .batches import BatchList
from .stored import StoredBatch


class TimestampedOffset(NamedTuple):
    """Offset, timestamp and leader epoch of a record that was found by timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def by_timestamp(batches: BatchList, timestamp: int, start_offset: int, end_offset: int) -> TimestampedOffset | None:
    """Find the first record from ``start_offset`` to below ``end_offset`` with at least this timestamp (or None)."""
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
    """Find the first of the records below ``end_offset`` with the highest timestamp; None if no record has a timestamp.

    With LogAppendTime all records of a batch have the same timestamp; the result is then the batch's last record, as in
    Kafka.
    """
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
    """Return the records' offsets and timestamps; if they cannot be decoded, the base offset and maximum timestamp."""
    if batch.is_control:
        return ((batch.base_offset,), (batch.max_timestamp,)) if batch.record_count else ((), ())
    try:
        found = split(memoryview(batch.data))[0][0].columns(check_crcs=False)
    except KafkaError:
        # The records of a large batch are not decoded on append, so they may be invalid, or the Python package of their
        # codec may be missing: the lookup treats the batch as a single record.
        return (batch.base_offset,), (batch.max_timestamp,)
    return found.offsets, found.timestamps
