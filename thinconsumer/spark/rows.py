"""Arrow batches as records to write: topic, partition, key, value and headers, each cut out of its column at once.

Owns how a column's buffers become bytes: one slice per value, no scalar or row of Arrow's in between. What the columns
are, has been checked before (``write_options``). Knows no Spark and no producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

from ..errors import IllegalArgumentError
from ..records.columns import Header

if TYPE_CHECKING:
    import pyarrow as pa

#: Topic, partition or None, key, value, headers.
Row = tuple[str, int | None, bytes | None, bytes | None, tuple[Header, ...]]
#: How much of a batch is turned into records at a time; bytes. Spark makes batches of 10,000 rows, however large.
PART_BYTES = 4 * 1024 * 1024


def parts(batch: pa.RecordBatch, part_bytes: int = PART_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about this many bytes; nothing is copied."""
    rows: int = batch.num_rows
    count = max(1, min(rows, -(-batch.nbytes // part_bytes)))
    for part in range(count):
        first, last = rows * part // count, rows * (part + 1) // count
        yield batch.slice(first, last - first)


def rows(batch: pa.RecordBatch, columns: Mapping[str, int], topic: str | None = None) -> Iterator[Row]:
    """Return the records of a batch, in order; ``columns`` are places by name, and ``topic`` wins over a column.

    Raises:
        IllegalArgumentError: a row has no topic, or a header no name.
    """

    def column(name: str) -> pa.Array | None:
        return batch.column(columns[name]) if name in columns else None

    names: Iterable[str] = repeat(topic) if topic is not None else _topics(column("topic"))
    partition, headers = column("partition"), column("headers")
    return zip(
        names,
        repeat(None) if partition is None else partition.to_pylist(),
        _byte_strings(column("key")),
        byte_strings(column("value")),
        repeat(()) if headers is None or headers.null_count == len(headers) else _headers(headers),
    )


def byte_strings(column: pa.Array) -> list[bytes | None]:
    """Return what a column of strings or binary holds, as it holds it: text is not looked at."""
    wide = str(column.type) in ("large_string", "large_binary")
    if not wide and str(column.type) not in ("string", "binary"):
        return [None if one is None else _encoded(one) for one in column.to_pylist()]
    if not len(column):
        return []
    _, places, data = column.buffers()
    width, first = (8 if wide else 4), column.offset
    ends = memoryview(places)[first * width : (first + len(column) + 1) * width].cast("q" if wide else "i").tolist()
    start = ends[0]
    text = b"" if data is None else bytes(memoryview(data)[start : ends[-1]])
    if start:
        ends = [end - start for end in ends]
    found: list[bytes | None] = [text[begin:end] for begin, end in pairwise(ends)]
    if column.null_count:
        for row, valid in enumerate(column.is_valid().to_pylist()):
            if not valid:
                found[row] = None
    return found


def _byte_strings(column: pa.Array | None) -> Iterable[bytes | None]:
    return repeat(None) if column is None or column.null_count == len(column) else byte_strings(column)


def _encoded(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _topics(column: pa.Array) -> list[str]:
    """Return the topics, each name once in memory however many rows have it."""
    if column.null_count:
        raise IllegalArgumentError(
            "there is a row without a topic: fill the column 'topic', or set the option 'topic', which is for all rows"
        )
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    return [names[place] for place in encoded.indices.to_pylist()]


def _headers(column: pa.Array) -> list[tuple[Header, ...]]:
    ends = column.offsets.to_pylist()
    first = ends[0]
    inside = column.values.slice(first, ends[-1] - first)
    keys, values = inside.flatten()
    if keys.null_count:
        raise IllegalArgumentError("there is a row with a header that has no key: Kafka has none such")
    all_of_them = list(zip(keys.to_pylist(), byte_strings(values)))
    found: list[tuple[Header, ...]] = [tuple(all_of_them[begin - first : end - first]) for begin, end in pairwise(ends)]
    if column.null_count:
        for row, valid in enumerate(column.is_valid().to_pylist()):
            if not valid:
                found[row] = ()
    return found
