"""Converts Arrow batches to records for the producer: topic, partition, key, value and headers.

Values are slices of the column's buffer, which is faster than creating Arrow scalars. ``write_options`` has checked the
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

from ..errors import IllegalArgumentError
from ..records.columns import Header

if TYPE_CHECKING:
    import pyarrow as pa

#: (topic, partition or None, key, value, headers)
Row = tuple[str, int | None, bytes | None, bytes | None, tuple[Header, ...]]
#: Approximate bytes of a batch that are converted to records at a time. Spark limits a batch to 10,000 rows by default,
#: but not its bytes, so that converting a whole batch could take too much memory.
PART_BYTES = 4 * 1024 * 1024


def parts(batch: pa.RecordBatch, part_bytes: int = PART_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about ``part_bytes`` bytes, without copying."""
    rows: int = batch.num_rows
    count = max(1, min(rows, -(-batch.nbytes // part_bytes)))
    for part in range(count):
        first, last = rows * part // count, rows * (part + 1) // count
        yield batch.slice(first, last - first)


def rows(batch: pa.RecordBatch, columns: Mapping[str, int], topic: str | None = None) -> Iterator[Row]:
    """Return the records of a batch, in order; ``columns`` are positions by name, ``topic`` overrides the column.

    Raises:
        IllegalArgumentError: a row has no topic, or a header has no key.
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
    """Return the bytes of a string or binary column; text is not decoded."""
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
    """Return the topic of each row; equal names share one string."""
    if column.null_count:
        raise IllegalArgumentError(
            "a row has no topic: fill the column 'topic', or set the option 'topic' for all rows"
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
        raise IllegalArgumentError("a row has a header without a key, which Kafka does not allow: drop it or name it")
    all_of_them = list(zip(keys.to_pylist(), byte_strings(values)))
    found: list[tuple[Header, ...]] = [tuple(all_of_them[begin - first : end - first]) for begin, end in pairwise(ends)]
    if column.null_count:
        for row, valid in enumerate(column.is_valid().to_pylist()):
            if not valid:
                found[row] = ()
    return found
