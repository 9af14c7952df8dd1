"""Where the records of many batches of format 2 begin.

A record says only how long it is, so that the next one's place is known when the one before has been looked at: the one
thing about records that cannot be read all at once. But batches know nothing of each other: one walker each, and all
walkers take a step together. Where too few are left for that to pay, each goes on alone.

Few large batches are cut into parts, so that there is a walker for each part. Where a part begins is guessed: from the
middle of a batch one looks for what could be a record, with the offset k, right before one with the offset k + 1.

Nothing here is believed that is not proven: a walker that does not end exactly where its batch does, or where the next
part begins, after as many records as that says, has found nothing. Its batch is walked alone, and if that ends nowhere
either, left to the row decoder.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..varints import LENGTH_TABLES, NOT_HERE, Malformed, varint
from .fields import varints

__all__ = ["walk"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]

#: A step of all walkers in numpy costs as much as so many steps in Python, and so does it to let one go on alone.
TOGETHER, ALONE = 20, 40
#: Batches are cut into parts of so many records at least, and so that there are about so many walkers.
PART_MIN, WALKERS = 150, 96
#: The smallest length that takes three bytes.
WIDE = 8192
#: The first record is looked for in so many bytes from a guess on, at most.
WINDOW_MAX = 2048


def _step(pair: int) -> int:
    low = pair & 0xFF
    length, width = (LENGTH_TABLES[1][low], 1) if low < 128 else (LENGTH_TABLES[2][pair], 2)
    return width + length if 0 < length < NOT_HERE else 0


#: How far it is from a record to the next, by the little-endian pair of bytes it begins with; 0 if that does not say:
#: a length of three bytes, a negative one, and 0, which no record can have.
_STEPS = [_step(pair) for pair in range(65536)]
_STEPS_ARRAY = np.array(_STEPS, np.int64)


def walk(data: Bytes, begins: Places, ends: Places, counts: Places) -> Places:
    """Where each record of each batch begins, batch after batch; -1 in all places of a batch that could not be walked.

    The records stand between ``begins`` and ``ends``, at least one for each batch, and seven bytes or more for each.
    """
    parts = _cut(data, begins, ends, counts) if len(counts) < WALKERS // 2 else None
    if parts is None:
        return _walk(data, begins, ends, counts)
    places = _walk(data, *parts)
    if int(places.min()) < 0:
        first = np.cumsum(counts) - counts
        for index in np.flatnonzero(np.minimum.reduceat(places, first) < 0).tolist():
            start, stop = int(first[index]), int(first[index] + counts[index])
            places[start:stop] = _walk(
                data, begins[index : index + 1], ends[index : index + 1], counts[index : index + 1]
            )
    return places


def _cut(data: Bytes, begins: Places, ends: Places, counts: Places) -> tuple[Places, Places, Places] | None:
    """Begins, ends and counts of the parts that these batches are probably made of; None where that does not pay."""
    wanted = np.maximum(np.minimum(counts // PART_MIN, -(-WALKERS * counts // int(counts.sum()))), 1)
    if int(wanted.max()) < 2:
        return None
    sizes = ends - begins
    window = min(3 * int((sizes // counts).max()) + 64, WINDOW_MAX)
    guesses = np.concatenate(
        [begin + size // parts * np.arange(1, parts) for begin, size, parts in zip(begins, sizes, wanted)]
    )
    batch = np.repeat(np.arange(len(counts)), wanted - 1)
    inside = guesses + window + 64 < ends[batch]
    guesses, batch = guesses[inside], batch[inside]
    found = _first_records(data, guesses, ends[batch], window)
    starts: list[list[int]] = [[int(begin)] for begin in begins]
    numbers: list[list[int]] = [[0] for _ in counts]
    for index, start, number in zip(batch.tolist(), *(column.tolist() for column in found)):
        if start > starts[index][-1] and numbers[index][-1] < number < counts[index]:
            starts[index].append(start)
            numbers[index].append(number)
    return (
        np.array([start for some in starts for start in some], np.int64),
        np.array([stop for some, end in zip(starts, ends) for stop in (*some[1:], end)], np.int64),
        np.concatenate([np.diff([*some, count]) for some, count in zip(numbers, counts)]),
    )


def _first_records(data: Bytes, guesses: Places, ends: Places, window: int) -> tuple[Places, Places]:
    """What seems to be the first record after each guess, and its number, by its offset; -1 where none is near."""
    pairs = _pairs(data)
    starts, numbers = np.full_like(guesses, -1), np.full_like(guesses, -1)
    at = (guesses[:, None] + np.arange(window)).ravel()
    # Attributes are zero, behind a length of one byte or two; that leaves one in a hundred or so.
    attributes = at + 1 + (data[at] >> 7)
    likely = np.flatnonzero(data[attributes] == 0)
    guess, at = likely // window, at[likely]
    following = at + _STEPS_ARRAY.take(pairs[at], mode="clip")
    near = (following > at) & (following + 8 < ends[guess])
    guess, at, following = guess[near], at[near], following[near]
    bad = np.zeros(len(at), bool)
    here, there = _offsets(data, at, bad), _offsets(data, following, bad)
    good = np.flatnonzero(~bad & (here >= 0) & (there == here + 1))[::-1]
    starts[guess[good]], numbers[guess[good]] = at[good], here[good]  # the first one of each is written last
    return starts, numbers


def _offsets(data: Bytes, records: Places, bad: npt.NDArray[np.bool_]) -> Places:
    """The offsets of what may be records, relative to their batch's."""
    attributes = records + 1 + (data[records] >> 7)
    bad |= data[attributes] != 0
    _, pos = varints(data, attributes + 1, 10, bad)
    return varints(data, pos, 5, bad)[0]


