"""``scan_kafka``: what queries return, and what they read for that."""

import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")
pytest.importorskip("polars")

import polars as pl
from polars.testing import assert_frame_equal

from thinconsumer import (
    IllegalArgumentError,
    KafkaConfigurationError,
    KafkaTimeoutError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from thinconsumer.broker import Silence
from thinconsumer.polars import scan_kafka
from thinconsumer.polars.bounds import ALL, DEPTH_MAX, Bounds, parse
from thinconsumer.polars.scan import SCHEMA
from thinconsumer.records.batch import ControlType
from thinconsumer.records.builder import NewRecord, build_batch, build_marker
from thinconsumer.wire.list_offsets import ListOffsetsRequest

NOW = 1_700_000_000_000
T0 = TopicPartition("t", 0)
OFFSET, PARTITION, TIMESTAMP = pl.col("offset"), pl.col("partition"), pl.col("timestamp")


def moment(milliseconds):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)


def ordered(frame):
    return frame.sort("topic", "partition", "offset")


@pytest.fixture
def filled(topics):
    """Return topics with 90 records in three partitions, and 20 in another topic."""
    made = topics(t=3, u=1)
    for partition in range(3):
        for _ in range(3):
            made.append(10, partition)
    made.append(20, topic="u")
    return made


def test_all_columns_of_all_partitions(filled):
    frame = ordered(filled.scan("u", "t").collect())
    assert dict(frame.schema) == SCHEMA
    assert frame.group_by("topic", "partition").len().sort("topic", "partition").rows() == [
        ("t", 0, 30), ("t", 1, 30), ("t", 2, 30), ("u", 0, 20),
    ]  # fmt: skip
    assert frame.row(36, named=True) == {
        "key": b"k6", "value": None, "topic": "t", "partition": 1, "offset": 6, "timestamp": moment(NOW + 6),
        "timestampType": 0, "headers": [{"key": "h", "value": b"6"}, {"key": "none", "value": None}],
    }  # fmt: skip
    assert frame.row(32)[0] is None
    assert frame.row(32)[7] is not None and frame.row(34)[7] is None


def test_each_query_reads_anew_up_to_the_end_at_its_start(filled):
    scan = filled.scan("u")
    assert scan.select(pl.len()).collect().item() == 20
    filled.append(5, topic="u")
    assert scan.select(pl.len()).collect().item() == 25
    assert scan.collect(engine="streaming").height == 25


def test_only_wanted_columns_are_made(filled, monkeypatch):
    from thinconsumer.polars import scan

    made, to_arrow = set(), scan.to_arrow
    monkeypatch.setattr(
        scan, "to_arrow", lambda part, names, views: made.add((*names, views)) or to_arrow(part, names, views)
    )
    frame = filled.scan("u").select(pl.col("offset").sum(), pl.col("timestamp").max()).collect()
    assert frame.rows() == [(190, moment(NOW + 19))]
    assert {frozenset(names) for names in made} == {frozenset(("offset", "timestamp", False))}


def test_rows_behind_the_wanted_offsets_are_not_made(filled, monkeypatch):
    """Batches are decoded whole, and this one has ten records."""
    from thinconsumer.polars import scan

    made, to_arrow = [], scan.to_arrow
    monkeypatch.setattr(scan, "to_arrow", lambda part, *about: made.append(len(part)) or to_arrow(part, *about))
    assert filled.scan().filter((PARTITION == 1) & (OFFSET < 4)).collect().height == 4
    assert made == [4]


@pytest.mark.parametrize("count", [0, 1, 12, 1000])
def test_a_limit_of_rows_ends_reading(filled, count):
    assert filled.scan().head(count).collect().height == min(count, 90)


def test_a_filter_behind_a_limit_applies_to_the_limited_rows(filled):
    """Reading from offset 15 on because of the filter would make other rows the first twelve."""
    assert filled.scan("u").head(12).filter(OFFSET >= 10).collect()["offset"].to_list() == [10, 11]
    assert filled.scan("u").filter(OFFSET >= 10).head(3).collect()["offset"].to_list() == [10, 11, 12]


@pytest.mark.parametrize(
    ("predicate", "fetched"),
    [
        (PARTITION == 1, {1: 0}),
        (PARTITION.is_in([0, 2]) & (OFFSET >= 25), {0: 25, 2: 25}),
        (((PARTITION == 0) & (OFFSET > 7)) | ((PARTITION == 2) & OFFSET.is_between(9, 12)), {0: 8, 2: 9}),
        (moment(NOW + 17) <= TIMESTAMP, {0: 17, 1: 17, 2: 17}),
        ((moment(NOW + 17) < TIMESTAMP) & (PARTITION < 1), {0: 18}),
        (TIMESTAMP.is_between(moment(NOW + 28), moment(NOW + 40), closed="none") & (PARTITION == 2), {2: 29}),
        (moment(NOW + 30) < TIMESTAMP, {}),
        (OFFSET > 29, {}),
        (pl.col("topic") == "u", {}),
        (pl.col("value").is_null() & (OFFSET >= 3) & (OFFSET == 20) & (PARTITION == 0), {0: 20}),
    ],
)
def test_filters_decide_where_reading_begins(filled, predicate, fetched):
    everything = filled.scan().collect()
    before = len(filled.fetches())
    found = filled.scan().filter(predicate).collect()
    assert_frame_equal(ordered(found), ordered(everything.filter(predicate)))
    assert filled.first_fetched(before) == fetched


