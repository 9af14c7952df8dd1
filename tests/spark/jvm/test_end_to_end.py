"""Reads with Spark: rows, streams, limits, restarts, data loss, commits."""

import json
import time
from datetime import datetime, timezone

import pytest

from thinconsumer.records.builder import NewRecord

pytest.importorskip("pyspark")

import pyspark

from thinconsumer.spark.source import HAS_LIMITS

WHEN = 1_700_000_000_123


def test_a_batch_has_exactly_the_produced_rows(kafka_topic):
    k = kafka_topic
    k.create(2)
    k.produce([NewRecord(b"v1", key=b"k", timestamp=WHEN, headers=[("h", b"x"), ("h", None)])], codec=3)
    k.produce([NewRecord(None, key=b"k", timestamp=WHEN), NewRecord(b"", timestamp=WHEN)], 1)
    rows = k.rows(includeHeaders="true")
    when = datetime.fromtimestamp(WHEN / 1000, timezone.utc)
    found = [(r.key, r.value, r.topic, r.partition, r.offset, r.timestampType) for r in rows]
    assert [tuple(bytes(x) if isinstance(x, bytearray) else x for x in row) for row in found] == [
        (b"k", b"v1", k.topic, 0, 0, 0),
        (b"k", None, k.topic, 1, 0, 0),
        (None, b"", k.topic, 1, 1, 0),
    ]
    assert {r.timestamp.astimezone(timezone.utc) for r in rows} == {when}
    assert [(h.key, None if h.value is None else bytes(h.value)) for h in rows[0].headers] == [("h", b"x"), ("h", None)]
    assert rows[1].headers is None


def test_many_records_are_read_in_several_tasks(kafka_topic):
    k = kafka_topic
    k.create(2)
    for partition in (0, 1):
        for _ in range(20):
            k.produce([b"%d" % n for n in range(500)], partition, codec=3)
    frame = k.read(minPartitions="6")
    assert frame.rdd.getNumPartitions() == 6
    assert frame.selectExpr("count(*)", "sum(cast(cast(value as string) as int))").first()[:] == (20000, 40 * 124750)
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [(0, 10000), (1, 10000)]
    assert frame.where("partition = 1").take(3)[2].offset == 2
    assert k.read().limit(5).count() == 5


def test_an_empty_topic_is_an_empty_frame(kafka_topic):
    k = kafka_topic
    k.create(2)
    assert k.rows() == []
    assert k.read(includeHeaders="true").columns[-1] == "headers"


def test_sql_finds_the_format_and_columns_can_be_left_out(kafka_topic):
    k = kafka_topic
    k.create(1)
    k.produce([b"a", b"b"])
    options = ", ".join(f"`{name}` '{value}'" for name, value in k.options().items())
    k.session.sql(f"CREATE TEMPORARY VIEW v_{k.topic} USING thinconsumer OPTIONS ({options})")
    assert k.session.sql(f"SELECT count(*) FROM v_{k.topic}").first()[0] == 2
    frame = k.session.read.format("thinconsumer").schema("value binary").options(**k.options()).load()
    assert [bytes(row.value) for row in frame.collect()] == [b"a", b"b"]


def test_available_now_reads_limited_batches_and_restarts_from_the_checkpoint(kafka_topic):
    k = kafka_topic
    k.create(2)
    for partition in (0, 1):
        k.produce([b"v"] * 50, partition)
    rows: list = []
    limits = {"maxOffsetsPerTrigger": "30"} if HAS_LIMITS else {}
    assert k.available(rows, startingOffsets="earliest", **limits) >= (4 if HAS_LIMITS else 1)
    assert sorted(row[1:] for row in rows) == [(p, n) for p in (0, 1) for n in range(50)]
    k.produce([b"v"] * 5, 1)
    rows.clear()
    k.available(rows, startingOffsets="earliest", **limits)
    assert sorted(row[1:] for row in rows) == [(1, n) for n in range(50, 55)]
    last = max((k.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1]) == {k.topic: {"0": 50, "1": 55}}


def test_a_child_is_read_after_its_parent_on_topics_with_ordered_delivery(kafka_topic):
    """The keys of partition 1 were in partition 0 up to offset 8."""
    k = kafka_topic
    k.create(1, {"enable.ordered.delivery": "true"})
    k.produce([b"v"] * 8)
    k.broker.expand(k.topic, 2)
    while k.broker.leader((k.topic, 1)) < 0:
        pass
    k.produce([b"v"] * 4, 1)
    parent, child = [(0, n) for n in range(8)], [(1, n) for n in range(4)]
    rows: list = []

    def keep(batch, number):
        rows.extend((number, row.partition, row.offset) for row in batch.collect())

    limits = {"maxOffsetsPerTrigger": "6"} if HAS_LIMITS else {}
    stream = k.stream(startingOffsets="earliest", **limits).writeStream.foreachBatch(keep)

    def run():
        rows.clear()
        query = stream.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    k.patiently(run)
    batches = [sorted(row[1:] for row in rows if row[0] == number) for number in range(rows[-1][0] + 1)]
    assert batches == ([parent[:6], parent[6:], child] if HAS_LIMITS else [parent, child])
    ends = json.dumps({k.topic: {"0": 7, "1": -1}})
    assert [row[3:5] for row in k.rows(endingOffsets=ends)] == parent[:7]
    assert [row[3:5] for row in k.rows()] == parent + child


