"""Find the first batch of a response with wrong offsets, so that the valid batches before it can be returned.

No checksum covers a batch's base offset, and a batch whose last offset delta is too high overlaps the next one. The
decoders do not compare batches with each other. This module does, for the few responses whose batches do not ascend,
or whose first batch ends at or below the fetch offset.
"""

from __future__ import annotations

from typing import NamedTuple

from .batch import RecordBatch
from .batches import Batches, split


class Fault(NamedTuple):
    """Why a batch cannot be returned."""

    problem: str
    offset: int  #: The offset after the valid batches; without any, the fetch offset.
    next_offset: int  #: The first offset after the batch.


def usable(batches: Batches, start: int, check_crcs: bool) -> tuple[Batches, Fault | None]:
    """Return the usable batches of a response to a Fetch from offset ``start``, and the fault of the batch after them.

    The first batches are left out if they end at or below ``start``. With ``check_crcs``, each checksum is verified
    first: otherwise a batch with a corrupt offset delta could seem to end below ``start``, and its records be lost.
    """
    begin, reached = 0, start
    for index, batch in enumerate(batches):
        if check_crcs and not batch.is_whole():
            words = f"the checksum of the batch at offset {batch.base_offset} is wrong"
            return _part(batches, begin, index), Fault(words, reached, batches.end_of_corrupt(index, reached))
        if begin == index:
            if batch.next_offset <= start:
                begin = index + 1
                continue
            fault = _gap(batches, index, start) if begin else None
            if fault is not None:
                return _part(batches, 0, 0), fault
        elif batch.base_offset < reached:
            return _out_of_order(batches, begin, index, start)
        reached = batch.next_offset
    return _part(batches, begin, len(batches)), None


def _gap(batches: Batches, index: int, start: int) -> Fault | None:
    """Return the fault of the batch before ``index``, which ends at or below ``start``; None if it has none.

    If that batch has exactly as many offsets as are missing between ``start`` and the batch at ``index``, its base
    offset has probably been lowered. Otherwise compaction has removed the missing offsets.
    """
    below, first = batches[index - 1], batches[index].base_offset
    if below.magic != 2 or first - start != _size(below):
        return None
    return Fault(f"a batch of {_size(below)} offsets begins at {below.base_offset}, below this position", start, first)


def _out_of_order(batches: Batches, begin: int, index: int, start: int) -> tuple[Batches, Fault]:
    """Decide which of two batches out of order has wrong offsets: the batch at ``index``, or the one before it.

    Returns the usable batches and that batch's fault.
    """
    batch, before = batches[index], batches[index - 1]
    floor = batches[index - 2].next_offset if index - 2 >= begin else start
    following = batches[index + 1].base_offset if index + 1 < len(batches) else None
    reached = before.next_offset
    # If ``before`` has wrong offsets, its records fit into the offsets between the batch before it and ``batch``. An
    # exact fit is the best sign, since most logs lack no offsets.
    room = batch.base_offset - floor
    fits_exactly = room in (_size(before), before.count)
    follows_exactly = following is not None and following - reached == _size(batch)
    fits = min(_size(before), max(before.count, 1)) <= room and (following is None or following < reached)
    if fits_exactly or (fits and not follows_exactly):
        words = f"batches out of order: one that begins at {before.base_offset} precedes one at {batch.base_offset}"
        return _part(batches, begin, index - 1), Fault(words, floor, batch.base_offset)
    words = f"batches out of order: one that begins at {batch.base_offset} follows one that ends at {reached}"
    if following is None or following <= reached:
        following = reached + max(_size(batch), 1)
    return _part(batches, begin, index), Fault(words, reached, following)


def _size(batch: RecordBatch) -> int:
    """Return the batch's number of offsets."""
    return batch.next_offset - batch.base_offset


def _part(batches: Batches, begin: int, end: int) -> Batches:
    return split(batches.source[batches.starts[begin] : batches.starts[end]])[0]
