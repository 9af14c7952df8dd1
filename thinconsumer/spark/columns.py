"""Convert fetched columns to Arrow batches with the schema of Spark's own connector, without an object per record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from ..records.columnar.record_columns import RecordColumns

#: The columns of the schema, in order; ``headers`` only with ``includeHeaders``.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

#: Estimated bytes of a row without key, value and headers.
ROW_BYTES = 60


def arrow_batches(
    columns: RecordColumns, until: int, names: tuple[str, ...], bytes_max: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records before offset ``until`` as Arrow batches of these columns, of about ``bytes_max`` bytes."""
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
    """Return where to cut a batch of ``size`` bytes into parts of about ``bytes_max`` bytes.

    Each number is the index of the row after a part's last row; the last number is the count of all rows.
    """
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
