"""The records of a batch of format 2, as columns.

Follows Kafka's ``DefaultRecord`` and ``DefaultRecordBatch``: what Java refuses is refused, what it tolerates (varints
longer than they need be, any negative length for null) is tolerated.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .fast_decoder import ColumnsBuilder, run
from .headers import Header, read_headers
from .varints import NOT_HERE, Malformed, varint, varlong

if TYPE_CHECKING:
    from .batch import RecordBatch

__all__ = ["Columns", "Header", "Malformed"]

#: Length, attributes, timestamp, offset, key, value, headers: a byte each at least.
RECORD_SIZE_MIN = 7
LOG_APPEND_TIME = 0x08
#: A run shorter than this did not pay; after a few of those, a batch is read record by record.
RUN_MIN = 8


class Columns(NamedTuple):
    """The records of one batch, field by field, all of the same length."""

    offsets: Sequence[int]  #: Strictly ascending.
    timestamps: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Sequence[tuple[Header, ...]]


def wrap64(value: int) -> int:
    """``value`` as Java's long arithmetic leaves it."""
    return (value + 2**63) % 2**64 - 2**63


def decode(batch: RecordBatch, data: bytes) -> Columns:
    """The records in ``data``, the decompressed body of ``batch``.

    Raises: Malformed.
    """
    count = batch.count
    if count < 0 or count * RECORD_SIZE_MIN > len(data):
        raise Malformed(f"{count} records claimed in {len(data)} bytes")
    try:
        return _decode(batch, data, count)
    except IndexError:
        raise Malformed(f"its {len(data)} bytes end inside a record") from None


def _decode(batch: RecordBatch, data: bytes, count: int) -> Columns:
    found = ColumnsBuilder()
    pos = _read_fast(data, count, found)
    in_a_row = found.offsets == list(range(count))
    if NOT_HERE in found.deltas or (not in_a_row and NOT_HERE in found.offsets):
        # A run believed bytes that only looked alike: what it read as a timestamp or an offset was of another width.
        found = ColumnsBuilder()
        pos = _read(data, 0, count, found)
        in_a_row = False
    if pos != len(data):
        raise Malformed(f"{len(data) - pos} bytes after its {count} records")
    headers: list[tuple[Header, ...]] = [()] * count
    for place, some in found.headers.items():
        headers[place] = some
    base = batch.base_offset
    offsets = range(base, base + count) if in_a_row else [base + delta for delta in found.offsets]
    _check_offsets(batch, offsets, in_a_row)
    return Columns(offsets, _timestamps(batch, found.deltas), found.keys, found.values, headers)


def _read_fast(data: bytes, count: int, found: ColumnsBuilder) -> int:
    """All records: in runs while that pays, else one by one. Where they end."""
    pos = 0
    tries = 4 + count // 64
    while (done := len(found.values)) < count:
        if tries:
            pos = run(data, pos, count, found)
            got = len(found.values) - done
            if got < RUN_MIN:
                tries -= 1
            if got:
                continue
        pos = _read(data, pos, done + 1 if tries else count, found)
    return pos


def _read(data: bytes, pos: int, count: int, found: ColumnsBuilder) -> int:
    """Records one by one and byte by byte, up to ``count`` in all. Where they end.

    Raises: Malformed, IndexError.
    """
    size = len(data)
    put_offset, put_delta, put_key, put_value = (
        found.offsets.append, found.deltas.append, found.keys.append, found.values.append,
    )  # fmt: skip
    for place in range(len(found.values), count):
        length, pos = varint(data, pos)
        end = pos + length
        delta, pos = varlong(data, pos + 1)
        offset, pos = varint(data, pos)
        length, pos = varint(data, pos)
        key = None
        if length >= 0:
            key = data[pos : pos + length]
            pos += length
        length, pos = varint(data, pos)
        value = None
        if length >= 0:
            value = data[pos : pos + length]
            pos += length
        if end > size or pos >= end:
            raise Malformed(f"a record whose fields end at byte {pos} and itself at {end} of {size}")
        if pos + 1 != end or data[pos]:
            found.headers[place] = read_headers(data[pos:end])
        put_delta(delta)
        put_offset(offset)
        put_key(key)
        put_value(value)
        pos = end
    return pos


def _timestamps(batch: RecordBatch, deltas: list[int]) -> Sequence[int]:
    if batch.attributes & LOG_APPEND_TIME:
        return [batch.max_timestamp] * len(deltas)
    base = batch.base_timestamp
    if deltas and deltas.count(deltas[0]) == len(deltas):
        return [wrap64(base + deltas[0])] * len(deltas)
    stamps = [base + delta for delta in deltas]
    if stamps and not -(2**63) <= min(stamps) <= max(stamps) < 2**63:
        return [wrap64(stamp) for stamp in stamps]
    return stamps


def _check_offsets(batch: RecordBatch, offsets: Sequence[int], in_a_row: bool) -> None:
    """Refuse records outside their batch or out of order: they would be delivered twice, or move a position back."""
    if not in_a_row:
        for before, after in pairwise(offsets):
            if after <= before:
                raise Malformed(f"a record at offset {after} behind one at {before}")
    first, end = batch.base_offset, batch.next_offset
    if offsets and (offsets[0] < first or offsets[-1] >= end):
        raise Malformed(f"records at offsets {offsets[0]} to {offsets[-1]} in a batch of {first} to {end - 1}")
