"""Arrow batches: the schema of Spark's own source, and the same records as rows."""

import random
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from crc32c import crc32c  # noqa: E402
from handmade import build_legacy  # noqa: E402

from thinconsumer.records.builder import NewRecord, build_batch  # noqa: E402
from thinconsumer.records.columnar.arrow import MILLISECONDS_MAX, VIEWS_PYARROW_MIN, binary  # noqa: E402

NOW = 1_700_000_000_000
#: Whether this pyarrow can make arrays of views.
VIEWS = int(pa.__version__.split(".")[0]) >= VIEWS_PYARROW_MIN
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
#: The schema of PySpark's to_arrow_schema; Spark rejects batches with another one.
SCHEMA = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
]


def arrow_of_rows(rows, include_headers):
    """Return the Arrow batch built from Python objects, as a reference."""
    columns = {
        "key": [row.key for row in rows],
        "value": [row.value for row in rows],
        "topic": [row.topic for row in rows],
        "partition": [row.partition for row in rows],
        "offset": [row.offset for row in rows],
        "timestamp": [max(-MILLISECONDS_MAX, min(row.timestamp, MILLISECONDS_MAX)) * 1000 for row in rows],
        "timestampType": [row.timestamp_type for row in rows],
    }
    fields = list(SCHEMA)
    if include_headers:
        columns["headers"] = [[{"key": k, "value": v} for k, v in row.headers] or None for row in rows]
        fields.append(("headers", HEADERS))
    arrays = [pa.array(columns[name], kind) for name, kind in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def check(found):
    for include_headers in (False, True):
        batch = found.to_arrow(include_headers)
        batch.validate(full=True)
        expected = arrow_of_rows(found.rows(), include_headers)
        assert batch.schema.equals(expected.schema)
        assert batch.equals(expected)
        if VIEWS:
            views = found.to_arrow(include_headers, views=True)
            views.validate(full=True)
            for name in batch.schema.names:
                as_bytes = batch[name].to_pylist() if name in ("key", "value", "headers") else None
                assert batch[name].equals(views[name]) if as_bytes is None else views[name].to_pylist() == as_bytes
    return batch


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_records_equal_their_rows(columns, record_lists, data):
    out, offset = b"", 0
    for _ in range(data.draw(st.integers(1, 3))):
        records = data.draw(record_lists)
        out += build_batch(records, base_offset=offset, log_append_time=data.draw(st.sampled_from([None, NOW])))
        offset += len(records)
    found = columns(out)
    check(found)
    start = data.draw(st.integers(0, offset))
    check(found.slice(start, data.draw(st.integers(start, offset))))


@pytest.mark.parametrize(
    "records", [[NewRecord(None)], [NewRecord(b"")], [NewRecord(None, None)] * 70, [NewRecord(b"x")]]
)
def test_all_null_all_empty_and_single_values(columns, records):
    check(columns(build_batch(records)))


def test_no_records(columns):
    batch = check(columns(b""))
    assert batch.num_rows == 0


def test_old_formats_among_format_2(columns):
    """Their bytes are placed in the order of batches, so keys keep the buffer's order."""
    plain = [NewRecord(b"v%d" % n, None if n % 3 else b"k%d" % n, timestamp=NOW + n) for n in range(20)]
    out = build_batch(plain, base_offset=0)
    out += build_legacy(plain, magic=0, base_offset=20) + build_legacy(plain, magic=1, base_offset=40, codec=1)
    out += build_batch(plain, base_offset=60)
    batch = check(columns(out))
    assert batch["timestampType"].to_pylist() == [0] * 20 + [-1] * 20 + [0] * 40


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63), MILLISECONDS_MAX + 1, -1])
def test_timestamps_beyond_microseconds_are_clamped(columns, base):
    raw = bytearray(build_batch([NewRecord(b"v", timestamp=0)]))
    raw[27:35] = base.to_bytes(8, "big", signed=True)
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    check(columns(bytes(raw)))


