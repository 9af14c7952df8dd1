"""Copying pieces of a buffer: every order, size and gap, nulls, and each range of them."""

import random

import pytest

np = pytest.importorskip("numpy")

from thinconsumer.records.columnar.pieces import NUMBERS, Pieces  # noqa: E402


def int64s(numbers):
    return np.array(numbers, np.int64)


def check(data, starts, lengths, ranges=()):
    """Compare all pieces, and those of each range, with slices; both of bytes and of a view."""
    expected = [None if n < 0 else data[at : at + n] for at, n in zip(starts, lengths)]
    for source in (data, memoryview(bytearray(data))):
        pieces = Pieces(source, int64s(starts), int64s(lengths))
        for begin, end in ((0, len(starts)), *ranges):
            found = pieces.read(begin, end)
            assert found == expected[begin:end]
            assert all(piece is None or type(piece) is bytes for piece in found)


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [
        ([], []),
        ([0], [0]),
        ([7], [-1]),
        ([3, 3, 5], [0, 2, -1]),
        ([5, 0, 9, 9], [3, 5, 1, 1]),  # back, and the same piece twice
        ([0, 2, 1], [4, 4, 4]),  # overlapping
        ([0, 1, 1], [-1, -1, -1]),
    ],
)
def test_any_order_and_nulls(starts, lengths):
    ranges = [(begin, end) for begin in range(len(starts)) for end in range(begin, len(starts) + 1)]
    check(b"0123456789", starts, lengths, ranges)


@pytest.mark.parametrize("size", [NUMBERS - 1, NUMBERS, NUMBERS + 1, 3 * NUMBERS])
@pytest.mark.parametrize("gap", [0, NUMBERS - 1, NUMBERS, 2 * NUMBERS])
def test_large_pieces_and_large_gaps(size, gap):
    """A number of five digits does not fit into the format."""
    starts, lengths, at = [], [], 0
    for length in (2, size, 0, 5, size, size, -1, 7):
        starts.append(at + gap)
        lengths.append(length)
        at = starts[-1] + max(length, 0)
    ranges = [(begin, end) for begin in range(len(starts)) for end in range(begin, len(starts) + 1)]
    check(random.Random(1).randbytes(at), starts, lengths, ranges)


@pytest.mark.parametrize("seed", range(30))
def test_random_pieces(seed):
    chance = random.Random(seed)
    data = chance.randbytes(60_000)
    starts, lengths, at = [], [], 0
    for _ in range(200):
        at += chance.choice((0, 1, 3, 40, 12_000 if chance.random() < 0.02 else 2))
        length = chance.choice((-1, 0, 1, 9, 300, 11_000 if chance.random() < 0.02 else 5))
        if at + max(length, 0) > len(data) or chance.random() < 0.02:
            at = chance.randrange(1000)
            length = min(length, 100)
        starts.append(at)
        lengths.append(length)
        at += max(length, 0)
    ranges = [sorted((chance.randrange(201), chance.randrange(201))) for _ in range(50)]
    check(data, starts, lengths, ranges)
