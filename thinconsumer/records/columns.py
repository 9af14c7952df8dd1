"""The records of a batch of format 2, as columns.

Follows Kafka's ``DefaultRecord`` and ``DefaultRecordBatch``: what Java refuses is refused, what it tolerates (varints
longer than they need be, any negative length for null) is tolerated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from collections.abc import Sequence

if TYPE_CHECKING:
    from .batch import Batch

__all__ = ["Columns", "Header", "Malformed"]

Header = tuple[str, "bytes | None"]
#: Length, attributes, timestamp, offset, key, value, headers: a byte each at least.
RECORD_SIZE_MIN = 7
LOG_APPEND_TIME = 0x08


class Malformed(ValueError):
    """Bytes that cannot be records; the message says why."""


class Columns(NamedTuple):
    """The records of one batch, field by field, all of the same length."""

    offsets: Sequence[int]  #: Strictly ascending.
    timestamps: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Sequence[tuple[Header, ...]]


def varint(data: bytes, pos: int) -> tuple[int, int]:
    """The zigzag varint of up to 32 bits at ``pos``, and where it ends. Bits beyond are dropped, as in Java."""
    return _zigzag(data, pos, 5, 0xFFFFFFFF)


def varlong(data: bytes, pos: int) -> tuple[int, int]:
    """The zigzag varint of up to 64 bits at ``pos``, and where it ends."""
    return _zigzag(data, pos, 10, 0xFFFFFFFFFFFFFFFF)


def _zigzag(data: bytes, pos: int, length_max: int, mask: int) -> tuple[int, int]:
    raw = 0
    for at in range(length_max):
        byte = data[pos + at]
        raw |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            raw &= mask
            return (raw >> 1) ^ -(raw & 1), pos + at + 1
    raise Malformed(f"a varint of more than {length_max} bytes")


def wrap64(value: int) -> int:
    """``value`` as Java's long arithmetic leaves it."""
    return (value + 2**63) % 2**64 - 2**63


def decode(batch: Batch, data: bytes) -> Columns:
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


def _decode(batch: Batch, data: bytes, count: int) -> Columns:
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[tuple[Header, ...]] = []
    pos = 0
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    for _ in range(count):
        length, pos = varint(data, pos)
        end = pos + length
        delta, pos = varlong(data, pos + 1)
        timestamps.append(wrap64(base_timestamp + delta))
        delta, pos = varint(data, pos)
        offsets.append(base_offset + delta)
        key, pos = _nullable(data, pos)
        keys.append(key)
        value, pos = _nullable(data, pos)
        values.append(value)
        number, pos = varint(data, pos)
        if number:
            found, pos = read_headers(data, pos, number)
            headers.append(found)
        else:
            headers.append(())
        if pos != end:
            raise Malformed(f"a record of {length} bytes whose fields end {pos - end} bytes off")
    if pos != len(data):
        raise Malformed(f"{len(data) - pos} bytes after its {count} records")
    check_offsets(offsets, batch)
    if batch.attributes & LOG_APPEND_TIME:
        timestamps = [batch.max_timestamp] * count
    return Columns(offsets, timestamps, keys, values, headers)


def _nullable(data: bytes, pos: int) -> tuple[bytes | None, int]:
    length, pos = varint(data, pos)
    if length < 0:
        return None, pos
    end = pos + length
    if end > len(data):
        raise Malformed(f"a field of {length} bytes where {len(data) - pos} are left")
    return data[pos:end], end


def read_headers(data: bytes, pos: int, number: int) -> tuple[tuple[Header, ...], int]:
    """``number`` headers at ``pos``, and where they end."""
    if not 0 <= number <= len(data) - pos:
        raise Malformed(f"{number} headers claimed where {len(data) - pos} bytes are left")
    found: list[Header] = []
    for _ in range(number):
        name, pos = _nullable(data, pos)
        if name is None:
            raise Malformed("a header without a name")
        value, pos = _nullable(data, pos)
        found.append((name.decode("utf-8", "replace"), value))
    return tuple(found), pos


def check_offsets(offsets: Sequence[int], batch: Batch) -> None:
    """Refuse records outside their batch or out of order: they would be delivered twice, or move a position back."""
    before = batch.base_offset - 1
    for offset in offsets:
        if offset <= before:
            raise Malformed(f"a record at offset {offset} where {before + 1} is the least possible")
        before = offset
    if before >= batch.next_offset:
        raise Malformed(f"a record at offset {before} in a batch that ends at {batch.next_offset - 1}")
