"""Conversion of Arrow batches to records: nulls, slices, all string types, headers."""

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer import IllegalArgumentError
from thinconsumer.spark.writing import byte_strings, parts, rows

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def batch(**columns):
    """Return a batch of columns given as (values, type), and their positions by name."""
    arrays = [pa.array(values, kind) for values, kind in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns)), {name: at for at, name in enumerate(columns)}


def test_all_columns_become_record_fields():
    one = batch(
        headers=([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []], HEADERS),
        partition=([2, None, 0], pa.int32()),
        value=(["v", None, ""], pa.string()),
        topic=(["a", "b", "a"], pa.string()),
        key=([b"\xff", None, b""], pa.binary()),
    )
    assert list(rows(*one)) == [
        ("a", 2, b"\xff", b"v", (("h", b"x"), ("h", None))),
        ("b", None, None, None, ()),
        ("a", 0, b"", b"", ()),
    ]


def test_columns_may_be_missing_and_the_topic_option_overrides_the_column():
    one, at = batch(value=(["v", "w"], pa.string()), topic=(["a", None], pa.string()))
    assert list(rows(one, {"value": at["value"]}, "t")) == [("t", None, None, b"v", ()), ("t", None, None, b"w", ())]


def test_a_row_without_a_topic_and_a_header_without_a_key_are_refused():
    with pytest.raises(IllegalArgumentError, match="a row has no topic"):
        rows(*batch(value=(["v", "w"], pa.string()), topic=(["a", None], pa.string())))
    for headers in ([{"key": None, "value": b""}], [None]):
        one, at = batch(value=(["v"], pa.string()), headers=([headers], HEADERS))
        with pytest.raises(IllegalArgumentError, match="a header without a key"):
            rows(one, at, "t")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.none() | st.binary(max_size=9), max_size=20),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_byte_strings_of_any_type_and_slice(values, kind, first, count):
    column = pa.array(values, kind).slice(first, count)
    assert byte_strings(column) == values[first : first + count]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_become_utf8_bytes(kind):
    assert byte_strings(pa.array(["ü", None, "", "x" * 50], kind)) == ["ü".encode(), None, b"", b"x" * 50]


def test_strings_that_are_not_utf8_are_passed_on_unchanged():
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    assert byte_strings(broken) == [b"\xff\xfe"]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3)),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_headers_of_any_slice(headers, first, count):
    dicts = [None if one is None else [{"key": k, "value": v} for k, v in one] for one in headers]
    one, at = batch(value=([b""] * len(headers), pa.binary()), headers=(dicts, HEADERS))
    found = [row[4] for row in rows(one.slice(first, count), at, "t")]
    assert found == [tuple(one or ()) for one in headers[first : first + count]]


def test_large_batches_are_cut_into_parts():
    one, at = batch(value=([bytes(1000)] * 100, pa.binary()))
    cut = list(parts(one, 10_000))
    assert 10 <= len(cut) <= 12
    assert sum(len(list(rows(part, at, "t"))) for part in cut) == 100
    assert [part.num_rows for part in parts(one, 1)] == [1] * 100
    empty, _ = batch(value=([None] * 3, pa.null()))
    assert [part.num_rows for part in parts(empty)] == [3]
