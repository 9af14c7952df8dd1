"""Retention: how many of the oldest segments are deleted. Follows Kafka's ``UnifiedLog.deleteOldSegments``.

This log has no segments; retention computes where a broker would have rolled them by ``segment.bytes``. Kafka also
rolls a segment every ``segment.ms`` (a week), which is not reproduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..config import TopicConfig
from .stored import StoredBatch


class Segment(NamedTuple):
    """Consecutive batches that are deleted together."""

    size: int
    max_timestamp: int
    next_offset: int  #: Base offset of the next segment.


def segments(batches: Sequence[StoredBatch], segment_bytes: int, end_offset: int) -> list[Segment]:
    """Divide a log into segments."""
    found: list[Segment] = []
    size, stamp = 0, -1
    for batch in batches:
        if size and size + len(batch.data) > segment_bytes:
            found.append(Segment(size, stamp, batch.base_offset))
            size, stamp = 0, -1
        size += len(batch.data)
        stamp = max(stamp, batch.max_timestamp)
    if size:
        found.append(Segment(size, stamp, end_offset))
    return found


def retained_start_offset(
    batches: Sequence[StoredBatch], start: int, end: int, config: TopicConfig, now_ms: int, high_watermark: int
) -> int:
    """Return the start offset of a log from ``start`` to ``end`` once committed segments that exceed retention.bytes or
    retention.ms are deleted.
    """
    oldest_first = segments(batches, config.segment_bytes, end)
    excess = sum(segment.size for segment in oldest_first) - config.retention_bytes
    counts_bytes = config.retention_bytes >= 0
    for segment in oldest_first:
        if segment.next_offset > high_watermark:
            break
        is_too_much = counts_bytes and excess >= segment.size
        # Kafka uses the file's modification time for records without a timestamp; here such segments are kept.
        is_too_old = 0 <= config.retention_ms < now_ms - segment.max_timestamp and segment.max_timestamp >= 0
        if not is_too_much and not is_too_old:
            break
        if is_too_much:
            excess -= segment.size
        else:
            counts_bytes = False  # deleted by age only: later segments are within the size limit
        start = segment.next_offset
    return start
