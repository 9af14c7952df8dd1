"""What is in the records of format 2 whose places are known: one field of all of them at a time.

Follows :mod:`..columns`, byte by byte, in what is read where. It decides nothing: records that are not what they should
be are named, and their batches left to the row decoder, which knows what to say.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Fields", "HeaderPlaces", "read"]

Int64s: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

#: So many records are read at a time: what is calculated on the way stays near the processor, a third faster.
BLOCK = 8000
#: Headers are read one of each record at a time; from this one on only while so many records have another.
HEADERS_ALONE, HEADERS_TOGETHER_MIN = 16, 32


class HeaderPlaces(NamedTuple):
    """Where the headers of some records are, record after record."""

    first: Int64s  #: By record: its first header here; one more at the end.
    name_starts: Int64s
    name_lengths: Int64s
    value_starts: Int64s
    value_lengths: Int64s  #: -1: null.


class Fields(NamedTuple):
    """What was read, of all records."""

    deltas: Int64s  #: Timestamps, relative to their batch's.
    offsets: Int64s  #: Relative to their batch's.
    key_starts: Int64s
    key_lengths: Int64s  #: -1: null.
    value_starts: Int64s
    value_lengths: Int64s  #: -1: null.
    headers: HeaderPlaces | None  #: None: no record has any.
    bad: npt.NDArray[np.bool_]  #: Not proven to be a record; what else is said of it means nothing.


def read(data: Bytes, begins: Int64s, ends: Int64s) -> Fields:
    """Read the records that stand between ``begins`` and ``ends``, each behind a length that says so."""
    blocks = [slice(at, at + BLOCK) for at in range(0, len(begins), BLOCK)]
    found = [_fields(data, begins[block], ends[block]) for block in blocks]
    columns = found[0] if len(found) == 1 else map(np.concatenate, zip(*found))
    deltas, offsets, key_starts, key_lengths, value_starts, value_lengths, pos, more, bad = columns
    headers = None
    if more.any():
        headers = _headers(data, np.flatnonzero(more & ~bad), pos, ends, bad)
    return Fields(deltas, offsets, key_starts, key_lengths, value_starts, value_lengths, headers, bad)


def _fields(data: Bytes, begins: Int64s, ends: Int64s) -> tuple[npt.NDArray[Any], ...]:
    """Read what :class:`Fields` has but headers; where those begin, and whether there are any; and what is bad."""
    bad = np.zeros(len(begins), bool)
    pos = begins + 2 + (data.take(begins) >> 7)  # the attributes, which are unused, are one byte
    if (ends - begins).max() > 8000:  # else no length has three bytes
        pos = varints(data, begins, 5, bad)[1] + 1
    deltas, pos = varints(data, pos, 10, bad)
    offsets, pos = varints(data, pos, 5, bad)
    key_lengths, key_starts = varints(data, pos, 5, bad)
    key_lengths, pos = _behind(key_lengths, key_starts)
    value_lengths, value_starts = varints(data, pos, 5, bad)
    value_lengths, pos = _behind(value_lengths, value_starts)
    bad |= pos >= ends  # places never go back, so that whatever went beyond the record before is noticed here
    more = (data.take(pos, mode="clip") != 0) | (pos + 1 != ends)
    return deltas, offsets, key_starts, key_lengths, value_starts, value_lengths, pos, more, bad


def _behind(lengths: Int64s, starts: Int64s) -> tuple[Int64s, Int64s]:
    """These lengths, any null as -1, and where what is so long ends."""
    if lengths.max() < 0:
        return np.full_like(lengths, -1), starts
    if lengths.min() >= 0:
        return lengths, starts + lengths
    return np.maximum(lengths, -1), starts + np.maximum(lengths, 0)


def varints(data: Bytes, pos: Int64s, length_max: int, bad: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    """The varints at these places, of 32 bits (5 bytes) or 64 (10), and where they end; ``bad`` if that is too long."""
    # Positions beyond the end are beyond their record, too, which is noticed in the end: whatever is read there.
    low = data.take(pos, mode="clip")
    long = low >> 7
    if not long.any():
        return ((low >> 1) ^ -(low & 1)).view(np.int8).astype(np.int64), pos + 1
    high = data[1:].take(pos, mode="clip")
    # The high bit of the first byte is taken off by what the second adds.
    raw = low + ((high.astype(np.uint16) << 7) - np.uint16(128)) * long
    values = ((raw >> 1) ^ -(raw & 1)).view(np.int16).astype(np.int64)
    after = pos + (long + 1)
    wide = long & (high >> 7)
    if wide.any():
        some = np.flatnonzero(wide)
        values[some], after[some], endless = _wide(data, pos[some], length_max)
        bad[some[endless]] = True
    return values, after


def _wide(data: Bytes, pos: Int64s, length_max: int) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """The same of varints of three bytes or more; and which of them are too long."""
    raw = np.zeros(len(pos), np.uint64)
    after = pos.copy()
    more = np.ones(len(pos), bool)
    for at in range(length_max):
        byte = data.take(pos + at, mode="clip").astype(np.uint64)
        raw |= np.where(more, (byte & np.uint64(0x7F)) << np.uint64(7 * at), np.uint64(0))
        after += more
        more &= byte > 127
        if not more.any():
            break
    if length_max == 5:
        raw &= np.uint64(0xFFFFFFFF)
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64), after, more


def _headers(data: Bytes, records: Int64s, pos: Int64s, ends: Int64s, bad: npt.NDArray[np.bool_]) -> HeaderPlaces:
    """The headers of these records, which begin with their number at ``pos``; records that are broken become bad."""
    endless = np.zeros(len(records), bool)
    numbers, at = varints(data, pos[records], 5, endless)
    end = ends[records]
    left = np.zeros(len(pos), np.int64)
    left[records] = numbers
    # Two bytes each at least.
    good = ~endless & (at <= end) & (numbers >= 0) & (numbers * 2 <= end - at)
    found: list[tuple[Int64s, Int64s, Int64s, Int64s, Int64s]] = []
    while True:
        good &= (left[records] == 0) == (at == end)
        bad[records[~good]] = True
        going = good & (at < end)
        records, at, end = records[going], at[going], end[going]
        if len(found) >= HEADERS_ALONE and len(records) < HEADERS_TOGETHER_MIN:
            bad[records] = True  # not worth a turn: one by one
            break
        if not len(records):
            break
        endless = np.zeros(len(records), bool)
        name_lengths, names = varints(data, at, 5, endless)
        at = names + np.maximum(name_lengths, 0)
        good = ~endless & (name_lengths >= 0) & (at < end)
        at = np.minimum(at, end)
        value_lengths, values = varints(data, at, 5, endless)
        value_lengths, at = _behind(value_lengths, values)
        good &= ~endless & (at <= end)
        left[records] -= 1
        found.append((records, names, name_lengths, values, value_lengths))
    return _in_order(found, len(pos))


def _in_order(found: list[tuple[Int64s, Int64s, Int64s, Int64s, Int64s]], size: int) -> HeaderPlaces:
    """Bring what was found, the first header of each record, then the second and so on, into the order of records."""
    counts = np.zeros(size, np.int64)
    for records, *_ in found:
        counts[records] += 1
    first = np.zeros(size + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    columns = [np.zeros(int(first[-1]), np.int64) for _ in range(4)]
    for turn, (records, *fields) in enumerate(found):
        for column, some in zip(columns, fields):
            column[first[records] + turn] = some
    return HeaderPlaces(first, *columns)
