"""Read the fields of many records of format 2 at known positions, one field of all records at a time.

Records not proven well-formed are marked as bad: then the row decoder (:mod:`..columns`) reads all, and may raise.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .pieces import Int64s

Bytes: TypeAlias = npt.NDArray[np.uint8]
#: Arrays with one header per record: the indexes of the records, starts and lengths of names, and of values.
HeaderRound: TypeAlias = tuple[Int64s, Int64s, Int64s, Int64s, Int64s]

#: Number of records that are read together. The intermediate arrays fit into the CPU cache: reading is a third faster.
BLOCK = 8000
#: Round n reads the n-th header of all records that have one. After ``HEADER_ROUNDS`` rounds, there is no further round
#: for fewer than ``HEADER_RECORDS_MIN`` records: the row decoder then decodes all batches.
HEADER_ROUNDS, HEADER_RECORDS_MIN = 16, 32


class HeaderPlaces(NamedTuple):
    """The positions of several records' headers: first all headers of the first record, then of the second, ..."""

    first: Int64s  #: The index of each record's first header in the arrays below; at the end, the count of headers.
    name_starts: Int64s
    name_lengths: Int64s
    value_starts: Int64s
    value_lengths: Int64s  #: -1 for a null value.


class Fields(NamedTuple):
    """The fields of several records, one array per field."""

    deltas: Int64s  #: The records' timestamps, relative to the base timestamp of their batch.
    offsets: Int64s  #: The records' offsets, relative to the base offset of their batch.
    key_starts: Int64s
    key_lengths: Int64s  #: -1 for a null key.
    value_starts: Int64s
    value_lengths: Int64s  #: -1 for a null value.
    has_headers: bool  #: Whether any record has headers.
    headers: HeaderPlaces | None  #: None if no record has headers, or they were not to be located.
    #: True for a record that is not proven to be well-formed; its other fields are meaningless.
    bad: npt.NDArray[np.bool_]


def read(data: Bytes, begins: Int64s, ends: Int64s, *, locate_headers: bool = True) -> Fields:
    """Read the fields of records that begin, with their length, at ``begins``.

    The caller has computed ``ends`` from the lengths; that the fields end there, too, is checked here. Headers are
    always checked, and their positions returned with ``locate_headers``.
    """
    blocks = [slice(at, at + BLOCK) for at in range(0, len(begins), BLOCK)]
    found = [_fields(data, begins[block], ends[block]) for block in blocks]
    columns = found[0] if len(found) == 1 else map(np.concatenate, zip(*found))
    deltas, offsets, key_starts, key_lengths, value_starts, value_lengths, pos, more, bad = columns
    has_headers, headers = bool(more.any()), None
    if has_headers:
        found = _headers(data, np.flatnonzero(more & ~bad), pos, ends, bad)
        headers = _header_places(found, len(pos)) if locate_headers else None
    return Fields(deltas, offsets, key_starts, key_lengths, value_starts, value_lengths, has_headers, headers, bad)


def _fields(data: Bytes, begins: Int64s, ends: Int64s) -> tuple[npt.NDArray[Any], ...]:
    """Return the columns of :class:`Fields`, with two for headers: where their count is, and if there are any."""
    bad = np.zeros(len(begins), bool)
    pos = begins + 2 + (data.take(begins) >> 7)  # skips the length and the attributes, which are one unused byte
    if (ends - begins).max() > 8000:  # a record of 8 kB or more may have a length of three bytes
        pos = varints(data, begins, 5, bad)[1] + 1
    deltas, pos = varints(data, pos, 10, bad)
    offsets, pos = varints(data, pos, 5, bad)
    key_lengths, key_starts = varints(data, pos, 5, bad)
    key_lengths, pos = _skip(key_lengths, key_starts)
    value_lengths, value_starts = varints(data, pos, 5, bad)
    value_lengths, pos = _skip(value_lengths, value_starts)
    bad |= pos >= ends  # also finds an earlier field beyond the end: positions only increase
    more = (data.take(pos, mode="clip") != 0) | (pos + 1 != ends)
    return deltas, offsets, key_starts, key_lengths, value_starts, value_lengths, pos, more, bad


