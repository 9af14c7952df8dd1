"""Few records read one by one: the same result as with numpy, or marked bad."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")

from thinconsumer.records.batch import HEADER_SIZE  # noqa: E402
from thinconsumer.records.builder import NewRecord, build_batch, write_varint  # noqa: E402
from thinconsumer.records.columnar import decode, small_batches  # noqa: E402


def bodies(*record_lists):
    """Return bodies in one buffer, their begins and ends, and their record counts."""
    parts = [build_batch(records)[HEADER_SIZE:] for records in record_lists]
    ends = np.cumsum([len(part) for part in parts])
    return b"".join(parts), ends - [len(part) for part in parts], ends, np.array([len(one) for one in record_lists])


def by_numpy(data, begins, ends, counts):
    return decode._read(np.frombuffer(data, np.uint8), begins, ends, counts)


def same(one, other):
    for name in one._fields:
        ours, theirs = getattr(one, name), getattr(other, name)
        if name == "headers":
            assert (ours is None) == (theirs is None)
            for column, expected in zip(ours or (), theirs or ()):
                assert column.tolist() == expected.tolist()
        else:
            assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist(), name


RECORDS = [
    [NewRecord(b"v")],
    [NewRecord(None), NewRecord(b""), NewRecord(bytes(70), b""), NewRecord(bytes(9000), bytes(200))],
    [NewRecord(b"v" * n, b"k" * (n % 3), [("h", b"1"), ("none", None)] * (n % 4), 1000 * n * n) for n in range(60)],
]


@pytest.mark.parametrize("kind", [bytes, memoryview])
@pytest.mark.parametrize("lists", [RECORDS[:1], RECORDS[1:2], RECORDS[2:], RECORDS, [RECORDS[0]] * 30])
def test_result_equals_that_of_numpy(kind, lists):
    data, *rest = bodies(*lists)
    found = small_batches.read(kind(data), *rest)
    assert not found.bad.any()
    same(found, by_numpy(data, *rest))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_changes_give_numpys_result_or_bad_records(data):
    """Every record accepted here is read equally by numpy, or marked bad there."""
    raw, begins, ends, counts = bodies(*RECORDS)
    raw = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]))
    found = small_batches.read(bytes(raw), begins, ends, counts)
    for number, (begin, end) in enumerate(zip(begins, ends)):
        mine = slice(int(counts[:number].sum()), int(counts[: number + 1].sum()))
        assert found.bad[mine].all() or not found.bad[mine].any()
        if not found.bad[mine].any():
            taken = found.value_lengths[mine] >= 0
            assert (found.value_starts[mine][taken] >= begin).all()
            assert (found.value_starts[mine][taken] + found.value_lengths[mine][taken] < end).all()
            one = slice(number, number + 1)
            again = by_numpy(raw, begins[one], ends[one], counts[one])
            if not again.bad.any():  # with numpy, overlong lengths are left to the row decoder
                for name in ("deltas", "offsets", "key_lengths", "value_starts", "value_lengths"):
                    assert getattr(again, name).tolist() == getattr(found, name)[mine].tolist(), name


@pytest.mark.parametrize("claimed", [b"\x03", b"\xfe\xff\xff\xff\x0f", b"\xfe\xff\x7f"])
def test_impossible_header_counts_are_bad(claimed):
    """Negative, or more than fit into the record at two bytes each."""
    block = claimed + bytes(2_000_000)
    inside = b"\0\0\0\1\1" + block  # attributes, timestamp, offset, no key, no value
    length = bytearray()
    write_varint(length, len(inside))
    data = bytes(length) + inside
    tracemalloc.start()
    found = small_batches.read(data, np.array([0]), np.array([len(data)]), np.array([1]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.bad.all() and peak < 1_000_000


@pytest.mark.parametrize("cut", [1, 2, 3, 8])
def test_a_truncated_batch_is_bad_and_its_neighbours_are_not(cut):
    data, begins, ends, counts = bodies(*RECORDS)
    ends = ends.copy()
    ends[1] -= cut
    found = small_batches.read(data, begins, ends, counts)
    assert found.bad.tolist() == [False] + [True] * 4 + [False] * 60
