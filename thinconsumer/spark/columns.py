"""Records as Arrow batches of the official connector's schema, no larger than Spark likes them.

The one place that knows how fetched data becomes what Spark takes: no Python object is made for a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..consumer import Consumer
from ..consumer.questions import poll_columns_up_to
from ..types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

#: What a row has, in order; ``headers`` comes with ``includeHeaders`` only.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def fetch(
    consumer: Consumer[Any, Any],
    tp: TopicPartition,
    until: int,
    names: tuple[str, ...],
    bytes_max: int,
    timeout_ms: float,
) -> Iterator[pa.RecordBatch]:
    """Yield what one poll brings of a partition before ``until``; nothing when nothing came in time."""
    found = poll_columns_up_to(consumer, {tp: until}, max_bytes=bytes_max, timeout_ms=timeout_ms)
    for columns in found.values():
        count = len(columns)
        if count and columns.offsets[-1] >= until:
            count = int(columns.offsets.searchsorted(until))
            columns = columns.slice(0, count)
        if count:
            yield from _parts(columns.to_arrow("headers" in names).select(list(names)), bytes_max)


def _parts(batch: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch that is much too large, as one huge compressed batch makes it; nothing is copied."""
    count: int = batch.num_rows
    parts = min(count, -(-batch.nbytes // bytes_max)) if batch.nbytes >= 2 * bytes_max else 1
    for part in range(parts):
        first, last = count * part // parts, count * (part + 1) // parts
        yield batch.slice(first, last - first)
