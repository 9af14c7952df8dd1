"""Decode few records of format 2 one by one, with the same result as :mod:`.walk` and :mod:`.fields`.

numpy takes as long for 1 record as for 100, and a response with large values has no more than that. A batch that is not
well-formed is marked as bad and left to the row decoder. Keys and values are neither read nor copied.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..varints import Malformed, varint, varlong
from .fields import Fields, HeaderPlaces

__all__ = ["read"]

Int64s: TypeAlias = npt.NDArray[np.int64]
#: Timestamp delta, offset delta, start and length of the key, start and length of the value; null has the length -1.
RecordFields: TypeAlias = tuple[int, int, int, int, int, int]
#: Start and length of the name, start and length of the value.
HeaderFields: TypeAlias = tuple[int, int, int, int]

_NOTHING: RecordFields = (0, 0, 0, -1, 0, -1)


def read(data: bytes | memoryview, begins: Int64s, ends: Int64s, counts: Int64s) -> Fields:
    """Read the records of each batch, ``counts`` many between ``begins`` and ``ends``."""
    found: list[RecordFields] = []
    headers: dict[int, list[HeaderFields]] = {}  # by record
    bad: list[slice] = []
    for begin, end, count in zip(begins.tolist(), ends.tolist(), counts.tolist()):
        first = len(found)
        try:
            _batch(data, begin, end, count, found, headers)
        except (Malformed, IndexError):
            found[first:] = [_NOTHING] * count
            bad.append(slice(first, first + count))
    is_bad = np.zeros(len(found), bool)
    for records in bad:
        is_bad[records] = True
    places = _header_places(headers, len(found)) if headers else None
    deltas, offsets, keys, key_lengths, values, value_lengths = np.ascontiguousarray(np.array(found, np.int64).T)
    return Fields(deltas, offsets, keys, key_lengths, values, value_lengths, places, is_bad)


def _batch(
    data: bytes | memoryview,
    pos: int,
    end: int,
    count: int,
    found: list[RecordFields],
    headers: dict[int, list[HeaderFields]],
) -> None:
    """Read the records of one batch.

    Raises: Malformed; IndexError if the data end inside a record.
    """
    put = found.append
    for record in range(len(found), len(found) + count):
        length, pos = varint(data, pos)
        stop = pos + length
        delta, pos = varlong(data, pos + 1)  # after the attributes, which are unused
        offset, pos = varint(data, pos)
        key_length, key = varint(data, pos)
        if key_length < 0:
            key_length, pos = -1, key
        else:
            pos = key + key_length
        value_length, value = varint(data, pos)
        if value_length < 0:
            value_length, pos = -1, value
        else:
            pos = value + value_length
        if not pos < stop <= end:
            raise Malformed("a record ends before its fields or after its batch")
        put((delta, offset, key, key_length, value, value_length))
        if pos + 1 != stop or data[pos]:
            headers[record] = _headers(data, pos, stop)
        pos = stop
    if pos != end:
        raise Malformed("bytes after the last record")


def _headers(data: bytes | memoryview, pos: int, end: int) -> list[HeaderFields]:
    number, pos = varint(data, pos)
    if not 0 <= 2 * number <= end - pos:  # each takes at least two bytes
        raise Malformed("more headers claimed than fit into the record")
    found: list[HeaderFields] = []
    for _ in range(number):
        name_length, name = varint(data, pos)
        if name_length < 0:
            raise Malformed("a header without a key")
        value_length, value = varint(data, name + name_length)
        pos = value + max(value_length, 0)
        found.append((name, name_length, value, max(value_length, -1)))
    if pos != end:
        raise Malformed("the headers do not end with their record")
    return found


def _header_places(headers: dict[int, list[HeaderFields]], size: int) -> HeaderPlaces:
    counts = np.zeros(size + 1, np.int64)
    for record, some in headers.items():
        counts[record + 1] = len(some)
    every = [header for some in headers.values() for header in some]
    return HeaderPlaces(np.cumsum(counts), *np.array(every, np.int64).reshape(-1, 4).T)
