"""Columns of the official connector: names, types, nulls, timestamps, and the size of batches."""

import datetime

import pytest

pytest.importorskip("pyarrow")

from thinconsumer import TopicPartition
from thinconsumer.consumer.bulk_queries import poll_up_to
from thinconsumer.records.builder import NewRecord
from thinconsumer.spark.reading import COLUMNS, arrow_batches

T0 = TopicPartition("t", 0)


def fetch(consumer, until, names, bytes_max):
    for columns in poll_up_to(consumer, {T0: until}, 4_000_000, 1000, columns=True).records.values():
        yield from arrow_batches(columns, until, names, bytes_max)


def consumer_of(c):
    consumer = c.connect({"bootstrap.servers": c.kafka.bootstrap_servers, "auto.offset.reset": "earliest"})
    consumer.assign([T0])
    return consumer


def test_rows_are_those_of_the_official_connector(cluster):
    c = cluster()
    c.append(
        NewRecord(b"v", b"k", timestamp=1_700_000_000_123, headers=[("a", b"1"), ("a", None)]),
        NewRecord(None, None, timestamp=-1),
    )
    c.append(NewRecord(b"", b""), log_append_time=1_700_000_000_123)
    (batch,) = fetch(consumer_of(c), 3, COLUMNS, 10**6)
    when = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.timezone.utc)
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.timezone.utc)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (b"k", b"v", "t", 0, 0, when, 0, headers),
        (None, None, "t", 0, 1, before, 0, None),
        (b"", b"", "t", 0, 2, when, 1, None),
    ]


@pytest.mark.parametrize("headers", [(), [("a", b"1")]])
def test_the_schema_is_exactly_the_one_that_pyspark_requires(cluster, headers):
    c = cluster(holds=[NewRecord(b"v", headers=headers)])
    (batch,) = fetch(consumer_of(c), 1, COLUMNS, 10**6)
    assert [(f.name, str(f.type), f.nullable) for f in batch.schema] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int32", True),
        ("offset", "int64", True),
        ("timestamp", "timestamp[us, tz=UTC]", True),
        ("timestampType", "int32", True),
        ("headers", "list<element: struct<key: string, value: binary>>", True),
    ]


def test_columns_may_be_left_out_and_reordered(cluster):
    c = cluster(holds=[b"v"])
    (batch,) = fetch(consumer_of(c), 1, ("offset", "value"), 10**6)
    assert batch.schema.names == ["offset", "value"]
    assert batch.to_pylist() == [{"offset": 0, "value": b"v"}]


def test_a_huge_batch_is_cut(cluster):
    c = cluster()
    c.append(*[b"x" * 1000] * 500, codec=3)
    parts = list(fetch(consumer_of(c), 499, COLUMNS, 20_000))
    assert [n for part in parts for n in part.column("offset").to_pylist()] == list(range(499))
    assert 20 < len(parts) < 40
    assert max(part.nbytes for part in parts) < 40_000


def test_headers_count_towards_the_size(cluster):
    c = cluster(holds=[*[NewRecord(b"x", headers=[("a", b"x" * 5000), ("b", None)])] * 20, *[NewRecord(b"x")] * 400])
    parts = list(fetch(consumer_of(c), 420, COLUMNS, 20_000))
    assert [n for part in parts for n in part.column("offset").to_pylist()] == list(range(420))
    assert max(part.nbytes for part in parts) < 40_000


def test_a_part_has_at_least_one_row(cluster):
    c = cluster(holds=[b"x"] * 5)
    assert [part.num_rows for part in fetch(consumer_of(c), 5, COLUMNS, 1)] == [1] * 5


def test_columns_left_out_do_not_count_towards_the_size(cluster):
    c = cluster(holds=[*[b"x" * 10_000] * 10, *[b"x"] * 990])
    parts = list(fetch(consumer_of(c), 1000, ("offset",), 2000))
    assert [part.num_rows for part in parts] == [250] * 4


def test_batches_have_about_the_requested_size(cluster):
    c = cluster()
    for _ in range(10):
        c.append(*[b"x" * 960] * 10)
    c.append(b"y" * 100_000)
    consumer = consumer_of(c)
    sizes, offsets = [], []
    while len(offsets) < 101:
        for batch in fetch(consumer, 101, COLUMNS, 20_000):
            sizes.append(batch.nbytes)
            offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(101))
    assert len(sizes) < 12
    assert max(sizes[:3]) < 35_000
    assert min(sizes[:3]) > 15_000
    assert list(fetch(consumer, 101, COLUMNS, 20_000)) == []


def test_records_after_the_end_are_left_out(cluster):
    c = cluster(holds=[NewRecord(b"v", timestamp=1)] * 9)
    (batch,) = fetch(consumer_of(c), 4, ("offset",), 20_000)
    assert batch.column("offset").to_pylist() == [0, 1, 2, 3]