def test_header_names_that_are_not_utf8_show_replacement_characters(columns):
    """Arrow itself would accept invalid UTF-8."""
    raw = bytearray(build_batch([NewRecord(b"v", headers=[("abc", b"1"), ("é", None)])] * 3))
    for _ in range(2):
        raw[raw.index(b"abc")] = 0xFF
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    batch = check(columns(bytes(raw)))
    assert batch["headers"][0].as_py()[0] == {"key": "\ufffdbc", "value": b"1"}


@pytest.mark.parametrize("size", [1000, 10_000])
def test_the_batch_does_not_keep_the_response_alive(columns, size):
    """The batch may be a small part of a large response."""
    rng = random.Random(1)
    found = columns(build_batch([NewRecord(rng.randbytes(size)) for _ in range(200)]))
    for count in (1, 2):
        batch = check(found.slice(50, 50 + count))
        assert batch.get_total_buffer_size() < count * (size + 100)


def test_large_values_beside_nulls_and_small_ones(columns):
    records = [
        NewRecord(None if n % 5 == 3 else bytes([n]) * (n % 4 * 9000), None if n % 2 else b"k") for n in range(40)
    ]
    records += [NewRecord(b"v", b"K" * 20_000, headers=[("large", bytes(9000)), ("none", None)])] * 3
    batch = check(columns(build_batch(records)))
    assert batch["value"].null_count == 8


needs_views = pytest.mark.skipif(not VIEWS, reason="this pyarrow has no views")


@needs_views
def test_views_copy_nothing_but_short_values(columns):
    rng = random.Random(1)
    found = columns(build_batch([NewRecord(rng.randbytes(1000), b"key %d" % n) for n in range(200)]))
    batch = found.to_arrow(views=True)
    assert batch.schema.field("value").type == pa.binary_view()
    keys, values = batch["key"].buffers(), batch["value"].buffers()
    assert values[2].address == found.data.__array_interface__["data"][0]
    assert len(keys) == 2, "short keys are inside of their views, which keep nothing else in memory"


@needs_views
def test_a_view_that_is_kept_keeps_the_response_and_a_cast_one_does_not(columns):
    data = bytearray(build_batch([NewRecord(b"v" * 1000) for _ in range(200)]))
    kept = columns(data).to_arrow(views=True)["value"].slice(7, 1)
    with pytest.raises(BufferError):
        data.clear()
    kept = kept.cast(pa.binary())
    data.clear()
    assert kept.to_pylist() == [b"v" * 1000]
    assert kept.get_total_buffer_size() < 2000


def test_views_with_an_old_pyarrow_are_an_error_that_says_so(columns, monkeypatch):
    found = columns(build_batch([NewRecord(b"v")]))
    monkeypatch.setattr(pa, "__version__", "18.1.0")
    with pytest.raises(ImportError, match="pyarrow 19 or newer, not 18"):
        found.to_arrow(views=True)
    assert found.to_arrow().num_rows == 1


def test_values_and_nulls_keep_their_order():
    data = pa.py_buffer(b"abcdefgh")
    pieces = binary(data, np.array([1, 3, 3, 6]), np.array([2, -1, 0, 2]))
    assert pieces.to_pylist() == [b"bc", None, b"", b"gh"]


def test_without_pyarrow_the_error_names_the_package():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from thinconsumer.records.columnar.decode import Decoder\n"
        "columns = Decoder().finish().columns(('t', 0), 0, 0, 0)\n"
        "try: columns.to_arrow()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'thinconsumer[arrow]'" in done.stdout


def test_the_schema_equals_sparks():
    types = pytest.importorskip("pyspark.sql.types")
    to_arrow_schema = pytest.importorskip("pyspark.sql.pandas.types").to_arrow_schema
    header = types.StructType().add("key", "string").add("value", "binary")
    schema = types.StructType().add("key", "binary").add("value", "binary").add("topic", "string")
    schema = schema.add("partition", types.IntegerType()).add("offset", types.LongType()).add("timestamp", "timestamp")
    schema = schema.add("timestampType", types.IntegerType()).add("headers", types.ArrayType(header))
    from thinconsumer.records.columnar import arrow

    assert arrow.SCHEMA_WITH_HEADERS.equals(to_arrow_schema(schema, timezone="UTC"))
