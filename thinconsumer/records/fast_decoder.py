"""Decode runs of similar records of format 2, several times faster than byte by byte.

The fields of a record have variable sizes, so decoding them one after the other takes 600 to 1400 ns a record in
Python. But in most batches the varints of successive records have the same widths. This decoder assumes the widths of
the first record, reads all small fields of a record by one ``struct`` call, and then verifies the assumption: the field
lengths must add up to the record's length, and every varint must have the assumed width. Records that all have the same
size (common in benchmarks) are not even read one by one: each byte outside keys and values is a column
``data[at::stride]``, compared at C speed.

This module never rejects a batch. When the verification fails, the run ends, and :mod:`.columns` continues from there
byte by byte.
"""

from __future__ import annotations

from functools import cache, lru_cache
from struct import Struct, pack
from struct import error as StructError
from typing import Any

from .headers import Header, HeaderReader
from .varints import LENGTH_TABLES, NO_VARINT, NUMBER_TABLES, WIDTH_LIMITS, Malformed, raw_offsets, varint

#: Of a record's length, timestamp and offset: the widths of the varints in bytes.
Widths = tuple[int, int, int]
_LENGTH_1, _LENGTH_2 = LENGTH_TABLES[1], LENGTH_TABLES[2]
_FORMAT = {1: "B", 2: "H"}
_OFFSETS = raw_offsets()
_OFFSETS_BYTES = pack(f"<{len(_OFFSETS)}H", *_OFFSETS)
_OFFSETS_LOW, _OFFSETS_HIGH = _OFFSETS_BYTES[::2], _OFFSETS_BYTES[1::2]
#: By width of a timestamp varint in bytes: its largest possible raw value (the bytes as a little-endian number). If the
#: varint is wider than assumed, its first bytes give a larger value.
_STAMP_MAX = {1: 0x7F, 2: 0x7FFF}
#: The length in a two-byte varint is ``_FIRST_PART[first byte] + _SECOND_PART[second byte]``.
_FIRST_PART = [(byte - 128) // 2 if byte > 127 and not byte & 1 else NO_VARINT for byte in range(256)]
_SECOND_PART = [byte * 64 if byte < 128 else NO_VARINT for byte in range(256)]
_ASCII = bytes(range(128))
_NOT_ASCII = bytes(range(128, 256))
#: Records of equal size are unpacked this many at a time, so that the cached ``struct`` objects stay small.
CHUNK = 64
#: If fewer records than this have equal size, reading them one by one is faster.
SAME_SIZE_MIN = 6


class ColumnsBuilder:
    """The columns of one batch as far as it is decoded; each decoder appends the records that it reads."""

    __slots__ = ("_header_reader", "deltas", "headers", "keys", "offsets", "values")

    def __init__(self) -> None:
        self.offsets: list[int] = []  #: The records' offsets, relative to the base offset of the batch.
        self.deltas: list[int] = []  #: The records' timestamps, relative to the base timestamp of the batch.
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        #: By index of the record in the batch; only records with headers have an entry.
        self.headers: dict[int, tuple[Header, ...]] = {}
        self._header_reader: HeaderReader | None = None

    @property
    def header_reader(self) -> HeaderReader:
        """The reader of all headers of the batch; made when it is first needed."""
        reader = self._header_reader
        if reader is None:
            reader = self._header_reader = HeaderReader()
        return reader


def read_run(data: bytes, pos: int, count: int, builder: ColumnsBuilder) -> int:
    """Read a run of similar records from ``pos`` on; return the position of the first record not read.

    A run ends when ``builder`` has ``count`` records, or at a record that differs too much from the run's first, in the
    widths of varints, for example. A timestamp or an offset of another width may be noticed too late; it is then stored
    as :data:`NO_VARINT`, and the caller must decode the batch again.
    """
    done = len(builder.values)
    try:
        long = data[pos] > 127
        width = 1 if data[pos + 2 + long] < 128 else 2
        offset_at = pos + 2 + long + width
        offset_width = 1 if data[offset_at] < 128 else 2
        key = data[offset_at + offset_width]
        length = _LENGTH_2[data[pos] | data[pos + 1] << 8] if long else _LENGTH_1[data[pos]]
        stride = 1 + long + length
        # If the next record begins with the same length, probably all records of the run have the same size.
        if data[pos : pos + 2] == data[pos + stride : pos + stride + 2]:
            pos = _same_size(data, pos, stride, count, builder, (1 + long, width, offset_width))
            if len(builder.values) > done:
                return pos
    except (IndexError, Malformed):
        return pos
    keyless = key == 1 and _OFFSETS[done : done + 1] == [
        data[offset_at] if offset_width == 1 else data[offset_at] | data[offset_at + 1] << 8
    ]
    if keyless:
        return _keyless(data, pos, count, builder, (1 + long, width, offset_width))
    return _keyed(data, pos, count, builder, width, offset_width)


def _reject(data: bytes, pos: int) -> tuple[Any, ...]:
    raise Malformed("the key is longer than the fast decoder reads")


@cache
def _keyless_layout(length_width: int, width: int, offset_width: int) -> tuple[Any, ...]:
    """Return four values for reading records without a key and with varints of these widths.

    They are: a function that unpacks length, timestamp, offset, key length and value length; the position of the value
    in the record; the width of the length; the table that decodes lengths. The value's length is assumed to be as wide
    as the record's: for one byte this is certain, for two it is likely.
    """
    head = Struct(f"<{_FORMAT[length_width]}x{_FORMAT[width]}{_FORMAT[offset_width]}B{_FORMAT[length_width]}")
    return head.unpack_from, head.size, length_width, LENGTH_TABLES[length_width]


def _keyless(data: bytes, pos: int, count: int, builder: ColumnsBuilder, widths: Widths) -> int:
    """Read records without a key and with consecutive offsets."""
    length_width, width, offset_width = widths
    other = _keyless_layout(3 - length_width, width, offset_width)
    unpack, value_at, length_width, lengths = here = _keyless_layout(length_width, width, offset_width)
    stamps, size, done = NUMBER_TABLES[width], len(data), len(builder.values)
    stamp_max = _STAMP_MAX[width]
    put_value, put_delta = builder.values.append, builder.deltas.append
    try:
        for expected in _OFFSETS[done : min(count, WIDTH_LIMITS[offset_width - 1])]:
            length, stamp, offset, key, value_length = unpack(data, pos)
            end = pos + length_width + lengths[length]
            if end > size:  # the record's length has probably another width: swap readers
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
            elif stamps[stamp] == NO_VARINT:
                break
            else:
                value = _tail(data, start, stop, end, length_width, builder)
                put_delta(stamps[stamp])
                put_value(value)
            pos = end
    except (IndexError, StructError, Malformed):
        pass  # the run ends: the caller reads this record byte by byte
    builder.offsets += range(done, len(builder.values))
    builder.keys += [None] * (len(builder.values) - done)
    return pos


@cache
def _keyed_layout(length_width: int, width: int, offset_width: int) -> tuple[list[Any], list[int]]:
    """Return two lists, by the byte with a record's key length: functions that unpack such a record, and the position
    of its value in the record if the value's length has two bytes.
    """
    readers: list[Any] = [_reject] * 256
    starts = [0] * 256
    for raw in (1, *range(0, 128, 2)):
        head = Struct(f"<{_FORMAT[length_width]}x{_FORMAT[width]}{_FORMAT[offset_width]}x{raw // 2}sBB")
        readers[raw], starts[raw] = head.unpack_from, head.size
    return readers, starts


def _keyed(data: bytes, pos: int, count: int, builder: ColumnsBuilder, width: int, offset_width: int) -> int:
    """Read records with keys of less than 64 bytes or null keys, and any offsets.

    ``width`` and ``offset_width`` are the widths of timestamps and offsets.
    """
    readers_1, starts_1 = _keyed_layout(1, width, offset_width)
    readers_2, starts_2 = _keyed_layout(2, width, offset_width)
    key_at = 2 + width + offset_width
    stamps, offsets, size = NUMBER_TABLES[width], NUMBER_TABLES[offset_width], len(data)
    put_value, put_delta, put_key, put_offset = (
        builder.values.append, builder.deltas.append, builder.keys.append, builder.offsets.append,
    )  # fmt: skip
    headers, read_headers = builder.headers, builder.header_reader.read
    stamp_max = _STAMP_MAX[width]
    first, second, one, two = _FIRST_PART, _SECOND_PART, _LENGTH_1, _LENGTH_2
    try:
        for index in range(len(builder.values), count):
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
            elif stamps[stamp] == NO_VARINT or offsets[offset] == NO_VARINT:
                break
            elif start <= stop < end:
                value = data[start:stop]
                headers[index] = read_headers(data, stop, end)
            else:
                value = _tail(data, start, stop, end, 2 if low > 127 else 1, builder)
            put_delta(stamps[stamp])
            put_offset(offsets[offset])
            put_key(None if key_length == 1 else key)
            put_value(value)
            pos = end
    except (IndexError, StructError, Malformed):
        pass  # the run ends: the caller reads this record byte by byte
    return pos


def _tail(data: bytes, start: int, stop: int, end: int, length_width: int, builder: ColumnsBuilder) -> bytes | None:
    """Return the value of a record that the fast path cannot read, and add the record's headers to ``builder``.

    Such a record has headers, or a null value, or a value length with another width than the assumed
    ``length_width``, which gives the value as ``data[start:stop]``. The record ends at ``end``.
    """
    if start <= stop < end:
        value: bytes | None = data[start:stop]
    else:
        length, start = varint(data, start - length_width)
        stop = start if length < 0 else start + length
        if stop >= end:
            raise Malformed("a value ends after the end of its record")
        value = None if length < 0 else data[start:stop]
    if stop + 1 != end or data[stop]:
        builder.headers[len(builder.values)] = builder.header_reader.read(data, stop, end)
    return value


@lru_cache(maxsize=128)
def _values_of(head: int, key: int, between: int, value: int, times: int) -> Struct:
    """Return the Struct that reads the values of ``times`` records, and the keys unless ``key`` is 0.

    The other arguments are sizes: of the bytes before the key, of the key, between key and value, and of the value.
    """
    keys = f"{head}x{key}s{between}x" if key else f"{head + between}x"
    return Struct(f"{keys}{value}sx" * times)


def _same_size(data: bytes, pos: int, stride: int, count: int, builder: ColumnsBuilder, widths: Widths) -> int:
    """Read records of ``stride`` bytes with equal sizes of key and value, no headers and consecutive offsets.

    Returns the position after them, which is ``pos`` if there are too few such records.
    """
    length_width, width, offset_width = widths
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
    done = len(builder.values)
    times = min(count, WIDTH_LIMITS[offset_width - 1]) - done
    times = min(times, (len(data) - pos) // stride)
    for at in (*range(length_width), key_at, *range(value_length_at, value_at), stride - 1):
        if times < SAME_SIZE_MIN:
            return pos
        column = data[pos + at : pos + stride * times : stride]
        first = column[:1]
        if column.count(first) != times:
            times -= len(column.lstrip(first))
    end = pos + stride * times
    deltas = _timestamp_deltas(
        data[pos + stamp_at : end : stride], data[pos + stamp_at + 1 : end : stride] if width == 2 else b""
    )
    times = min(times, len(deltas))
    expected = slice(done, done + times)
    if times < SAME_SIZE_MIN or data[pos + offset_at : end : stride][:times] != _OFFSETS_LOW[expected]:
        return pos
    if offset_width == 2 and data[pos + offset_at + 1 : end : stride][:times] != _OFFSETS_HIGH[expected]:
        return pos
    fields: list[bytes | None] = []
    for first_one in range(0, times, CHUNK):
        reader = _values_of(key_at + 1, key, value_at - value_length_at, value, min(CHUNK, times - first_one))
        fields += reader.unpack_from(data, pos + first_one * stride)
    builder.values += fields[1::2] if key else fields
    builder.keys += fields[::2] if key else [None if raw_key == 1 else b""] * times
    builder.offsets += range(done, done + times)
    builder.deltas += deltas if len(deltas) == times else deltas[:times]
    return pos + stride * times


def _timestamp_deltas(low: bytes, high: bytes) -> list[int]:
    """Return the timestamp deltas of records of equal size, up to the first varint of another width.

    ``low`` has the first byte of each varint, and ``high`` the second; ``high`` is empty for varints of one byte.
    """
    table = NUMBER_TABLES[2 if high else 1]
    if not high:
        times = len(low)
        if not low.isascii():
            times -= len(low.lstrip(_ASCII))
        return [table[low[0]]] * times if low.count(low[:1]) == times else [table[raw] for raw in low[:times]]
    times = min(len(low) - len(low.lstrip(_NOT_ASCII)), len(high) - len(high.lstrip(_ASCII)))
    return [table[one | two << 8] for one, two in zip(low[:times], high[:times])]
