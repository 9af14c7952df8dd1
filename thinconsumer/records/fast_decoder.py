"""The fast way through a batch of format 2, for as long as its records look alike.

A record's fields stand behind one another, each as long as it says, so that a reader has to take byte after byte; in
Python that costs 600 to 1400 ns a record. But neighbours are alike: varints are as wide as the record before had them.
So one ``struct`` call reads all small fields at places where they *should* be, and what was read must then prove that
they were: the field lengths must add up to the record's own, and every varint be as wide as assumed. Records of one
size, which performance tests like, are not even walked: each byte of their heads is a column, ``data[at::stride]``,
which is compared at C speed.

Nothing here decides that a batch is broken. Where the proof fails, the run ends, and :mod:`.columns` reads on byte by
byte from there.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any

from .headers import Header, HeaderReader
from .varints import LENGTH_TABLES, NOT_HERE, NUMBER_TABLES, WIDTHS_MAX, Malformed, raw_offsets, varint

__all__ = ["ColumnsBuilder", "run"]

_LENGTH_1, _LENGTH_2 = LENGTH_TABLES[1], LENGTH_TABLES[2]
_FORMAT = {1: "B", 2: "H"}
_OFFSETS = raw_offsets()
_OFFSETS_LOW = bytes(raw & 0xFF for raw in _OFFSETS)
_OFFSETS_HIGH = bytes(raw >> 8 for raw in _OFFSETS)
#: A timestamp that takes more bytes reads as more than this.
_STAMP_MAX = {1: 0x7F, 2: 0x7FFF}
#: The part of a length that the first byte of its two holds, and the second.
_FIRST = [(byte - 128) // 2 if byte > 127 and not byte & 1 else NOT_HERE for byte in range(256)]
_SECOND = [byte * 64 if byte < 128 else NOT_HERE for byte in range(256)]
_ASCII = bytes(range(128))
_NOT_ASCII = bytes(range(128, 256))
#: Records of one size are taken this many at a time, so that the cached structs stay small.
CHUNK = 64
#: Fewer alike records than this are not worth looking at as columns.
ALIKE_MIN = 6


class ColumnsBuilder:
    """Columns in the making."""

    __slots__ = ("deltas", "header_reader", "headers", "keys", "offsets", "values")

    def __init__(self) -> None:
        self.offsets: list[int] = []  #: Relative to the batch's.
        self.deltas: list[int] = []  #: Timestamps, relative to the batch's.
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: dict[int, tuple[Header, ...]] = {}  #: By the record's place; most have none.
        self.header_reader = HeaderReader()


def run(data: bytes, pos: int, count: int, found: ColumnsBuilder) -> int:
    """Read up to ``count`` records in all into ``found``, from ``pos`` on; where the first unread one begins.

    ``found`` must not be trusted before offsets and deltas have been looked at: they may hold :data:`NOT_HERE`.
    """
    done = len(found.values)
    try:
        long = data[pos] > 127
        width = 1 if data[pos + 2 + long] < 128 else 2
        offset_at = pos + 2 + long + width
        offset_width = 1 if data[offset_at] < 128 else 2
        key = data[offset_at + offset_width]
        length = _LENGTH_2[data[pos] | data[pos + 1] << 8] if long else _LENGTH_1[data[pos]]
        stride = 1 + long + length
        if data[pos : pos + 2] == data[pos + stride : pos + stride + 2]:  # is the next one as long?
            pos = _alike(data, pos, stride, count, found, 1 + long, width, offset_width)
            if len(found.values) > done:
                return pos
    except (IndexError, Malformed):
        return pos
    keyless = key == 1 and _OFFSETS[done : done + 1] == [
        data[offset_at] if offset_width == 1 else data[offset_at] | data[offset_at + 1] << 8
    ]
    if keyless:
        return _keyless(data, pos, count, found, 1 + long, width, offset_width)
    return _keyed(data, pos, count, found, 1 + long, width, offset_width)


def _refuse(data: bytes, pos: int) -> tuple[Any, ...]:
    raise Malformed("no such layout")


@cache
def _keyless_layout(length_width: int, width: int, offset_width: int) -> tuple[Any, ...]:
    """How to read length, timestamp, offset, key length and value length of a record that is like this.

    A record below 64 bytes has a one-byte length, so that its value's is one byte too; else two are likely.
    """
    head = Struct(f"<{_FORMAT[length_width]}x{_FORMAT[width]}{_FORMAT[offset_width]}B{_FORMAT[length_width]}")
    return head.unpack_from, head.size, length_width, LENGTH_TABLES[length_width]


def _keyless(
    data: bytes, pos: int, count: int, found: ColumnsBuilder, length_width: int, width: int, offset_width: int
) -> int:
    """Records without a key, at the offsets that are next."""
    other = _keyless_layout(3 - length_width, width, offset_width)
    unpack, value_at, length_width, lengths = here = _keyless_layout(length_width, width, offset_width)
    stamps, size, done = NUMBER_TABLES[width], len(data), len(found.values)
    stamp_max = _STAMP_MAX[width]
    put_value, put_delta = found.values.append, found.deltas.append
    try:
        for expected in _OFFSETS[done : min(count, WIDTHS_MAX[offset_width - 1])]:
            length, stamp, offset, key, value_length = unpack(data, pos)
            end = pos + length_width + lengths[length]
            if end > size:  # most likely the length is of the other width
                here, other = other, here
                unpack, value_at, length_width, lengths = here
                length, stamp, offset, key, value_length = unpack(data, pos)
                end = pos + length_width + lengths[length]
            if offset != expected or key != 1 or end > size or stamp > stamp_max:
                break
            start = pos + value_at
            stop = start + lengths[value_length]
            if stop + 1 == end and not data[stop]:
                put_delta(stamps[stamp])
                put_value(data[start:stop])
            elif stamps[stamp] == NOT_HERE:
                break
            else:
                value = _tail(data, start, stop, end, length_width, found)
                put_delta(stamps[stamp])
                put_value(value)
            pos = end
    except (IndexError, StructError, Malformed):
        pass  # left to the careful reader
    found.offsets += range(done, len(found.values))
    found.keys += [None] * (len(found.values) - done)
    return pos


@cache
def _keyed_layout(length_width: int, width: int, offset_width: int) -> tuple[list[Any], list[int]]:
    """By the byte that holds the key's length: how to read a record, and where its value begins."""
    readers: list[Any] = [_refuse] * 256
    starts = [0] * 256
    for raw in (1, *range(0, 128, 2)):
        head = Struct(f"<{_FORMAT[length_width]}x{_FORMAT[width]}{_FORMAT[offset_width]}x{raw // 2}sBB")
        readers[raw], starts[raw] = head.unpack_from, head.size
    return readers, starts


