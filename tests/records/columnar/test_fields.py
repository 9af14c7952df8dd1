"""Fields of records: varints of every width, headers, and malformed records."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from handmade import varint_of  # noqa: E402

from thinconsumer.records.columnar.fields import HEADER_RECORDS_MIN, HEADER_ROUNDS, read, varints  # noqa: E402
from thinconsumer.records.varints import Malformed, varint, varlong  # noqa: E402


def padded(value, width):
    """Return a varint padded to at least this many bytes."""
    out = bytearray()
    out += varint_of(value)
    while len(out) < width:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9000, 9000) | st.sampled_from([0, -1, 63, 64, -64, -65, 8191])


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 12)), min_size=1, max_size=30), st.sampled_from([5, 10]))
@settings(max_examples=200, deadline=None)
def test_varints_equal_those_read_one_at_a_time(numbers, length_max):
    """Overlong varints are accepted up to the maximum of 5 or 10 bytes."""
    pieces = [padded(value, width) for value, width in numbers]
    data = b"".join(pieces)
    starts = [sum(map(len, pieces[:n])) for n in range(len(pieces))]
    bad = np.zeros(len(pieces), bool)
    values, after = varints(np.frombuffer(data, np.uint8), np.array(starts, np.int64), length_max, bad)
    one = varint if length_max == 5 else varlong
    for n, start in enumerate(starts):
        try:
            expected = one(data, start)
        except Malformed:
            assert bad[n]
            continue
        assert (values[n], after[n], bad[n]) == (*expected, False)


def fields(*records):
    """Read records, given as the bytes after their length."""
    bodies = [padded(len(record), 1) + record for record in records]
    ends = np.cumsum([len(body) for body in bodies])
    begins = np.concatenate(([0], ends[:-1]))
    return read(np.frombuffer(b"".join(bodies), np.uint8), begins.astype(np.int64), ends.astype(np.int64))


def test_null_and_empty_fields_and_overlong_varints_together():
    found = fields(
        b"\0\0\0\1\1\0",
        b"\0\2\2\0\0\0",
        b"\0" + padded(-(10**12), 1) + padded(70, 3) + padded(2, 4) + b"kk" + padded(1, 5) + b"v\0",
        b"\0\4\4\3\5\0",  # any negative length is null
    )
    assert found.key_lengths.tolist() == [-1, 0, 2, -1] and found.value_lengths.tolist() == [-1, 0, 1, -1]
    assert found.deltas.tolist() == [0, 1, -(10**12), 2] and found.offsets.tolist() == [0, 1, 70, 2]
    assert not found.bad.any() and found.headers is None


BROKEN = {
    "a key beyond the record": b"\0\0\0\x7ek\1\0",
    "a value beyond the record": b"\0\0\0\1\x7ev\0",
    "a key beyond everything": b"\0\0\0" + padded(2**31 - 1, 5) + b"k\1\0",
    "no place for headers": b"\0\0\0\1\2v",
    "nothing": b"",
    "a header more": b"\0\0\0\1\1\2\2a\2b\2c\2d",
    "a header less": b"\0\0\0\1\1\4\2a\2b",
    "headers below zero": b"\0\0\0\1\1\1",
    "headers beyond the record": b"\0\0\0\1\1\x7e",
    "a header without a name": b"\0\0\0\1\1\2\1\0",
    "a header's value beyond": b"\0\0\0\1\1\2\2a\x7eb",
    "a header's name beyond": b"\0\0\0\1\1\2\x7eab",
    "endless time": b"\0" + b"\xff" * 11 + b"\0\1\1\0",
    "endless length": b"\0\0\0" + b"\xff" * 6 + b"\1\1\0",
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_only_the_malformed_record_is_marked_bad(name, place):
    records = [b"\0\0\0\1\4ab\0", b"\0\0\0\2k\4ab\2\2h\1"]
    records.insert(place, BROKEN[name])
    found = fields(*records)
    assert found.bad.tolist() == [n == place for n in range(3)]


def header(number, size=1):
    return padded(len(str(number)), 1) + str(number).encode() + padded(size, 1) + bytes(size)


@pytest.mark.parametrize("many", [1, HEADER_RECORDS_MIN - 1, HEADER_RECORDS_MIN, 100])
@pytest.mark.parametrize("count", [1, HEADER_ROUNDS, HEADER_ROUNDS + 1, HEADER_ROUNDS * 3])
def test_headers_keep_their_order_or_go_to_the_row_decoder(many, count):
    """Few records with many headers are marked bad, which sends them to the row decoder."""
    long = b"\0\0\0\1\1" + padded(count, 1) + b"".join(header(n) for n in range(count))
    found = fields(b"\0\0\0\1\1\0", *[long] * many, b"\0\0\0\1\1\2" + header(7))
    few = many + 1 < HEADER_RECORDS_MIN or (count > HEADER_ROUNDS and many < HEADER_RECORDS_MIN)
    if count > HEADER_ROUNDS and few:
        assert found.bad.tolist() == [False, *[True] * many, False]
        return
    assert not found.bad.any()
    assert np.diff(found.headers.first).tolist() == [0, *[count] * many, 1]
    assert found.headers.name_lengths.tolist() == [len(str(n)) for n in range(count)] * many + [1]
    assert set(found.headers.value_lengths.tolist()) == {1}