def _walk(data: Bytes, begins: Places, ends: Places, counts: Places) -> Places:
    """:func:`walk`, with one walker for each batch."""
    last = np.cumsum(counts)
    first = last - counts
    order = np.argsort(-counts, kind="stable")
    steps = _steps_together(counts[order])
    alike = 2 * int(counts[order[0]]) <= 3 * int(counts[order[-1]])
    try:
        places, at = (_in_step if alike else _longest_first)(data, begins, counts, steps, order)
    except IndexError:  # one is lost, and beyond the end: nobody has arrived then
        places, at = np.empty(int(last[-1]), np.int64), np.full_like(begins, -1)
    # A walker that does not know how far it is to the next record stands still. Where one ends that has begun before
    # that, all of them do.
    ahead = (at >= 0) & (at > places[first + np.minimum(counts, max(steps, 1)) - 1])
    whole = ahead & (at == ends) & (counts <= steps)
    begun = ahead & (at < ends) & (steps > 0) & (counts > steps)
    for index in np.flatnonzero(~whole).tolist():
        mine, end = places[int(first[index]) : int(last[index])], int(ends[index])
        if begun[index] and _alone(data, int(at[index]), end, mine[steps:]):
            continue
        if not _alone(data, int(begins[index]), end, mine):
            mine[:] = -1
    return places


def _steps_together(counts: Places) -> int:
    """How many steps to take together, before those that have not arrived go on alone: so that it costs the least.

    Of batches with so many records, the longest first.
    """
    steps = np.concatenate((counts, [0]))
    alone = np.arange(len(steps))  # after so many steps so many are left; the sum is what they have walked in all
    left = np.cumsum(steps) - steps - alone * steps
    return int(steps[np.argmin(steps * TOGETHER + left + alone * ALONE)])


def _in_step(data: Bytes, begins: Places, counts: Places, steps: int, _: Places) -> tuple[Places, Places]:
    """Walk up to ``steps`` records of each batch, all walkers to the end; return the records, and where walkers are.

    A walker that has arrived runs on into what is behind its batch, which means nothing: so for batches with about as
    many records as each other.
    """
    pairs = _pairs(data)
    end = len(pairs) - 1
    pos = begins
    rows = [pos]
    for _number in range(steps):
        pos = pos + _STEPS_ARRAY.take(pairs[np.minimum(pos, end)], mode="clip")
        rows.append(pos)
    passed = np.concatenate(rows).reshape(steps + 1, len(begins))
    taken = np.minimum(counts, steps)
    places = passed[:-1].T[np.arange(steps) < taken[:, None]]
    at = passed[taken, np.arange(len(counts))]
    return _spread(places, counts, taken), at


def _longest_first(data: Bytes, begins: Places, counts: Places, steps: int, order: Places) -> tuple[Places, Places]:
    """The same, for batches of any sizes: whoever has arrived stops.

    Raises:
        IndexError: a walker is lost, and beyond the end.
    """
    pairs = _pairs(data)
    pos = begins[order]
    walkers = np.searchsorted(-counts[order], -np.arange(steps), side="left")  # that take each step
    found: list[Places] = []
    arrived: list[Places] = []
    for many in walkers.tolist():
        if many < len(pos):
            arrived.append(pos[many:])
            pos = pos[:many]
        found.append(pos)
        pos = pos + _STEPS_ARRAY.take(pairs[pos], mode="clip")
    arrived.append(pos)
    at = np.empty_like(begins)
    at[order] = np.concatenate(arrived[::-1])
    step = np.repeat(np.arange(steps), walkers)
    walker = order[np.arange(len(step)) - np.repeat(np.cumsum(walkers) - walkers, walkers)]
    places = np.empty(int(counts.sum()), np.int64)
    places[(np.cumsum(counts) - counts)[walker] + step] = np.concatenate(found) if found else 0
    return places, at


def _pairs(data: Bytes) -> npt.NDArray[np.uint16]:
    """Every two bytes that follow one another."""
    return np.ndarray((len(data) - 1,), "<u2", data, 0, (1,))


def _spread(places: Places, counts: Places, taken: Places) -> Places:
    """Make room behind the first ``taken`` records of each batch for the rest of them."""
    if len(places) == counts.sum():
        return places
    last = np.cumsum(counts)
    wide = np.empty(int(last[-1]), np.int64)
    wide[np.arange(len(wide)) - np.repeat(last - counts, counts) < np.repeat(taken, counts)] = places
    return wide


def _alone(data: Bytes, begin: int, end: int, places: Places) -> bool:
    """Put down where as many records as there are places begin; return whether they are what is there."""
    count = len(places)
    body: Any = memoryview(data)[begin:end]
    # Bytes are faster to look at, unless that many are copied for it.
    found = alone(bytes(body) if end - begin < 400 * count else body, count)
    if found is not None:
        np.add(found, begin, out=places)
    return found is not None


def alone(body: bytes, count: int) -> list[int] | None:
    """Where each of ``count`` records in ``body`` begins; None unless they are all that is in there."""
    steps = _STEPS
    pos = 0
    found: list[int] = []
    put = found.append
    try:
        for _ in range(count):
            put(pos)
            step = steps[body[pos] | body[pos + 1] << 8]
            if not step:
                length, start = varint(body, pos)
                step = start - pos + length
                if length < WIDE:  # negative, or in more bytes than it needs: whoever reads what is inside relies on it
                    return None
            pos += step
    except (Malformed, IndexError):  # lost, and beyond the end
        return None
    return found if pos == len(body) else None