def test_the_first_batch_is_repeated_unchanged(kafka_topic):
    """Without its commit file, as after a kill, the first batch has the same offsets again."""
    k = kafka_topic
    k.create(1)
    k.produce([b"v"] * 3)
    first: list = []
    k.available(first, startingOffsets="earliest")
    for path in (k.folder / "checkpoint" / "commits").iterdir():
        path.unlink()
    k.produce([b"v"] * 3)
    again: list = []
    k.available(again, startingOffsets="latest")
    if not HAS_LIMITS:  # there AvailableNow is one batch, the repeated one
        k.available(again, startingOffsets="latest")
    assert [row for row in again if row[0] == 0] == first
    assert sorted(row[2] for row in again) == [0, 1, 2, 3, 4, 5]


def test_read_committed_reads_only_committed_transactions(kafka_topic):
    """The last stable offset is the end; aborted records and markers do not end a batch early."""
    from kafka import KafkaProducer

    k = kafka_topic
    k.create(1)
    committed = {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    producer = KafkaProducer(bootstrap_servers=k.broker.bootstrap_servers, transactional_id=k.topic, linger_ms=0)
    rows: list = []
    try:
        producer.init_transactions()
        for value, end in [(b"a", producer.commit_transaction), (b"b", producer.abort_transaction), (b"c", None)]:
            producer.begin_transaction()
            producer.send(k.topic, value, partition=0)
            producer.flush()
            if end is not None:
                end()
        k.available(rows, **committed)
        assert [row[2] for row in rows] == [0]
        assert [row.offset for row in k.rows()] == [0, 2, 4]
        producer.commit_transaction()
        k.available(rows, **committed)
        assert [row[2] for row in rows] == [0, 4]
        assert [row.offset for row in k.rows(**committed)] == [0, 4]
    finally:
        producer.close()


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="PySpark 4.0 plans each action on a frame anew")
@pytest.mark.parametrize("then", ["deleted", "recreated"])
def test_a_topic_deleted_or_recreated_while_a_batch_query_uses_it_is_data_loss(kafka_topic, then):
    """The first action on a frame fixes its offsets; the second one reads them again."""
    k = kafka_topic
    k.create(1)
    k.produce([b"old"] * 5)
    frames = {fails: k.read(failOnDataLoss=fails) for fails in ("true", "false")}
    assert [frame.count() for frame in frames.values()] == [5, 5]
    k.broker.delete_topic(k.topic)
    if then == "recreated":
        k.create(1)
        k.produce([b"new"] * 20)
    assert frames["false"].collect() == []
    words = rf"{k.topic}-0 \[0, 5\): the topic was deleted{' and created again' * (then == 'recreated')}"
    with pytest.raises(Exception, match=words):
        frames["true"].collect()


@pytest.fixture
def committed(kafka_topic):
    """Return what a group has committed for partition 0, once that is the offset expected or ten seconds are over."""
    from thinconsumer import Consumer, TopicPartition

    def wait(group: str, expected: int | None) -> int | None:
        with Consumer(bootstrap_servers=kafka_topic.broker.bootstrap_servers, group_id=group) as consumer:
            deadline = time.monotonic() + 10
            while (found := consumer.committed(TopicPartition(kafka_topic.topic, 0))) != expected:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            return found

    return wait


@pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.0 and 4.1 do not say which batch is finished")
def test_commit_group_has_no_lag_after_available_now_and_while_the_stream_is_idle(kafka_topic, committed):
    k = kafka_topic
    k.create(1)
    k.produce([b"v"] * 10)
    k.available([], startingOffsets="earliest", commitGroup=f"g{k.topic}")
    assert committed(f"g{k.topic}", 10) == 10
    query = k.follow(f"m_{k.topic}", startingOffsets="earliest", commitGroup=f"h{k.topic}")
    try:
        assert committed(f"h{k.topic}", 10) == 10
    finally:
        query.stop()
    assert len(k.rows(startingOffsets=f"committed:{k.topic}-none")) == 10
    assert k.rows(startingOffsets=f"committed:g{k.topic}") == []


@pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.0 and 4.1 do not say which batch is finished")
def test_commit_group_does_not_commit_a_batch_that_failed_and_is_repeated(kafka_topic, committed):
    k = kafka_topic
    k.create(1)
    options = {"startingOffsets": "earliest", "commitGroup": f"g{k.topic}"}
    k.produce([b"v"] * 10)
    k.available([], **options)
    k.produce([b"v"] * 5)
    seen: list = []

    def fail(batch, number):
        seen.append((number, committed(f"g{k.topic}", 10)))
        raise RuntimeError("the sink is away")

    for _ in range(2):
        writer = k.stream(**options).writeStream.foreachBatch(fail).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(k.folder / "checkpoint")).start()
        with pytest.raises(Exception, match="the sink is away"):
            query.awaitTermination(300)
        assert committed(f"g{k.topic}", 10) == 10
    assert seen == [(1, 10), (1, 10)]
    k.available([], **options)
    assert committed(f"g{k.topic}", 15) == 15


def test_a_listener_commits_the_last_batch_and_reports_lag(kafka_topic, committed):
    from thinconsumer.spark import KafkaListener

    k = kafka_topic
    k.create(1)
    lags: list = []
    listener = KafkaListener(k.options(commitGroup=f"g{k.topic}"), lags.append)
    k.session.streams.addListener(listener)
    try:
        k.produce([b"v"] * 5)
        k.available([], startingOffsets="earliest")
        assert committed(f"g{k.topic}", 5) == 5
    finally:
        k.session.streams.removeListener(listener)
    assert lags[-1].behind == {(k.topic, 0): 0}
