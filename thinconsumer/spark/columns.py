"""Records as Arrow batches of the official connector's schema, no larger than Spark likes them.

The one place that knows how records become columns. pyarrow is imported when it is needed: the driver's part of this
room decides without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..consumer import Consumer
from ..consumer.questions import poll_up_to
from ..types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

#: What a row has, in order; ``headers`` comes with ``includeHeaders`` only.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
#: What a row takes in Arrow besides its key, value and topic; bytes.
_ROW_BYTES = 40
#: Rows that one poll brings; a batch is cut by its bytes.
_ROWS = 20_000


@lru_cache
def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow schema of these columns, exactly as PySpark compares it."""
    import pyarrow as pa

    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    }
    return pa.schema([(name, types[name]) for name in names])


def fetch(
    consumer: Consumer[Any, Any],
    tp: TopicPartition,
    until: int,
    names: tuple[str, ...],
    bytes_max: int,
    timeout_ms: float,
) -> Iterator[pa.RecordBatch]:
    """Yield what one poll brings of a partition before ``until``; nothing when nothing came in time."""
    found = poll_up_to(consumer, {tp: until}, max_records=_ROWS, timeout_ms=timeout_ms)
    for records in found.values():
        for part in _parts(records, bytes_max):
            yield to_batch(part, names)


def to_batch(records: Sequence[Any], names: tuple[str, ...]) -> pa.RecordBatch:
    """Return records of one partition as one batch with these columns."""
    import pyarrow as pa

    schema = arrow_schema(names)
    arrays = [_ARRAYS[name](records, pa, schema.field(index).type) for index, name in enumerate(names)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _parts(records: Sequence[Any], bytes_max: int) -> Iterable[Sequence[Any]]:
    """Cut records into parts of about so many bytes, each of one record at least."""
    first, size = 0, 0
    for index, record in enumerate(records):
        size += _ROW_BYTES + len(record.topic) + len(record.key or b"") + len(record.value or b"")
        if size >= bytes_max:
            yield records[first : index + 1]
            first, size = index + 1, 0
    if first < len(records):
        yield records[first:]


def _headers(records: Sequence[Any], pa: Any, kind: Any) -> Any:
    # A record without any has null there, and no empty list: so the official connector has it.
    rows = [[{"key": k, "value": v} for k, v in record.headers] or None for record in records]
    return pa.array(rows, kind)


_ARRAYS = {
    "key": lambda records, pa, kind: pa.array([record.key for record in records], kind),
    "value": lambda records, pa, kind: pa.array([record.value for record in records], kind),
    "topic": lambda records, pa, kind: pa.repeat(pa.scalar(records[0].topic, kind), len(records)),
    "partition": lambda records, pa, kind: pa.repeat(pa.scalar(records[0].partition, kind), len(records)),
    "offset": lambda records, pa, kind: pa.array([record.offset for record in records], kind),
    "timestamp": lambda records, pa, kind: pa.array([record.timestamp * 1000 for record in records], pa.int64()).cast(
        kind
    ),
    "timestampType": lambda records, pa, kind: pa.array([record.timestamp_type for record in records], kind),
    "headers": _headers,
}
