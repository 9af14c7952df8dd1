"""Finding records: together, alone, and who gets lost."""

from __future__ import annotations

import random

import pytest

np = pytest.importorskip("numpy")

from thinconsumer.records.builder import NewRecord, encode_record, write_varint  # noqa: E402
from thinconsumer.records.columnar.walk import NUMPY_STEP_COST, walk, walk_alone  # noqa: E402


def laid_out(bodies, gap=b""):
    """Return bodies side by side as ``walk`` wants them, and where their records really begin."""
    data, begins, ends, counts, expected = b"", [], [], [], []
    for body in bodies:
        begins.append(len(data))
        for record in body:
            expected.append(len(data))
            data += record
        ends.append(len(data))
        counts.append(len(body))
        data += gap
    arrays = (np.array(numbers, np.int64) for numbers in (begins, ends, counts))
    return (np.frombuffer(data, np.uint8), *arrays), expected


def records(rng, count, sizes=(0, 5, 40, 57, 58, 59, 100, 300)):
    return [encode_record(NewRecord(rng.randbytes(rng.choice(sizes))), n, n) for n in range(count)]


@pytest.mark.parametrize("gap", [b"", b"\xff" * 61], ids=["adjacent", "apart"])
@pytest.mark.parametrize(
    "counts",
    [
        [1],
        [500],
        [5000],
        [1000] * 5,
        [3000, 2, 400],
        [1] * NUMPY_STEP_COST,
        [30] * (NUMPY_STEP_COST // 2),
        [30] * (NUMPY_STEP_COST + 50),
        [*range(1, 90)],
        [400, 300, *[7] * 60],
        [1, 2, 3] * 40,
        [*[1] * 900, 700, *[15, 16, 17] * 30, 300, 250],
    ],
)
def test_each_record_is_found(counts, gap):
    rng = random.Random(1)
    arguments, expected = laid_out([records(rng, count) for count in counts], gap)
    assert walk(*arguments).tolist() == expected


def nested(rng, number):
    """Return a record whose value looks like records with consecutive offsets, from this one's own on."""
    inside = b"".join(encode_record(NewRecord(rng.randbytes(5)), number + n, 0) for n in range(rng.randrange(1, 9)))
    return encode_record(NewRecord(inside), number, 0)


@pytest.mark.parametrize("seed", range(5))
def test_values_that_look_like_records_mislead_nobody(seed):
    """Topics with dumps of other topics: a part that begins inside a value does not end where the next one begins."""
    rng = random.Random(seed)
    bodies = [[nested(rng, n) for n in range(2000)], records(rng, 700)]
    arguments, expected = laid_out(bodies)
    assert walk(*arguments).tolist() == expected


def test_offsets_with_holes_are_found_all_the_same():
    """Compaction: the offset is not the record's number, and parts that were guessed by it do not add up."""
    rng = random.Random(1)
    bodies = [[encode_record(NewRecord(rng.randbytes(40)), n + n // 10, 0) for n in range(3000)]]
    arguments, expected = laid_out(bodies)
    assert walk(*arguments).tolist() == expected


def test_a_large_batch_that_breaks_in_the_middle_is_lost_alone():
    rng = random.Random(1)
    bodies = [records(rng, 1000) for _ in range(3)]
    (data, begins, ends, counts), expected = laid_out(bodies)
    broken = data.copy()
    broken[expected[1500]] ^= 4
    found = walk(broken, begins, ends, counts).tolist()
    assert found == expected[:1000] + [-1] * 1000 + expected[2000:]


@pytest.mark.parametrize("many", [1, 60])
def test_large_records_are_found_beside_small_ones(many):
    """Their length takes three bytes, which no table of pairs holds."""
    rng = random.Random(1)
    bodies = [records(rng, 5, (3, 8180, 8190, 9000, 70_000)) for _ in range(many)]
    arguments, expected = laid_out(bodies)
    assert walk(*arguments).tolist() == expected


@pytest.mark.parametrize("many", [3, 60])
@pytest.mark.parametrize("how", ["one too many", "one too few", "longer", "shorter", "zeros", "ones", "negative"])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_who_is_lost_finds_nothing_and_the_others_everything(many, how, place):
    """Whatever is next to a broken batch: a walker may run through all the others, or out at the end."""
    rng = random.Random(1)
    bodies = [records(rng, 4) for _ in range(many)]
    (data, begins, ends, counts), expected = laid_out(bodies)
    broken = data.copy()
    begin, end = int(begins[place]), int(ends[place])
    if how.startswith("one too"):
        counts[place] += 1 if how.endswith("many") else -1
    elif how == "longer":
        broken[begin : begin + 2] = (0xFE, 0x7F)
    elif how == "shorter":
        broken[begin] = 2
    else:
        broken[begin:end] = {"zeros": 0, "ones": 0xFF, "negative": 1}[how]
    found = walk(broken, begins, ends, counts).tolist()
    number = range(many)[place]
    before, after = 4 * number, 4 * number + int(counts[place])
    assert found[before:after] == [-1] * (after - before)
    assert found[:before] + found[after:] == expected[:before] + expected[4 * number + 4 :]


def test_alone_reads_lengths_of_any_width():
    out = bytearray()
    write_varint(out, 5)
    long = bytearray()
    write_varint(long, 8192)
    assert walk_alone(bytes(out) + b"12345" + bytes(long) + bytes(8192), 2) == [0, 6]


@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_length_in_more_bytes_than_it_needs_is_left_to_the_row_decoder(width):
    """It is allowed, and whoever reads fields together knows by a record's size where they begin."""
    wide = bytes([0x8A, *[0x80] * (width - 2), 0x00])
    found = walk_alone(wide + b"12345", 1)
    assert found == ([0] if width == 2 else None)


@pytest.mark.parametrize("body", [b"\x08123", b"\x0a1234", b"", b"\0", b"\1\0", b"\xff" * 20, b"\x80\0\0"])
def test_alone_is_lost_without_an_error(body):
    assert walk_alone(body, 1) is None