def test_upper_limits_of_timestamps_end_reading_only_if_they_ascend(filled):
    filled.cluster.append_batch(T0, build_batch([NewRecord(b"late", timestamp=NOW)]))
    wanted = moment(NOW + 1) >= TIMESTAMP
    assert sorted(filled.scan().filter(wanted).collect()["offset"]) == [0, 0, 0, 1, 1, 1, 30]
    assert sorted(filled.scan(timestamps_ascend=True).filter(wanted).collect()["offset"]) == [0, 0, 0, 1, 1, 1]
    asked = [list(entry_timestamps(r.message)) for r in filled.cluster.received(ListOffsetsRequest)]
    assert [NOW + 2] * 3 in asked


def entry_timestamps(message):
    return (partition.timestamp for topic in message.topics for partition in topic.partitions)


numbers = st.integers(-2, 32)
stamps = st.integers(-2, 32_000).map(lambda us: moment(NOW) + timedelta(microseconds=us))
leaves = st.one_of(
    *(
        st.tuples(st.sampled_from(["ge", "gt", "le", "lt", "eq", "ne"]), values).map(
            lambda drawn, column=column: getattr(column, drawn[0])(drawn[1])
        )
        for column, values in ((OFFSET, numbers), (PARTITION, st.integers(-1, 3)), (TIMESTAMP, stamps))
    ),
    st.lists(numbers, max_size=3).map(OFFSET.is_in),
    st.lists(st.integers(0, 3), max_size=2).map(PARTITION.is_in),
    st.tuples(numbers, numbers, st.sampled_from(["both", "left", "right", "none"])).map(
        lambda drawn: OFFSET.is_between(drawn[0], drawn[1], closed=drawn[2])
    ),
    numbers.map(lambda number: pl.lit(number) < OFFSET),
    st.just(pl.col("key").is_null()),
    st.just(OFFSET % 2 == 1),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)


@given(predicate=predicates, ascend=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_filter_selects_what_it_would_of_all_rows(filled, predicate, ascend):
    everything = filled.scan().collect()
    found = filled.scan(timestamps_ascend=ascend).filter(predicate).collect()
    assert_frame_equal(ordered(found), ordered(everything.filter(predicate)))


def test_a_filter_of_very_many_conditions(filled):
    """A chain of conditions is nested as deeply as it is long: what is too deep is not looked into."""
    wanted = (OFFSET == 3) | (OFFSET == 5)
    for number in range(40, 40 + DEPTH_MAX + 5):
        wanted = wanted | (number == OFFSET)
    assert filled.scan("u").filter(wanted).collect()["offset"].to_list() == [3, 5]
    assert parse(wanted)(T0) == ALL
    assert parse((OFFSET == 3) | (OFFSET == 40))(T0) == Bounds(3, 41)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_compressed_batches_and_views(topics, codec):
    """Values of 12 bytes and less are inside of Polars' views, others are not."""
    made = topics(t=1)
    values = [None, b"", b"x" * 12, b"y" * 13, b"z" * 3000] * 30
    made.cluster.append_batch(
        T0, build_batch([NewRecord(value, value and value[:20]) for value in values], codec=codec)
    )
    frame = made.scan().select("key", "value").collect()
    assert frame["value"].to_list() == values
    assert frame["key"].to_list() == [value and value[:20] for value in values]
    assert made.scan().filter(pl.col("value") == b"x" * 12).collect().height == 30


def test_transactions_and_offsets_without_records(topics):
    """A log may end with a marker, and an open transaction ends what read_committed reads."""
    made = topics(t=1)
    batch = build_batch([NewRecord(b"aborted")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    made.cluster.append_batch(T0, batch)
    made.cluster.append_batch(T0, build_marker(ControlType.ABORT, producer_id=1))
    made.append(2)
    made.cluster.append_batch(T0, build_marker(ControlType.COMMIT, producer_id=1))
    assert made.scan().collect()["offset"].to_list() == [0, 2, 3]
    assert made.scan(isolation_level="read_committed").collect()["offset"].to_list() == [2, 3]


def test_no_records(topics):
    made = topics(t=2)
    for engine in ("in-memory", "streaming"):
        frame = made.scan().collect(engine=engine)
        assert frame.height == 0
        assert dict(frame.schema) == SCHEMA


def test_missing_topics_are_named(topics):
    made = topics(t=1)
    with pytest.raises(UnknownTopicOrPartitionError, match="'gone', 'lost'"):
        made.scan("t", "gone", "lost").collect()


def test_a_broker_that_returns_nothing_is_a_timeout(topics):
    made = topics(t=1)
    made.append(1)
    made.cluster.on("Fetch", Silence())
    with pytest.raises(KafkaTimeoutError, match="5000 ms"):
        made.scan(default_api_timeout_ms=5000, request_timeout_ms=1000).collect()


def test_wrong_options_are_errors_at_once():
    with pytest.raises(IllegalArgumentError, match="without a group.*group_id"):
        scan_kafka("t", bootstrap_servers="localhost:1", group_id="g")
    with pytest.raises(KafkaConfigurationError, match="no_such"):
        scan_kafka("t", bootstrap_servers="localhost:1", no_such=1)


def test_without_polars_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['polars'] = None\ntry: import thinconsumer.polars\nexcept ImportError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'thinconsumer[polars]'" in done.stdout


def test_the_client_does_not_import_it():
    code = "import sys, thinconsumer, thinconsumer.cli.run, thinconsumer.workers\nassert 'polars' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
