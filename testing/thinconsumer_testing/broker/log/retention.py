"""Retention: how many of the oldest segments are deleted. Follows Kafka's ``UnifiedLog.deleteOldSegments``.

The logs of this broker have no segments; retention computes where Kafka would have begun a new one by
``segment.bytes``. Kafka also begins a new segment after ``segment.ms`` (a week), which is not reproduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..config import TopicConfig
from .stored import StoredBatch


class Segment(NamedTuple):
    """Consecutive batches that are deleted together, as in a segment file of Kafka."""

    size: int
    max_timestamp: int
    next_offset: int  #: Base offset of the next segment; of the last segment the log end offset.


def segments(batches: Sequence[StoredBatch], segment_bytes: int, end_offset: int) -> list[Segment]:
    """Divide a log into segments of at most ``segment_bytes``, oldest first; ``end_offset`` is the log end offset."""
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
    """Return the new log start offset after the deletion of committed segments by retention.bytes and retention.ms.

    ``start`` and ``end`` are the log start offset and the log end offset before the deletion.
    """
    oldest_first = segments(batches, config.segment_bytes, end)
    excess = sum(segment.size for segment in oldest_first) - config.retention_bytes
    counts_bytes = config.retention_bytes >= 0
    for segment in oldest_first:
        if segment.next_offset > high_watermark:
            break
        is_too_much = counts_bytes and excess >= segment.size
        # A segment without any record timestamp has the age of its file in Kafka; here it is never too old.
        is_too_old = 0 <= config.retention_ms < now_ms - segment.max_timestamp and segment.max_timestamp >= 0
        if not is_too_much and not is_too_old:
            break
        if is_too_much:
            excess -= segment.size
        else:
            # As in Kafka, deletion by size ends at the first segment that retention.bytes allows to keep. This segment
            # is deleted for its age, and so may be later segments, but none for its size.
            counts_bytes = False
        start = segment.next_offset
    return start
