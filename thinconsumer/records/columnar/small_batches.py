"""A few records of format 2, one by one: what :mod:`.walk` and :mod:`.fields` find out of many at a time.

numpy takes as long for one as for a hundred, and an answer with large values holds no more than that. So Python's
integers read them, and the result is the same :class:`.fields.Fields`. Nothing is decided here either: a batch that is
not as it should be is named, and left to the row decoder. No byte of a key or a value is looked at or copied.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..varints import Malformed, varint, varlong
from .fields import Fields, HeaderPlaces

__all__ = ["read"]

Int64s: TypeAlias = npt.NDArray[np.int64]
#: Timestamp, offset, and of key and value where they begin and how long they are, both of which may be -1 for null.
Record: TypeAlias = tuple[int, int, int, int, int, int]
#: The same of a header's name and value.
Header: TypeAlias = tuple[int, int, int, int]

_NOTHING: Record = (0, 0, 0, -1, 0, -1)


def read(data: bytes | memoryview, begins: Int64s, ends: Int64s, counts: Int64s) -> Fields:
    """Read so many records between each of ``begins`` and its end."""
    found: list[Record] = []
    headers: dict[int, list[Header]] = {}  # by record
    bad: list[slice] = []
    for begin, end, count in zip(begins.tolist(), ends.tolist(), counts.tolist()):
        first = len(found)
        try:
            _batch(data, begin, end, count, found, headers)
        except (Malformed, IndexError):
            found[first:] = [_NOTHING] * count
            bad.append(slice(first, first + count))
    lost = np.zeros(len(found), bool)
    for records in bad:
        lost[records] = True
    places = _in_order(headers, len(found)) if headers else None
    deltas, offsets, keys, key_lengths, values, value_lengths = np.ascontiguousarray(np.array(found, np.int64).T)
    return Fields(deltas, offsets, keys, key_lengths, values, value_lengths, places, lost)


def _batch(
    data: bytes | memoryview, pos: int, end: int, count: int, found: list[Record], headers: dict[int, list[Header]]
) -> None:
    """Read one batch's records.

    Raises:
        Malformed: they are not what stands there, as far as is looked at here.
        IndexError: the data end before them.
    """
    put = found.append
    for record in range(len(found), len(found) + count):
        length, pos = varint(data, pos)
        stop = pos + length
        delta, pos = varlong(data, pos + 1)  # behind the attributes, which are unused
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
            raise Malformed("a record that ends before its fields, or behind its batch")
        put((delta, offset, key, key_length, value, value_length))
        if pos + 1 != stop or data[pos]:
            headers[record] = _headers(data, pos, stop)
        pos = stop
    if pos != end:
        raise Malformed("bytes behind the last record")


def _headers(data: bytes | memoryview, pos: int, end: int) -> list[Header]:
    number, pos = varint(data, pos)
    if not 0 <= 2 * number <= end - pos:  # two bytes each at least
        raise Malformed("more headers than there is room for")
    found: list[Header] = []
    for _ in range(number):
        name_length, name = varint(data, pos)
        if name_length < 0:
            raise Malformed("a header without a name")
        value_length, value = varint(data, name + name_length)
        pos = value + max(value_length, 0)
        found.append((name, name_length, value, max(value_length, -1)))
    if pos != end:
        raise Malformed("headers that end elsewhere than their record")
    return found


def _in_order(headers: dict[int, list[Header]], size: int) -> HeaderPlaces:
    counts = np.zeros(size + 1, np.int64)
    for record, some in headers.items():
        counts[record + 1] = len(some)
    every = [header for some in headers.values() for header in some]
    return HeaderPlaces(np.cumsum(counts), *np.array(every, np.int64).reshape(-1, 4).T)
