"""Which segments of a log are to be deleted. Follows Kafka's ``UnifiedLog.deleteOldSegments``.

A log has no segments here; they are imagined where a broker would have made them, as full of batches as
``segment.bytes`` allows. (Brokers also begin one every ``segment.ms``, a week, which nothing here waits for.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..config import TopicConfig
from .stored import StoredBatch


class LogBounds(Protocol):
    """Where a log begins and ends."""

    @property
    def start_offset(self) -> int:
        """The first offset."""

    @property
    def end_offset(self) -> int:
        """The offset after the last."""


class Segment(NamedTuple):
    """Batches that go together."""

    size: int
    max_timestamp: int
    next_offset: int  #: Where the segment behind it begins.


def segments(batches: Sequence[StoredBatch], segment_bytes: int, end_offset: int) -> list[Segment]:
    """Divide a log."""
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
    batches: Sequence[StoredBatch], config: TopicConfig, now_ms: int, high_watermark: int, log: LogBounds
) -> int:
    """Return where the log is to begin: behind the last segment that is too much or too old, and committed."""
    oldest_first = segments(batches, config.segment_bytes, log.end_offset)
    start = log.start_offset
    excess = sum(segment.size for segment in oldest_first) - config.retention_bytes
    counts_bytes = config.retention_bytes >= 0
    for segment in oldest_first:
        if segment.next_offset > high_watermark:
            break
        is_too_much = counts_bytes and excess >= segment.size
        # Kafka takes the file's date for records that have none; here they stay.
        is_too_old = 0 <= config.retention_ms < now_ms - segment.max_timestamp and segment.max_timestamp >= 0
        if not is_too_much and not is_too_old:
            break
        if is_too_much:
            excess -= segment.size
        else:
            counts_bytes = False  # too old only: by size nothing behind it goes either
        start = segment.next_offset
    return start
