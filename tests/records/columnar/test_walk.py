"""Finding the positions of records: batches together, alone, and corrupt ones."""

import random

import pytest

np = pytest.importorskip("numpy")

from handmade import encode_record, varint_of  # noqa: E402

from thinconsumer.records.builder import NewRecord  # noqa: E402
from thinconsumer.records.columnar import walk as walk_module  # noqa: E402
from thinconsumer.records.columnar.walk import NUMPY_STEP_COST, walk, walk_alone  # noqa: E402


def laid_out(bodies, gap=b""):
    """Return bodies in one buffer as ``walk`` takes them, and the true positions of their records."""
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
    """Return a record with a value that looks like records with consecutive offsets, starting at its own."""
    inside = b"".join(encode_record(NewRecord(rng.randbytes(5)), number + n, 0) for n in range(rng.randrange(1, 9)))
    return encode_record(NewRecord(inside), number, 0)


@pytest.mark.parametrize("seed", range(5))
def test_values_that_look_like_records_do_not_mislead_the_walk(seed):
    """A part that begins inside a value does not end where the next part begins."""
    rng = random.Random(seed)
    bodies = [[nested(rng, n) for n in range(2000)], records(rng, 700)]
    arguments, expected = laid_out(bodies)
    assert walk(*arguments).tolist() == expected


def test_compacted_batches_are_walked():
    """After compaction an offset delta is no record index, so guessed parts do not add up."""
    rng = random.Random(1)
    bodies = [[encode_record(NewRecord(rng.randbytes(40)), n + n // 10, 0) for n in range(3000)]]
    arguments, expected = laid_out(bodies)
    assert walk(*arguments).tolist() == expected


def test_a_large_batch_corrupt_in_the_middle_fails_the_walk():
    rng = random.Random(1)
    bodies = [records(rng, 1000) for _ in range(3)]
    (data, *arguments), expected = laid_out(bodies)
    broken = data.copy()
    broken[expected[1500]] ^= 4
    assert walk(broken, *arguments) is None


@pytest.mark.parametrize("many", [1, 60])
def test_large_records_are_found_beside_small_ones(many):
    """Their length takes three bytes or four, which the table of distances does not contain."""
    rng = random.Random(1)
    bodies = [records(rng, 5, (3, 8180, 8190, 9000, 70_000, 1_100_000)) for _ in range(many)]
    arguments, expected = laid_out(bodies)
    assert walk(*arguments).tolist() == expected


def test_batches_with_some_large_records_are_walked_together(monkeypatch):
    """To walk them alone takes three times as long."""
    rng = random.Random(1)
    bodies = [records(rng, 40, (*range(40, 140), 8190, 9000, 3_000_000 // 40)) for _ in range(60)]
    arguments, expected = laid_out(bodies)
    monkeypatch.setattr(walk_module, "walk_alone", None)
    assert walk(*arguments).tolist() == expected


def of_one_size(count, size=100, late=None):
    """Return records of one size; from the index ``late`` on, timestamps take a byte more."""
    return [encode_record(NewRecord(bytes(size)), n, 0 if late is None or n < late else 100) for n in range(count)]


@pytest.mark.parametrize("gap", [b"", b"\xff" * 61], ids=["adjacent", "apart"])
@pytest.mark.parametrize("counts", [[150] * 30, [*range(1, 151)], [150, 150, 1, 63, 64, 65, 149]])
def test_batches_of_equally_long_records_need_no_steps(monkeypatch, counts, gap):
    """One of them is walked, and the others are compared with it."""
    monkeypatch.setattr(walk_module, "_walk", None)
    arguments, expected = laid_out([of_one_size(count) for count in counts], gap)
    assert walk(*arguments).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_batches_that_differ_from_most_others_are_walked_by_themselves(monkeypatch, seed):
    rng = random.Random(seed)
    usual = of_one_size(150)
    other = [
        of_one_size(150, 101),
        of_one_size(150, late=149),
        of_one_size(150, late=60),
        of_one_size(140, late=139),
        [*usual[:20], *reversed(usual[20:60])],
        [usual[0], *of_one_size(149, 99)],
        [usual[0], encode_record(NewRecord(bytes(98)), 1, 0), encode_record(NewRecord(bytes(102)), 2, 0), *usual[3:]],
        records(rng, 300),
    ]
    bodies = [usual[: rng.choice((1, 70, 150))] for _ in range(12)] + rng.sample(other, rng.randrange(1, 6))
    rng.shuffle(bodies)
    (data, begins, ends, counts), expected = laid_out(bodies, b"\xff" * rng.choice((0, 61)))
    assert walk(data, begins, ends, counts).tolist() == expected
    broken = data.copy()
    broken[expected[rng.randrange(len(expected))]] ^= 4
    assert walk(broken, begins, ends, counts) is None


@pytest.mark.parametrize("many", [3, 60])
@pytest.mark.parametrize("how", ["one too many", "one too few", "longer", "shorter", "zeros", "ones", "negative"])
@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("is_alike", [False, True])
def test_one_corrupt_batch_fails_the_walk(many, how, place, is_alike):
    """Its walker may run through the other batches or leave the data."""
    rng = random.Random(1)
    bodies = [of_one_size(4) if is_alike else records(rng, 4) for _ in range(many)]
    (data, begins, ends, counts), _ = laid_out(bodies)
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
    assert walk(broken, begins, ends, counts) is None


def test_walk_alone_reads_lengths_of_any_width():
    out = bytearray()
    out += varint_of(5)
    long = bytearray()
    long += varint_of(8192)
    body = bytes(out) + b"12345" + bytes(long) + bytes(8192)
    assert walk_alone(body, 0, len(body), 2) == [0, 6]
    assert walk_alone(b"#" + body + b"#", 1, len(body) + 1, 2) == [1, 7], "in the middle of other bytes"


@pytest.mark.parametrize("width", [2, 3, 4])
def test_an_overlong_length_is_left_to_the_row_decoder(width):
    """It is valid, but ``fields`` derives the width of the length from the record's size."""
    wide = bytes([0x8A, *[0x80] * (width - 2), 0x00])
    found = walk_alone(wide + b"12345", 0, len(wide) + 5, 1)
    assert found == ([0] if width == 2 else None)


@pytest.mark.parametrize("body", [b"\x08123", b"\x0a1234", b"", b"\0", b"\1\0", b"\xff" * 20, b"\x80\0\0"])
def test_walk_alone_returns_none_for_corrupt_records(body):
    assert walk_alone(body, 0, len(body), 1) is None
