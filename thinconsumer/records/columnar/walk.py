"""Find the positions of all records in many batches of format 2.

The length of one record says where the next one begins, so the records of a batch have to be visited one after the
other. Each batch gets a *walker*, a position that advances from record to record, and numpy advances all walkers by one
record in one step. When few walkers are left, the rest of each batch is walked alone in plain Python. Lengths of three
bytes or more are read in plain Python between two steps; if many records are that long, all batches are walked alone.

If most batches are alike (their first records are equally long, their second ones, too, and so on), the batch with the
most records shows where the records of the others must be. Numpy verifies this for all records at once.

Few large batches are split into parts, with a walker for each part. The beginning of a part is guessed: search from a
position in the middle of the batch for two apparent records with the offset deltas k and k + 1. A walker must end
exactly at the end of its batch, or at the beginning of the next part, after the expected number of records. If not, its
part is walked alone; if that fails too, the batches are walked without parts.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..varints import LENGTH_TABLES, NO_VARINT, Malformed, varint
from .fields import Bytes, varints
from .pieces import Int64s

#: Estimated costs, in units of the time to read one record's length in plain Python: of one numpy step for all walkers,
#: of one length of three bytes or more between two steps, and of beginning to walk one batch alone.
NUMPY_STEP_COST, LONG_LENGTH_COST, ALONE_COST = 20, 16, 40
#: So many lengths of three bytes or more may be read between steps; further ones if the steps have saved the time.
LONG_LENGTHS_MIN = 10
#: Large batches are split into parts of at least ``PART_MIN`` records, so that there are about ``WALKERS`` walkers.
PART_MIN, WALKERS = 100, 96
#: The smallest record length that needs a varint of three bytes.
THREE_BYTES_MIN = 8192
#: The maximum number of bytes of a length.
LENGTH_BYTES_MAX = 5
#: A distance that leads beyond all data, for walkers that have met a length of three bytes or more.
FAR = 1 << 40
#: The search for the first record of a part covers at most this many bytes.
WINDOW_MAX = 2048


def _steps() -> Int64s:
    # The first byte is the low one of the number: a row is made of all numbers with the same second byte.
    steps = np.array(LENGTH_TABLES[2], np.int64).reshape(256, 256) + 2
    steps[:, :128] = np.array(LENGTH_TABLES[1][:128], np.int64) + 1
    width = np.where(np.arange(256) < 128, 1, 2)
    return np.where((steps > width) & (steps < NO_VARINT), steps, 0).ravel()


#: By a record's first two bytes as a little-endian number: the distance from that record to the next one. 0 if the
#: distance is unknown (a length of three bytes or more) or invalid (a length of 0 or less).
_STEPS_ARRAY = _steps()
#: The same with ``FAR`` in place of 0, so that numpy itself raises an error in the step after an unknown distance.
_STEPS_OR_FAR = np.where(_STEPS_ARRAY > 0, _STEPS_ARRAY, FAR)
#: As ``_STEPS_ARRAY``, indexed by the second byte and then by the first: two lookups are faster than a sum.
_STEPS_BY_BYTES: list[list[int]] = _STEPS_ARRAY.reshape(256, 256).tolist()


def walk(data: Bytes, begins: Int64s, ends: Int64s, counts: Int64s) -> Int64s | None:
    """Return the positions of all records, batch after batch; None unless their lengths lead to the batches' ends.

    The records of each batch begin and end at ``begins`` and ``ends``. The caller has checked that each batch has at
    least one record, and at least seven bytes per record.
    """
    positions = _walk_alike(data, begins, ends, counts)
    if positions is not None:
        return positions
    # Batches are split only if they are fewer than this. Splitting many batches, or small ones, saves no more time than
    # the search for parts takes.
    enough = WALKERS // 4 if counts.max() < 5 * PART_MIN else WALKERS // 2
    parts = _split(data, begins, ends, counts) if len(counts) < enough else None
    found = None if parts is None else _walk(data, *parts)
    return _walk(data, begins, ends, counts) if found is None else found


def _walk_alike(data: Bytes, begins: Int64s, ends: Int64s, counts: Int64s) -> Int64s | None:
    """Return the positions of all records by walking only the batch with the most records, and those that differ.

    Returns None unless the records of most batches are as long as those of that batch, and all lead to the ends.
    """
    pairs, sizes = _pairs(data), ends - begins
    longest = int(counts.argmax())
    lengths = _STEPS_ARRAY.take(pairs[begins])
    if 2 * np.count_nonzero(lengths == lengths[longest]) <= len(counts):
        return None
    # To walk one batch alone takes as long as to walk some twenty together: with a few large batches nothing is gained.
    peers = sizes[counts == counts[longest]]
    if 4 * counts[longest] > counts.sum() or 2 * np.count_nonzero(peers == sizes[longest]) <= len(peers):
        return None
    begin, end = int(begins[longest]), int(ends[longest])
    pattern = np.full(int(counts[longest]) + 1, end)
    if not _walk_alone_into(data, begin, end, pattern[:-1]):
        return None
    pattern -= begin
    alike = pattern.take(counts) == sizes
    if 2 * np.count_nonzero(alike) <= len(counts):
        return None
    some = counts[alike]
    first = some.cumsum() - some
    number = np.arange(int(some.sum())) - first.repeat(some)
    places = pattern.take(number)
    positions = begins[alike].repeat(some) + places
    is_expected = _STEPS_ARRAY.take(pairs[positions]) == pattern.take(number + 1) - places
    if len(some) == len(counts) and is_expected.all():
        return positions
    good = np.logical_and.reduceat(is_expected, first)
    alike[alike] = good
    others = _walk(data, begins[~alike], ends[~alike], counts[~alike])
    if others is None:
        return None
    both = np.empty(int(counts.sum()), np.int64)
    belongs = alike.repeat(counts)
    both[belongs], both[~belongs] = positions[good.repeat(some)], others
    return both


def _split(data: Bytes, begins: Int64s, ends: Int64s, counts: Int64s) -> tuple[Int64s, Int64s, Int64s] | None:
    """Return begins, ends and record counts of probable parts of these batches; None if no batch is large enough."""
    wanted = np.maximum(np.minimum(counts // PART_MIN, -(-WALKERS * counts // int(counts.sum()))), 1)
    if int(wanted.max()) < 2:
        return None
    sizes = ends - begins
    window = min(3 * int((sizes // counts).max()) + 64, WINDOW_MAX)
    batch = np.repeat(np.arange(len(counts)), wanted)
    part = np.arange(len(batch)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    guesses = begins[batch] + (sizes // wanted)[batch] * part
    is_guess = (part > 0) & (guesses + window + 64 < ends[batch])
    starts, numbers = guesses.copy(), part.copy()
    starts[is_guess], numbers[is_guess] = _first_records(data, guesses[is_guess], ends[batch[is_guess]], window)
    valid = (part == 0) | (is_guess & (numbers > 0) & (numbers < counts[batch]))
    batch, starts, numbers = batch[valid], starts[valid], numbers[valid]
    # A part begins with a later record than all parts before it; if not, a guess was wrong.
    place = batch * (int(counts.max()) + 1) + numbers
    later = np.append(True, place[1:] > np.maximum.accumulate(place)[:-1])
    batch, starts, numbers = batch[later], starts[later], numbers[later]
    is_last = np.append(batch[1:] != batch[:-1], True)
    stops, following = np.append(starts[1:], 0), np.append(numbers[1:], 0)
    stops[is_last], following[is_last] = ends, counts
    return starts, stops, following - numbers


def _first_records(data: Bytes, guesses: Int64s, ends: Int64s, window: int) -> tuple[Int64s, Int64s]:
    """Return position and offset delta of the first bytes after each guess that look like a record; -1 if none do."""
    pairs = _pairs(data)
    starts, numbers = np.full_like(guesses, -1), np.full_like(guesses, -1)
    # Row i of this array has the bytes from i on. The data are not copied.
    everywhere = np.ndarray((len(data) - window + 1, window), np.uint8, data, 0, (1, 1))
    # A record begins with a length of one or two bytes, and attributes of zero. In text, zeros are rare.
    guess, zero = np.nonzero(everywhere[guesses] == 0)
    zero += guesses[guess]
    at = zero - 1 - (data[zero - 2] >> 7)
    following = at + _STEPS_ARRAY.take(pairs[at], mode="clip")
    near = (following > at) & (following + 8 < ends[guess])
    guess, at, following = guess[near], at[near], following[near]
    bad = np.zeros(len(at), bool)
    here, there = _offsets(data, at, bad), _offsets(data, following, bad)
    good = np.flatnonzero(~bad & (here >= 0) & (there == here + 1))[::-1]
    # A guess may have several candidates. They are stored one over the other, in descending order (see ``good``), so
    # that the first candidate after the guess remains.
    starts[guess[good]], numbers[guess[good]] = at[good], here[good]
    return starts, numbers


def _offsets(data: Bytes, records: Int64s, bad: npt.NDArray[np.bool_]) -> Int64s:
    """Return the offset deltas of candidates for records; set ``bad`` for those that cannot be records."""
    attributes = records + 1 + (data[records] >> 7)
    bad |= data[attributes] != 0
    _, pos = varints(data, attributes + 1, 10, bad)
    return varints(data, pos, 5, bad)[0]


def _walk(data: Bytes, begins: Int64s, ends: Int64s, counts: Int64s) -> Int64s | None:
    """Do the same as :func:`walk`, but do not split batches: each given range is walked from its begin to its end."""
    last = np.cumsum(counts)
    first = last - counts
    order = np.argsort(-counts, kind="stable")
    steps = _numpy_steps(counts[order])
    try:
        positions, at = _walk_together(data, begins, counts, steps, order)
    except _WalkAloneError:
        positions, at = np.empty(int(last[-1]), np.int64), ends + 1  # no walker has stopped within its batch
    whole = (at == ends) & (counts <= steps)
    begun = (at < ends) & (steps > 0) & (counts > steps)
    for index in np.flatnonzero(~whole).tolist():
        mine, end = positions[int(first[index]) : int(last[index])], int(ends[index])
        if begun[index] and _walk_alone_into(data, int(at[index]), end, mine[steps:]):
            continue
        if not _walk_alone_into(data, int(begins[index]), end, mine):
            return None
    return positions


def _numpy_steps(counts: Int64s) -> int:
    """Return the number of numpy steps after which to walk the rest alone, for the least total cost.

    ``counts`` are the batches' record counts in descending order.
    """
    steps = np.concatenate((counts, [0]))
    walkers_left = np.arange(len(steps))  # after ``steps[i]`` numpy steps, ``i`` walkers are left
    records_left = np.cumsum(steps) - steps - walkers_left * steps
    return int(steps[np.argmin(steps * NUMPY_STEP_COST + records_left + walkers_left * ALONE_COST)])


def _walk_together(data: Bytes, begins: Int64s, counts: Int64s, steps: int, order: Int64s) -> tuple[Int64s, Int64s]:
    """Walk up to ``steps`` records of each batch; return the records' positions, and where each walker has stopped.

    ``order`` lists the batches by descending record count: walkers of the smallest batches end first, and are cut off
    at the array's end. Raises: _WalkAloneError for an invalid length, a walker beyond the data, or many long records.
    """
    pairs = _pairs(data)
    pos = begins[order]
    walkers = np.searchsorted(-counts[order], -np.arange(steps), side="left")  # the number of walkers in each step
    passed: list[Int64s] = []
    finished: list[Int64s] = []
    long_lengths = 0
    saved = np.cumsum(walkers - NUMPY_STEP_COST) + LONG_LENGTHS_MIN * LONG_LENGTH_COST
    for number, many in enumerate(walkers.tolist()):
        if many < len(pos):
            finished.append(pos[many:])
            pos = pos[:many]
        try:
            here = pairs[pos]
        except IndexError:
            long_lengths += _move_far_walkers(data, pos)
            if long_lengths * LONG_LENGTH_COST > saved[number]:
                raise _WalkAloneError from None
            here = pairs.take(pos, mode="clip")  # a walker that leaves the data now does not end where its batch ends
        passed.append(pos)
        pos = pos + _STEPS_OR_FAR.take(here, mode="clip")
    finished.append(pos)
    at = np.empty_like(begins)
    at[order] = np.concatenate(finished[::-1])
    if np.count_nonzero(at >= FAR):
        _move_far_walkers(data, at)
    step = np.repeat(np.arange(steps), walkers)
    walker = order[np.arange(len(step)) - np.repeat(np.cumsum(walkers) - walkers, walkers)]
    positions = np.empty(int(counts.sum()), np.int64)
    positions[(np.cumsum(counts) - counts)[walker] + step] = np.concatenate(passed) if passed else 0
    return positions, at


class _WalkAloneError(Exception):
    """The batches must be walked alone."""


def _move_far_walkers(data: Bytes, pos: Int64s) -> int:
    """Move the walkers that are ``FAR`` beyond a record to the record after it; return their number.

    Raises: _WalkAloneError if there are none (then a walker has left the data), or if a length is invalid.
    """
    far = np.flatnonzero(pos >= FAR).tolist()
    if not far:
        raise _WalkAloneError
    for index in far:
        at = int(pos[index]) - FAR
        try:
            length, width = varint(data[at : at + LENGTH_BYTES_MAX].tobytes(), 0)
        except (Malformed, IndexError):
            raise _WalkAloneError from None
        if length < THREE_BYTES_MIN:  # negative or overlong: ``fields`` cannot read it
            raise _WalkAloneError
        pos[index] = at + width + length
    return len(far)


def _pairs(data: Bytes) -> npt.NDArray[np.uint16]:
    """Return an array of little-endian numbers: entry i is made of the bytes i and i + 1. The data are not copied."""
    return np.ndarray((len(data) - 1,), "<u2", data, 0, (1,))


def _walk_alone_into(data: Bytes, begin: int, end: int, positions: Int64s) -> bool:
    """Walk one batch in plain Python; store its records' positions; return whether they end exactly at ``end``."""
    count = len(positions)
    shift = 0
    body: Any = data.base
    if not isinstance(body, bytes) or len(body) != len(data):
        # Bytes are indexed faster than a memoryview. Over 400 bytes per record, the copy takes more time than it saves.
        body, shift = memoryview(data)[begin:end], begin
        if end - begin < 400 * count:
            body = bytes(body)
    found = walk_alone(body, begin - shift, end - shift, count)
    if found is not None:
        np.add(found, shift, out=positions)
    return found is not None


def walk_alone(body: bytes, pos: int, end: int, count: int) -> list[int] | None:
    """Return the positions of ``count`` records from ``pos`` on; None if they do not end exactly at ``end``."""
    steps = _STEPS_BY_BYTES
    found: list[int] = []
    put = found.append
    try:
        for _ in range(count):
            put(pos)
            step = steps[body[pos + 1]][body[pos]]
            if not step:
                length, start = varint(body, pos)
                step = start - pos + length
                if length < THREE_BYTES_MIN:  # negative or overlong: ``fields`` cannot read it
                    return None
            pos += step
    except (Malformed, IndexError):
        return None
    return found if pos == end else None
