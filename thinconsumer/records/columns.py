"""Decode the records of a batch of format 2 to columns.

Follows Kafka's ``DefaultRecord`` and ``DefaultRecordBatch``: rejects the same input as Java, and accepts overlong
varints and any negative length for null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .fast_decoder import ColumnsBuilder, read_run
from .headers import Header, read_headers
from .varints import NO_VARINT, Malformed, varint, varlong

if TYPE_CHECKING:
    from .batch import RecordBatch

#: The smallest record: one byte each for length, attributes, timestamp, offset, key and value length, header count.
RECORD_SIZE_MIN = 7
#: For runs of fewer similar records than this, the fast decoder is slower than reading record by record.
RUN_MIN = 8
#: A batch of up to so many records is read record by record.
FEW = 2


class Columns(NamedTuple):
    """The records of one batch, one sequence per field."""

    offsets: Sequence[int]  #: Absolute offsets, in strictly ascending order.
    timestamps: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Sequence[tuple[Header, ...]]


#: Makes columns from the tuple of their fields, without the Python function that ``Columns(...)`` would call.
_columns: Callable[[tuple[object, ...]], Columns] = partial(tuple.__new__, Columns)


def decode(batch: RecordBatch, data: bytes) -> Columns:
    """Decode ``data``, the decompressed body of ``batch``; raise Malformed if it is corrupt."""
    count = batch.count
    if count < 0 or count * RECORD_SIZE_MIN > len(data):
        raise Malformed(f"the header claims {count} records, which {len(data)} bytes cannot hold")
    builder = ColumnsBuilder()
    # The fast decoder gains nothing on a few records, and its tables have 65,536 entries, which are not in the
    # processor's caches when records come one at a time.
    is_fast = count > FEW
    try:
        pos = _read_fast(data, count, builder) if is_fast else _read(data, 0, count, builder)
        consecutive = builder.offsets == list(range(count))
        if is_fast and (NO_VARINT in builder.deltas or (not consecutive and NO_VARINT in builder.offsets)):
            # A timestamp or an offset is wider than the fast decoder assumed: decode all records again, byte by byte.
            builder = ColumnsBuilder()
            pos = _read(data, 0, count, builder)
            consecutive = False
    except IndexError:
        raise Malformed(f"the {len(data)} bytes of records end inside a record") from None
    if pos != len(data):
        raise Malformed(f"{len(data) - pos} bytes follow the last of {count} records")
    headers: list[tuple[Header, ...]] = [()] * count
    for index, some in builder.headers.items():
        headers[index] = some
    base = batch.base_offset
    offsets = range(base, base + count) if consecutive else [base + delta for delta in builder.offsets]
    if not consecutive or base + count > batch.next_offset:
        _check_offsets(batch, offsets, consecutive)
    return _columns((offsets, _timestamps(batch, builder.deltas), builder.keys, builder.values, headers))


def _read_fast(data: bytes, count: int, builder: ColumnsBuilder) -> int:
    """Read all records; return the position after them. After too many short runs, the rest is read one by one."""
    pos = 0
    short_runs_left = 4 + count // 64
    while (done := len(builder.values)) < count:
        if short_runs_left:
            pos = read_run(data, pos, count, builder)
            got = len(builder.values) - done
            if got < RUN_MIN:
                short_runs_left -= 1
            if got:
                continue
        pos = _read(data, pos, done + 1 if short_runs_left else count, builder)
    return pos


def _read(data: bytes, pos: int, count: int, builder: ColumnsBuilder) -> int:
    """Read records one by one until ``builder`` has ``count``; return the position after them. Raises as ``varint``."""
    size = len(data)
    put_offset, put_delta, put_key, put_value = (
        builder.offsets.append, builder.deltas.append, builder.keys.append, builder.values.append,
    )  # fmt: skip
    for index in range(len(builder.values), count):
        # Most varints have one byte, and are read here: calls for them would take longer than the rest of this loop.
        raw, pos = data[pos], pos + 1
        if raw < 128:
            length = (raw >> 1) ^ -(raw & 1)
        else:
            length, pos = varint(data, pos - 1)
        end = pos + length
        raw, pos = data[pos + 1], pos + 2
        if raw < 128:
            delta = (raw >> 1) ^ -(raw & 1)
        else:
            delta, pos = varlong(data, pos - 1)
        raw, pos = data[pos], pos + 1
        if raw < 128:
            offset = (raw >> 1) ^ -(raw & 1)
        else:
            offset, pos = varint(data, pos - 1)
        raw, pos = data[pos], pos + 1
        if raw < 128:
            length = (raw >> 1) ^ -(raw & 1)
        else:
            length, pos = varint(data, pos - 1)
        key = None
        if length >= 0:
            key = data[pos : pos + length]
            pos += length
        raw, pos = data[pos], pos + 1
        if raw < 128:
            length = (raw >> 1) ^ -(raw & 1)
        else:
            length, pos = varint(data, pos - 1)
        value = None
        if length >= 0:
            value = data[pos : pos + length]
            pos += length
        if end > size or pos >= end:
            raise Malformed(f"a record's length ends at byte {end} of {size}, but its fields end at byte {pos}")
        if pos + 1 != end or data[pos]:
            builder.headers[index] = read_headers(data[pos:end])
        put_delta(delta)
        put_offset(offset)
        put_key(key)
        put_value(value)
        pos = end
    return pos


def _timestamps(batch: RecordBatch, deltas: list[int]) -> Sequence[int]:
    if batch.timestamp_type == 1:
        return [batch.max_timestamp] * len(deltas)
    base = batch.base_timestamp
    if deltas and deltas.count(deltas[0]) == len(deltas):
        stamps = [base + deltas[0]] * len(deltas)
        lowest = highest = stamps[0]
    else:
        stamps = [base + delta for delta in deltas]
        lowest, highest = min(stamps, default=0), max(stamps, default=0)
    if lowest >= -(2**63) and highest < 2**63:
        return stamps
    return [(stamp + 2**63) % 2**64 - 2**63 for stamp in stamps]  # wraps around, as Java's long does


def _check_offsets(batch: RecordBatch, offsets: Sequence[int], consecutive: bool) -> None:
    """Reject offsets that do not ascend or exceed the batch's range: they could make poll return records twice."""
    if not consecutive:
        for before, after in pairwise(offsets):
            if after <= before:
                raise Malformed(f"records are out of order: offset {after} follows offset {before}")
    first, end = batch.base_offset, batch.next_offset
    if offsets and (offsets[0] < first or offsets[-1] >= end):
        raise Malformed(f"the records' offsets {offsets[0]} to {offsets[-1]} exceed the batch's {first} to {end - 1}")
