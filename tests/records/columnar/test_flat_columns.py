"""Records built from flat columns; tests/records/columnar/test_decode.py compares them with the row decoder's."""

import pytest

np = pytest.importorskip("numpy")

from thinconsumer.records.builder import NewRecord, build_batch  # noqa: E402

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


def test_no_records(columns):
    assert columns(build_batch([NewRecord(b"x")])).slice(0, 0).rows() == []