def _skip(lengths: Int64s, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the lengths with -1 for every negative one (Kafka reads all as null), and where the keys or values end."""
    if lengths.max() < 0:
        return np.full_like(lengths, -1), starts
    if lengths.min() >= 0:
        return lengths, starts + lengths
    return np.maximum(lengths, -1), starts + np.maximum(lengths, 0)


def varints(data: Bytes, pos: Int64s, length_max: int, bad: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    """Read a varint at each position; return the values and the positions after them.

    Sets ``bad`` for varints of more than ``length_max`` bytes.
    """
    # Beyond the end of the data, ``clip`` reads the last byte: the caller rejects positions beyond the record's end.
    low = data.take(pos, mode="clip")
    long = low >> 7
    if not long.any():
        return ((low >> 1) ^ -(low & 1)).view(np.int8).astype(np.int64), pos + 1
    high = data[1:].take(pos, mode="clip")
    # Subtracting 128 clears the continuation bit of the first byte.
    raw = low + ((high.astype(np.uint16) << 7) - np.uint16(128)) * long
    values = ((raw >> 1) ^ -(raw & 1)).view(np.int16).astype(np.int64)
    after = pos + (long + 1)
    wide = long & (high >> 7)
    if wide.any():
        some = np.flatnonzero(wide)
        values[some], after[some], too_long = _long_varints(data, pos[some], length_max)
        bad[some[too_long]] = True
    return values, after


def _long_varints(data: Bytes, pos: Int64s, length_max: int) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Read varints of three bytes or more; return their values, the positions after them, and which are too long."""
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


def _headers(data: Bytes, records: Int64s, pos: Int64s, ends: Int64s, bad: npt.NDArray[np.bool_]) -> list[HeaderRound]:
    """Read the headers of records from their header count at ``pos`` on; set ``bad`` for malformed records."""
    too_long = np.zeros(len(records), bool)
    numbers, at = varints(data, pos[records], 5, too_long)
    end = ends[records]
    left = np.zeros(len(pos), np.int64)
    left[records] = numbers
    # Each header takes at least two bytes.
    good = ~too_long & (at <= end) & (numbers >= 0) & (numbers * 2 <= end - at)
    found: list[HeaderRound] = []
    while True:
        good &= (left[records] == 0) == (at == end)
        bad[records[~good]] = True
        going = good & (at < end)
        records, at, end = records[going], at[going], end[going]
        if len(found) >= HEADER_ROUNDS and len(records) < HEADER_RECORDS_MIN:
            # Rounds for so few records take longer than the row decoder, which decodes all batches if a record is bad.
            bad[records] = True
            break
        if not len(records):
            break
        too_long = np.zeros(len(records), bool)
        name_lengths, names = varints(data, at, 5, too_long)
        at = names + np.maximum(name_lengths, 0)
        good = ~too_long & (name_lengths >= 0) & (at < end)
        at = np.minimum(at, end)
        value_lengths, values = varints(data, at, 5, too_long)
        value_lengths, at = _skip(value_lengths, values)
        good &= ~too_long & (at <= end)
        left[records] -= 1
        found.append((records, names, name_lengths, values, value_lengths))
    return found


def _header_places(found: list[HeaderRound], size: int) -> HeaderPlaces:
    """Sort the headers of ``size`` records by record; ``found[n]`` has the headers number ``n``, counted from 0."""
    counts = np.zeros(size, np.int64)
    for records, *_ in found:
        counts[records] += 1
    first = np.zeros(size + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    columns = [np.zeros(int(first[-1]), np.int64) for _ in range(4)]
    for number, (records, *fields) in enumerate(found):
        for column, some in zip(columns, fields):
            column[first[records] + number] = some
    return HeaderPlaces(first, *columns)