def _keyed(
    data: bytes, pos: int, count: int, found: ColumnsBuilder, length_width: int, width: int, offset_width: int
) -> int:
    """Records with keys below 64 bytes, or without, at any offsets."""
    readers_1, starts_1 = _keyed_layout(1, width, offset_width)
    readers_2, starts_2 = _keyed_layout(2, width, offset_width)
    key_at = 2 + width + offset_width
    stamps, offsets, size = NUMBER_TABLES[width], NUMBER_TABLES[offset_width], len(data)
    put_value, put_delta, put_key, put_offset = (
        found.values.append, found.deltas.append, found.keys.append, found.offsets.append,
    )  # fmt: skip
    stamp_max = _STAMP_MAX[width]
    first, second, one, two = _FIRST, _SECOND, _LENGTH_1, _LENGTH_2
    try:
        for _ in range(count - len(found.values)):
            if data[pos] > 127:
                key_length = data[pos + key_at + 1]
                length, stamp, offset, key, low, high = readers_2[key_length](data, pos)
                end = pos + 2 + two[length]
                start = pos + starts_2[key_length]
            else:
                key_length = data[pos + key_at]
                length, stamp, offset, key, low, high = readers_1[key_length](data, pos)
                end = pos + 1 + one[length]
                start = pos + starts_1[key_length]
            if end > size or stamp > stamp_max:
                break
            if low > 127:
                stop = start + first[low] + second[high]
            else:
                start -= 1
                stop = start + one[low]
            if stop + 1 == end and not data[stop]:
                value: bytes | None = data[start:stop]
            elif stamps[stamp] == NOT_HERE or offsets[offset] == NOT_HERE:
                break
            else:
                value = _tail(data, start, stop, end, 2 if low > 127 else 1, found)
            put_delta(stamps[stamp])
            put_offset(offsets[offset])
            put_key(None if key_length == 1 else key)
            put_value(value)
            pos = end
    except (IndexError, StructError, Malformed):
        pass  # left to the careful reader
    return pos


