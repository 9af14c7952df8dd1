"""RecordColumns: access to single records, rows and slices."""

import pytest

np = pytest.importorskip("numpy")

from thinconsumer.records.builder import NewRecord, build_batch  # noqa: E402

RECORDS = [
    NewRecord(b"first", b"k", [("a", b"1"), ("a", None)], 1000),
    NewRecord(None, None, (), 1001),
    NewRecord(b"", b"", [("b", b"")], 1002),
    NewRecord(b"last", None, (), 1003),
]
DATA = build_batch(RECORDS[:2], base_offset=10, leader_epoch=4) + build_batch(RECORDS[2:], base_offset=20)


def test_access_to_single_records(columns):
    found = columns(DATA)
    assert len(found) == 4
    assert [(found.value(n), found.key(n), found.headers(n)) for n in range(4)] == [
        (record.value, record.key, tuple(record.headers)) for record in RECORDS
    ]
    assert (found.value(-1), found.key(-4), found.headers(-2)) == (b"last", b"k", (("b", b""),))
    with pytest.raises(IndexError):
        found.value(4)
    with pytest.raises(IndexError):
        found.headers(4)


def test_numeric_columns_are_arrays(columns):
    found = columns(DATA)
    assert found.offsets.tolist() == [10, 11, 20, 21] and found.offsets.dtype == np.int64
    assert found.timestamps.tolist() == [1000, 1001, 1002, 1003]
    assert found.leader_epochs.tolist() == [4, 4, -1, -1]
    assert found.key_lengths.tolist() == [1, -1, 0, -1] and found.value_lengths.tolist() == [5, -1, 0, 4]
    assert found.nbytes == 10


def test_repr_names_partition_and_offsets(columns):
    assert repr(columns(DATA)) == "<RecordColumns topic-3: 4 records, offsets 10 to 21>"
    assert repr(columns(DATA).slice(0, 0)) == "<RecordColumns topic-3: 0 records, empty>"


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("stop", range(5))
def test_slices_equal_slices_of_the_rows(columns, start, stop):
    found = columns(DATA)
    part = found.slice(start, stop)
    assert part.rows() == found.rows()[start:stop]
    assert [part.headers(n) for n in range(len(part))] == [row.headers for row in part.rows()]
    if len(part) > 1:
        assert part.slice(1, len(part)).rows() == found.rows()[start + 1 : stop]


def test_slices_are_not_copied(columns):
    found = columns(DATA)
    assert np.shares_memory(found.slice(1, 3).offsets, found.offsets) and found.slice(1, 3).data is found.data


def test_header_names_that_are_not_utf8_show_replacement_characters(columns):
    raw = bytearray(build_batch([NewRecord(b"v", headers=[("abc", b"1")])]))
    raw[raw.index(b"abc")] = 0xFF
    from crc32c import crc32c

    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    assert columns(bytes(raw)).headers(0) == (("\ufffdbc", b"1"),)


def test_no_records(columns):
    found = columns(b"")
    assert len(found) == 0 and found.rows() == [] and found.nbytes == 0


ONE, TWO = (("a", b"1"),), (("a", b"2"), ("b", None))


@pytest.mark.parametrize(
    "headers", [[()] * 3, [ONE] * 3, [(), ONE, ()], [TWO, ONE, ()], [ONE, (), TWO], [(), (), (("", b""),)]]
)
def test_headers(columns, headers):
    found = columns(build_batch([NewRecord(b"v", headers=some) for some in headers]))
    assert [row.headers for row in found.rows()] == headers
    assert [row.headers for row in found.slice(1, 3).rows()] == headers[1:]


@pytest.mark.parametrize("pieces", [[None] * 3, [b"a", b"", b"ccc"], [None, b"", b"x"], [b"x", None, None]])
def test_keys_and_values(columns, pieces):
    rows = columns(build_batch([NewRecord(piece, piece) for piece in pieces])).rows()
    assert [row.key for row in rows] == [row.value for row in rows] == pieces
    assert all(type(row.value) is bytes for row in rows if row.value is not None)


def test_leader_epochs_of_each_batch(columns):
    data = build_batch([NewRecord(b"x")] * 2, leader_epoch=1) + build_batch(
        [NewRecord(b"y")], base_offset=2, leader_epoch=4
    )
    assert [row.leader_epoch for row in columns(data).rows()] == [1, 1, 4]


def test_a_slice_of_no_records(columns):
    assert columns(build_batch([NewRecord(b"x")])).slice(0, 0).rows() == []
