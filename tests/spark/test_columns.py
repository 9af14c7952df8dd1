"""Columns of the official connector: names, types, nulls and times, and batches of about the size wanted."""

from __future__ import annotations

import datetime

import pytest

pytest.importorskip("pyarrow")

from thinconsumer import TopicPartition
from thinconsumer.consumer.bulk_queries import poll_columns_up_to
from thinconsumer.records.builder import NewRecord
from thinconsumer.spark.columns import COLUMNS, arrow_batches

T0 = TopicPartition("t", 0)


def fetch(consumer, until, names, bytes_max):
    """Yield the batches of one poll."""
    for columns in poll_columns_up_to(consumer, {T0: until}, max_bytes=4_000_000, timeout_ms=1000).values():
        yield from arrow_batches(columns, until, names, bytes_max)


@pytest.fixture
def consumer_of():
    """Return a consumer at the beginning of t-0."""

    def make(c):
        consumer = c.connect({"bootstrap.servers": c.scripted.bootstrap_servers, "auto.offset.reset": "earliest"})
        consumer.assign([T0])
        return consumer

    return make


def test_rows_are_the_official_connectors(cluster, consumer_of):
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
def test_schema_is_exactly_what_pyspark_compares(cluster, consumer_of, headers):
    c = cluster()
    c.append(NewRecord(b"v", headers=headers))
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


def test_some_columns_in_any_order(cluster, consumer_of):
    c = cluster()
    c.append(b"v")
    (batch,) = fetch(consumer_of(c), 1, ("offset", "value"), 10**6)
    assert batch.schema.names == ["offset", "value"]
    assert batch.to_pylist() == [{"offset": 0, "value": b"v"}]


def test_huge_batch_is_cut(cluster, consumer_of):
    c = cluster()
    c.append(*[b"x" * 1000] * 500, codec=3)
    parts = list(fetch(consumer_of(c), 499, COLUMNS, 20_000))
    assert [n for part in parts for n in part.column("offset").to_pylist()] == list(range(499))
    assert 20 < len(parts) < 40
    assert max(part.nbytes for part in parts) < 40_000


def test_headers_count(cluster, consumer_of):
    c = cluster()
    c.append(*[NewRecord(b"x", headers=[("a", b"x" * 5000), ("b", None)])] * 20, *[NewRecord(b"x")] * 400)
    parts = list(fetch(consumer_of(c), 420, COLUMNS, 20_000))
    assert [n for part in parts for n in part.column("offset").to_pylist()] == list(range(420))
    assert max(part.nbytes for part in parts) < 40_000


def test_a_part_has_a_row_at_least(cluster, consumer_of):
    c = cluster()
    c.append(*[b"x"] * 5)
    assert [part.num_rows for part in fetch(consumer_of(c), 5, COLUMNS, 1)] == [1] * 5


def test_what_is_not_wanted_does_not_count(cluster, consumer_of):
    c = cluster()
    c.append(*[b"x" * 10_000] * 10, *[b"x"] * 990)
    parts = list(fetch(consumer_of(c), 1000, ("offset",), 2000))
    assert [part.num_rows for part in parts] == [250] * 4


def test_batches_are_of_about_the_size_wanted(cluster, consumer_of):
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


def test_nothing_behind_the_end_is_yielded(cluster, consumer_of):
    c = cluster()
    c.append(*[NewRecord(b"v", timestamp=1)] * 9)
    (batch,) = fetch(consumer_of(c), 4, ("offset",), 20_000)
    assert batch.column("offset").to_pylist() == [0, 1, 2, 3]
