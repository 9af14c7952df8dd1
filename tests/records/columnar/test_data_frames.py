"""Other libraries read columns by the Arrow PyCapsule interface, and have the records that rows have."""

import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from thinconsumer import Consumer, TopicPartition  # noqa: E402
from thinconsumer.records.batch import ControlType  # noqa: E402
from thinconsumer.records.builder import NewRecord, build_batch, build_marker  # noqa: E402
from thinconsumer.testing import MemoryCluster  # noqa: E402

NOW = 1_700_000_000_000
NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def of_rows(rows):
    """Return what a frame of these records has to hold."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return [
        (r.key, r.value, r.topic, r.partition, r.offset, epoch + timedelta(milliseconds=r.timestamp),
         r.timestamp_type, [{"key": name, "value": value} for name, value in r.headers] or None)
        for r in rows
    ]  # fmt: skip


def by_pyarrow(columns):
    return [tuple(row.values()) for row in pa.table(columns).to_pylist()]


def by_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns).rows()


def by_duckdb(columns):
    duckdb = pytest.importorskip("duckdb")
    names = ", ".join('epoch_us("timestamp")' if name == "timestamp" else f'"{name}"' for name in NAMES)
    found = duckdb.sql(f"SELECT {names} FROM columns").fetchall()
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return [(*row[:5], epoch + timedelta(microseconds=row[5]), *row[6:]) for row in found]


def by_pandas(columns):
    pandas = pytest.importorskip("pandas", "3.0")
    frame = pandas.DataFrame.from_arrow(columns)
    assert tuple(frame.columns) == NAMES
    return [
        (*row[:5], row[5].to_pydatetime(), row[6], None if row[7] is None else list(row[7]))
        for row in frame.itertuples(index=False, name=None)
    ]


LIBRARIES = [by_pyarrow, by_polars, by_duckdb, by_pandas]


@pytest.mark.parametrize("read", LIBRARIES)
@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_frames_have_the_records_of_any_batches(read, columns, record_lists, data):
    out, offset = b"", 0
    for _ in range(data.draw(st.integers(0, 3))):
        records = [r._replace(timestamp=NOW + n) for n, r in enumerate(data.draw(record_lists))]
        out += build_batch(records, base_offset=offset, codec=data.draw(st.sampled_from([0, 1, 3, 4])))
        offset += len(records)
    found = columns(out)
    assert read(found) == of_rows(found.rows())
    start = data.draw(st.integers(0, offset))
    part = found.slice(start, data.draw(st.integers(start, offset)))
    assert read(part) == of_rows(part.rows())


@pytest.mark.parametrize("read", LIBRARIES)
def test_frames_of_polls_leave_out_what_polls_leave_out(read):
    """Aborted transactions and markers, under read_committed; and each partition is a frame of its own."""
    tp = TopicPartition("t", 0)
    cluster = MemoryCluster(1, {"t": 2})
    aborted = build_batch([NewRecord(b"aborted")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    cluster.append_batch(tp, aborted)
    cluster.append_batch(tp, build_marker(ControlType.ABORT, producer_id=1))
    cluster.append_batch(tp, build_batch([NewRecord(b"%d" % n, headers=[("h", None)]) for n in range(3)], codec=3))
    cluster.append_batch(TopicPartition("t", 1), build_batch([NewRecord(None, b"k")]))
    options = {"bootstrap_servers": cluster.bootstrap_servers, "isolation_level": "read_committed"}
    found = {}
    with Consumer(driver=cluster.driver(), auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([tp, TopicPartition("t", 1)])
        while len(found) < 2:
            found |= consumer.poll_batches(timeout_ms=1000)
        assert consumer.poll_batches() == {}
    assert [(row[1], row[4]) for row in read(found[tp])] == [(b"0", 2), (b"1", 3), (b"2", 4)]
    assert [(row[0], row[1]) for row in read(found[TopicPartition("t", 1)])] == [(b"k", None)]


def test_the_schema_is_that_of_the_data(columns):
    found = columns(build_batch([NewRecord(b"v")]))
    assert pa.schema(found) == pa.table(found).schema == pa.record_batch(found).schema
    assert pa.record_batch(found).equals(found.to_arrow(include_headers=True))


def test_a_requested_schema_is_cast_to(columns):
    found = columns(build_batch([NewRecord(b"v", headers=[("h", b"1")])]))
    wanted = pa.table(found).schema.set(1, pa.field("value", pa.large_binary()))
    assert pa.record_batch(found, schema=wanted)["value"].type == pa.large_binary()


PROGRAM = """
import gc, resource, sys, threading
from thinconsumer.records.batches import split
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.records.columnar.decode import Decoder
from thinconsumer.types import TopicPartition
import pyarrow as pa

tp = TopicPartition("t", 0)
data = build_batch([NewRecord(b"v" * 500, b"key", headers=[("h", b"1")]) for _ in range(200)])

def columns():
    decoder = Decoder()
    decoder.add(split(memoryview(data))[0], tp)
    return decoder.finish().columns(tp, 0, 1, 0)

def export(times):
    found = columns()
    for _ in range(times):
        found.__arrow_c_array__(), found.__arrow_c_stream__(), found.__arrow_c_schema__()  # dropped, never imported
        assert pa.table(found).num_rows == pa.record_batch(found).num_rows == 200

export(50)
gc.collect()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
export(500)
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
assert grown < 20_000_000, grown  # one kept batch of each five would be 50 MB
kept = [columns().__arrow_c_array__(), pa.table(columns())]  # freed when the interpreter ends
views = [columns().to_arrow(views=True)["value"]]
thread = threading.Thread(target=lambda: kept.append(columns().__arrow_c_stream__()))
thread.start()
thread.join()
try:
    import polars
    kept.append(polars.DataFrame(columns()).lazy().filter(polars.col("offset") > 5).collect())
except ImportError:
    pass
sys.ours = kept, views
print("done")
"""


def test_thousands_of_exports_leak_nothing_and_end_well():
    """Also capsules that nobody imports, and data that lives until the interpreter ends."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
