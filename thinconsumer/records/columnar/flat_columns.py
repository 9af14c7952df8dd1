"""The columns of many batches, one after the other, and the ``ConsumerRecord`` objects built from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...garbage_collection import garbage_collection_paused
from ...types import ConsumerRecord
from ..headers import NAMES, Header
from ..rows import new_record
from .fields import HeaderPlaces

__all__ = ["FlatColumns"]

Int64s: TypeAlias = npt.NDArray[np.int64]
#: Keys, values and parts of headers up to this size are copied in groups of equal length, if a group has at least so
#: many pieces on average; for smaller groups numpy's calls take longer than slices.
GROUPED_MAX, GROUP_MIN = 512, 150


class FlatColumns(NamedTuple):
    """The columns of all decoded batches; the fields are described at :class:`.RecordColumns`, a slice of these."""

    offsets: Int64s
    timestamps: Int64s
    timestamp_types: npt.NDArray[np.int8]
    leader_epochs: npt.NDArray[np.int32]
    data: npt.NDArray[np.uint8]
    key_starts: Int64s
    key_lengths: Int64s
    value_starts: Int64s
    value_lengths: Int64s
    headers: HeaderPlaces | None

    @garbage_collection_paused
    def rows(
        self, topics: Iterable[str], partitions: Iterable[int], data: bytes
    ) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the records; ``topics`` and ``partitions`` yield one item for each.

        ``data`` are the bytes of :attr:`data`: slices of ``bytes`` are copied once, those of an array twice.
        """
        fields = zip(
            topics,
            partitions,
            _values(self.leader_epochs),
            self.offsets.tolist(),
            self.timestamps.tolist(),
            _values(self.timestamp_types),
            _pieces(data, self.key_starts, self.key_lengths),
            _pieces(data, self.value_starts, self.value_lengths),
            _headers(data, self.headers),
        )
        return list(map(new_record, fields))


def _values(column: npt.NDArray[Any]) -> Iterable[int]:
    """Return the column's values, which are mostly all the same."""
    if len(column) and (column == column[0]).all():
        return repeat(int(column[0]))
    values: list[int] = column.tolist()
    return values


def _pieces(data: bytes, starts: Int64s, lengths: Int64s) -> Iterable[bytes | None]:
    """Return the bytes at these positions; None for a negative length."""
    if not len(lengths):
        return ()
    shortest, longest = int(lengths.min()), int(lengths.max())
    if longest < 0:
        return repeat(None)
    if longest <= GROUPED_MAX:
        if shortest == longest:
            return _equal_pieces(data, starts, longest)
        counts = np.bincount(np.maximum(lengths, -1) + 1)
        if np.count_nonzero(counts) * GROUP_MIN <= len(lengths):
            return _grouped_pieces(data, starts, lengths, counts)
    stops = (starts + lengths).tolist()
    if shortest >= 0:
        return [data[start:stop] for start, stop in zip(starts.tolist(), stops)]
    # A null has a length of -1, so that its stop is before its start.
    return [data[start:stop] if start <= stop else None for start, stop in zip(starts.tolist(), stops)]


def _equal_pieces(data: bytes, starts: Int64s, length: int) -> list[bytes]:
    """Return pieces of the same length: numpy copies them in a quarter of the time of slices."""
    if not length:
        return [b""] * len(starts)
    # An array with an item for each position: the ``length`` bytes from there on. The data are not copied.
    pieces: list[bytes] = np.ndarray((len(data) - length + 1,), f"V{length}", data, 0, (1,))[starts].tolist()
    return pieces


def _grouped_pieces(data: bytes, starts: Int64s, lengths: Int64s, counts: Int64s) -> list[bytes | None]:
    """Return pieces of a few lengths; ``counts[n + 1]`` is the number of pieces of length n, ``counts[0]`` of nulls."""
    pieces = np.empty(len(lengths), object)
    for length in (np.flatnonzero(counts) - 1).tolist():
        if length >= 0:
            chosen = np.flatnonzero(lengths == length)
            pieces[chosen] = _equal_pieces(data, starts[chosen], length)
    found: list[bytes | None] = pieces.tolist()
    return found


def _headers(data: bytes, places: HeaderPlaces | None) -> Iterable[tuple[Header, ...]]:
    """Return each record's headers."""
    if places is None:
        return repeat(())
    first = places.first
    if first[0] == first[-1]:
        return repeat(())
    # A slice of columns shares the header places of the columns it was made of: read only those of its own records.
    used = slice(int(first[0]), int(first[-1]))
    names = _names(data, places.name_starts[used], places.name_lengths[used])
    values = _pieces(data, places.value_starts[used], places.value_lengths[used])
    pairs: list[Header] = list(zip(names, values))
    counts = np.diff(first)
    if int(counts.max()) > 1:
        stops = (first - first[0]).tolist()
        return [tuple(pairs[start:stop]) for start, stop in pairwise(stops)]
    singles: Iterator[tuple[Header, ...]] = zip(pairs)
    if len(pairs) == len(counts):
        return singles
    headers: list[tuple[Header, ...]] = [()] * len(counts)
    for index, single in zip(np.flatnonzero(counts).tolist(), singles):
        headers[index] = single
    return headers


def _names(data: bytes, starts: Int64s, lengths: Int64s) -> list[str]:
    """Return the names of headers, of which there are mostly few different ones."""
    return [NAMES[name or b""] for name in _pieces(data, starts, lengths)]
