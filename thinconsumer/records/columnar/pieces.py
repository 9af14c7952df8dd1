"""Copy many pieces of a buffer, such as keys and values, to ``bytes`` objects.

``struct`` copies pieces in C, given a format of how many bytes to skip and how many to copy (``35x372s7x12s...``), and
numpy writes this format for thousands of pieces as one array. Slicing piece by piece would take over twice as long.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from struct import Struct
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]

#: The limit of numbers in a format: each has four digits. ``struct`` ignores leading zeros.
NUMBERS = 10_000
_DIGITS = np.frombuffer(b"".join(b"%04d" % number for number in range(NUMBERS)), "<u4")
_FORMAT = np.dtype([("gap", "<u4"), ("skip", "S1"), ("size", "<u4"), ("copy", "S1")])
_WIDTH = _FORMAT.itemsize


class Pieces:
    """Pieces of a buffer at ``starts``, which are copied a range at a time; a negative length stands for null.

    Each piece must lie within the data. Pieces in ascending order are copied fastest, but any order is possible.
    """

    __slots__ = ("_begins", "_data", "_format", "_gaps", "_nulls", "_sizes", "_starts")

    def __init__(self, data: bytes | memoryview, starts: Int64s, lengths: Int64s) -> None:
        self._data = data
        self._starts = starts
        self._sizes = sizes = np.maximum(lengths, 0)
        self._nulls: list[int] = np.flatnonzero(lengths < 0).tolist()
        #: The number of bytes between each piece and the one before it; 0 where a new format begins.
        self._gaps = gaps = np.zeros_like(starts)
        np.subtract(starts[1:], (starts + sizes)[:-1], out=gaps[1:])
        # A format cannot go back, and its numbers have four digits. So a piece after a negative or a large gap begins a
        # new format. A large piece is sliced, and the piece after it begins a new format, too.
        is_large = sizes >= NUMBERS
        is_first = is_large | (gaps < 0) | (gaps >= NUMBERS)
        is_first[1:] |= is_large[:-1]
        first = np.flatnonzero(is_first)
        gaps[first] = 0
        self._begins: list[int] = first.tolist()
        formats = np.empty(len(starts), _FORMAT)
        formats["gap"], formats["skip"] = _DIGITS.take(gaps), b"x"
        formats["size"], formats["copy"] = _DIGITS.take(sizes, mode="clip"), b"s"
        self._format = formats.tobytes()

    def read(self, begin: int, end: int) -> list[bytes | None]:
        """Return the pieces ``begin`` to ``end`` (exclusive); None for null."""
        if begin >= end:
            return []
        pieces: list[bytes | None] = []
        inner = self._begins[bisect_left(self._begins, begin + 1) : bisect_left(self._begins, end)]
        for first, stop in pairwise((begin, *inner, end)):
            start, size = int(self._starts[first]), int(self._sizes[first])
            if size >= NUMBERS:
                pieces.append(bytes(self._data[start : start + size]))
                continue
            layout = Struct(self._format[first * _WIDTH : stop * _WIDTH])
            pieces += layout.unpack_from(self._data, start - int(self._gaps[first]))
        for index in self._nulls[bisect_left(self._nulls, begin) : bisect_left(self._nulls, end)]:
            pieces[index - begin] = None
        return pieces