def _tail(data: bytes, start: int, stop: int, end: int, length_width: int, found: ColumnsBuilder) -> bytes | None:
    """The value of a record that is not plain, because its length is not as wide as assumed, or it is null, or headers
    follow, which go into ``found``."""
    if start <= stop < end:
        value: bytes | None = data[start:stop]
    else:
        length, start = varint(data, start - length_width)
        stop = start if length < 0 else start + length
        if stop >= end:
            raise Malformed("a value beyond its record")
        value = None if length < 0 else data[start:stop]
    if stop + 1 != end or data[stop]:
        found.headers[len(found.values)] = found.header_reader.read(data, stop, end)
    return value


@lru_cache(maxsize=128)
def _values_of(head: int, key: int, between: int, value: int, times: int) -> Struct:
    """Reads keys and values, or values alone, of so many records in a row, which all have these sizes."""
    keys = f"{head}x{key}s{between}x" if key else f"{head + between}x"
    return Struct(f"{keys}{value}sx" * times)


def _alike(
    data: bytes,
    pos: int,
    stride: int,
    count: int,
    found: ColumnsBuilder,
    length_width: int,
    width: int,
    offset_width: int,
) -> int:
    """Records that all take ``stride`` bytes like the one at ``pos``, with the same sizes of key and value, and no
    headers, at the offsets that are next."""
    stamp_at = length_width + 1
    offset_at = stamp_at + width
    key_at = offset_at + offset_width
    raw_key = data[pos + key_at]
    key = 0 if raw_key == 1 else _LENGTH_1[raw_key]
    value_length_at = key_at + 1 + key
    if value_length_at + 1 >= stride:
        return pos
    low = data[pos + value_length_at]
    value_at = value_length_at + (1 if low < 128 else 2)
    value = _LENGTH_1[low] if low < 128 else _LENGTH_2[low | data[pos + value_at - 1] << 8]
    if value_at + value + 1 != stride or data[pos + stride - 1]:
        return pos
    done = len(found.values)
    times = min(count, WIDTHS_MAX[offset_width - 1]) - done
    times = min(times, (len(data) - pos) // stride)
    for at in (*range(length_width), key_at, *range(value_length_at, value_at), stride - 1):
        if times < ALIKE_MIN:
            return pos
        column = data[pos + at : pos + stride * times : stride]
        first = column[:1]
        if column.count(first) != times:
            times -= len(column.lstrip(first))
    end = pos + stride * times
    deltas = _stamps(
        data[pos + stamp_at : end : stride], data[pos + stamp_at + 1 : end : stride] if width == 2 else b""
    )
    times = min(times, len(deltas))
    expected = slice(done, done + times)
    if times < ALIKE_MIN or data[pos + offset_at : end : stride][:times] != _OFFSETS_LOW[expected]:
        return pos
    if offset_width == 2 and data[pos + offset_at + 1 : end : stride][:times] != _OFFSETS_HIGH[expected]:
        return pos
    fields: list[bytes | None] = []
    for first_one in range(0, times, CHUNK):
        reader = _values_of(key_at + 1, key, value_at - value_length_at, value, min(CHUNK, times - first_one))
        fields += reader.unpack_from(data, pos + first_one * stride)
    found.values += fields[1::2] if key else fields
    found.keys += fields[::2] if key else [None if raw_key == 1 else b""] * times
    found.offsets += range(done, done + times)
    found.deltas += deltas if len(deltas) == times else deltas[:times]
    return pos + stride * times


def _stamps(low: bytes, high: bytes) -> list[int]:
    """The timestamps in these columns of varints of one byte or two, as far as they are that wide."""
    table = NUMBER_TABLES[2 if high else 1]
    if not high:
        times = len(low)
        if not low.isascii():
            times -= len(low.lstrip(_ASCII))
        return [table[low[0]]] * times if low.count(low[:1]) == times else [table[raw] for raw in low[:times]]
    times = min(len(low) - len(low.lstrip(_NOT_ASCII)), len(high) - len(high.lstrip(_ASCII)))
    return [table[one | two << 8] for one, two in zip(low[:times], high[:times])]
