"""Columns of the official connector: names, types, nulls and times, and batches of about the size wanted."""

from __future__ import annotations

import datetime

import pytest

pa = pytest.importorskip("pyarrow")

from thinconsumer import ConsumerRecord, TopicPartition  # noqa: E402
from thinconsumer.records.builder import NewRecord  # noqa: E402
from thinconsumer.spark.columns import COLUMNS, arrow_schema, fetch, to_batch  # noqa: E402

ALL = COLUMNS
T0 = TopicPartition("t", 0)


def record(offset, **about):
    fields = {"leader_epoch": 0, "timestamp": 1_700_000_000_123, "timestamp_type": 0, "key": b"k", "value": b"v"}
    return ConsumerRecord(topic="t", partition=3, offset=offset, **{**fields, **about})


def test_rows_are_the_official_connectors():
    rows = to_batch(
        [
            record(7, headers=[("a", b"1"), ("a", None)]),
            record(9, key=None, value=None, timestamp=-1, timestamp_type=-1),
            record(2**40, timestamp_type=1),
        ],
        ALL,
    ).to_pylist()
    when = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.timezone.utc)
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.timezone.utc)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert [tuple(row.values()) for row in rows] == [
        (b"k", b"v", "t", 3, 7, when, 0, headers),
        (None, None, "t", 3, 9, before, -1, None),
        (b"k", b"v", "t", 3, 2**40, when, 1, None),
    ]


def test_schema_is_exactly_what_pyspark_compares():
    fields = [(f.name, str(f.type), f.nullable) for f in to_batch([record(0)], ALL).schema]
    assert fields == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int32", True),
        ("offset", "int64", True),
        ("timestamp", "timestamp[us, tz=UTC]", True),
        ("timestampType", "int32", True),
        ("headers", "list<element: struct<key: string, value: binary>>", True),
    ]


def test_some_columns_in_any_order():
    batch = to_batch([record(5)], ("offset", "value"))
    assert batch.schema == arrow_schema(("offset", "value"))
    assert batch.to_pylist() == [{"offset": 5, "value": b"v"}]


def test_batches_are_cut_by_their_bytes_and_end_before_the_end(cluster):
    c = cluster()
    for _ in range(10):
        c.append(*[b"x" * 960] * 10)
    c.append(b"y" * 100_000)
    consumer = c.connect({"bootstrap.servers": c.scripted.bootstrap_servers, "auto.offset.reset": "earliest"})
    consumer.assign([T0])
    sizes, offsets = [], []
    while len(offsets) < 101:
        for batch in fetch(consumer, T0, 101, ALL, 20_000, 1000):
            sizes.append(batch.nbytes)
            offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(101))
    assert max(sizes[:-1]) < 25_000
    assert min(sizes[:4]) > 15_000
    assert list(fetch(consumer, T0, 101, ALL, 20_000, 1000)) == []


def test_nothing_behind_the_end_is_yielded(cluster):
    c = cluster()
    c.append(*[NewRecord(b"v", timestamp=1)] * 9)
    consumer = c.connect({"bootstrap.servers": c.scripted.bootstrap_servers, "auto.offset.reset": "earliest"})
    consumer.assign([T0])
    (batch,) = fetch(consumer, T0, 4, ("offset",), 20_000, 1000)
    assert batch.column("offset").to_pylist() == [0, 1, 2, 3]
