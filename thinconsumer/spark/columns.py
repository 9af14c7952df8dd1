"""Records as Arrow batches of the official connector's schema, no larger than Spark likes them.

The one place that knows how fetched data becomes what Spark takes: no Python object is made for a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..consumer import Consumer
from ..consumer.bulk_queries import poll_columns_up_to
from ..types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ..records.columnar.record_columns import RecordColumns

#: What a row has, in order; ``headers`` comes with ``includeHeaders`` only.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

#: So much is decoded at once, if it has come, which is a quarter cheaper per record than Spark's batches one by one. A
#: task reads one partition only, so that one answer is all there is to decode together: by default as large as this.
AT_ONCE_BYTES = 4_000_000
#: What a row has besides key and value, roughly.
ROW_BYTES = 60


def fetch(
    consumer: Consumer[Any, Any],
    tp: TopicPartition,
    until: int,
    names: tuple[str, ...],
    bytes_max: int,
    timeout_ms: float,
) -> Iterator[pa.RecordBatch]:
    """Yield what one poll brings of a partition before ``until``; nothing when nothing came in time."""
    at_once = max(bytes_max, AT_ONCE_BYTES)
    found = poll_columns_up_to(consumer, {tp: until}, max_bytes=at_once, timeout_ms=timeout_ms)
    for columns in found.values():
        count = len(columns)
        if count and columns.offsets[-1] >= until:
            count = int(columns.offsets.searchsorted(until))
            columns = columns.slice(0, count)
        if count:
            batch = columns.to_arrow("headers" in names).select(list(names))
            begin = 0
            for end in _ends(columns, names, batch.nbytes, bytes_max):
                yield batch.slice(begin, end - begin)
                begin = end


def _ends(columns: RecordColumns, names: tuple[str, ...], size: int, bytes_max: int) -> list[int]:
    """Return where to cut records that are ``size`` bytes as a batch, so that no part is much larger than it may be."""
    count = len(columns)
    parts = min(count, -(-size // bytes_max))
    if size < 2 * bytes_max:
        return [count]
    sizes = columns.offsets * 0 + ROW_BYTES
    if "key" in names:
        sizes += columns.key_lengths
    if "value" in names:
        sizes += columns.value_lengths
    places = columns.header_places if "headers" in names else None
    if places is not None:
        each = places.name_lengths + places.value_lengths
        headers = each.cumsum()
        some = places.first[:-1] < places.first[1:]
        first, last = places.first[:-1][some], places.first[1:][some] - 1
        sizes[some] += headers[last] - headers[first] + each[first]
    filled = sizes.cumsum()
    wanted = [int(filled[-1]) * part // parts for part in range(1, parts)]
    return sorted({*filled.searchsorted(wanted, "right").tolist(), count} - {0})
