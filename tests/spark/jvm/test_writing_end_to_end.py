"""Writes with Spark: DataFrames and streams, all columns, refusals and failures."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from thinconsumer import Consumer, TopicPartition
from thinconsumer_testing.broker.faults import Delay


class Sink:
    """A topic to write to, and its records."""

    def __init__(self, kafka) -> None:
        self.kafka = kafka
        self.options = {"kafka.bootstrap.servers": kafka.broker.bootstrap_servers, "topic": kafka.topic}

    def write(self, frame, mode="append", **options) -> None:
        given = {**self.options, **options}
        given = {name: text for name, text in given.items() if text is not None}
        frame.write.format("thinconsumer").mode(mode).options(**given).save()

    def records(self):
        with Consumer(bootstrap_servers=self.kafka.broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            topic = self.kafka.topic
            consumer.assign([TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
            return list(consumer.read_to_end(30_000))

    def values(self):
        return sorted(record.value for record in self.records())


@pytest.fixture
def sink(kafka_topic) -> Sink:
    kafka_topic.create(2)
    return Sink(kafka_topic)


def test_every_column_is_written(sink, spark):
    headers = F.expr("array(named_struct('key', 'h', 'value', cast('x' as binary)))")
    frame = spark.range(2).select(
        F.lit("ignored").alias("topic"),
        F.col("id").cast("string").alias("key"),
        F.when(F.col("id") == 1, F.lit("v")).alias("value"),
        F.when(F.col("id") == 1, headers).alias("headers"),
        F.lit(1).alias("partition"),
        F.col("id").alias("more"),
    )
    sink.write(frame)
    found = sorted((r.partition, r.key, r.value, r.headers) for r in sink.records())
    assert found == [(1, b"0", None, ()), (1, b"1", b"v", (("h", b"x"),))]


def test_many_rows_are_written_in_many_tasks_and_read_back(sink, spark):
    frame = spark.range(0, 50_000, 1, 4).selectExpr("cast(id as string) key", "repeat('x', 20) value")
    sink.write(frame, **{"kafka.compression.type": "lz4"})
    back = sink.kafka.read()
    assert back.selectExpr("count(*)", "count(distinct key)", "sum(cast(cast(key as string) as int))").first()[:] == (
        50_000,
        50_000,
        50_000 * 49_999 // 2,
    )


def test_tasks_of_a_worker_reuse_a_producer(sink, spark, broker):
    """Otherwise a stream that writes every second would use 86,400 producer ids a day, which brokers remember."""
    ids = broker.on("InitProducerId", Delay(0.001))
    for _ in range(8):
        sink.write(spark.range(0, 10, 1, 1).selectExpr("cast(id as string) value"))
    assert ids.hits <= 4  # Spark has one or two workers here, and may start another
    ids.remove()
    assert len(sink.records()) == 80


def test_wrong_columns_options_and_modes_fail_before_the_first_row(sink, spark):
    good = spark.createDataFrame([("v",)], "value string")
    with pytest.raises(Exception, match="column 'value' is of type bigint, but must be string or binary"):
        sink.write(spark.range(1).withColumnRenamed("id", "value"))
    with pytest.raises(Exception, match="kafka.acks='1' is refused"):
        sink.write(good, **{"kafka.acks": "1"})
    with pytest.raises(Exception, match=r"write with mode\('append'\)"):
        sink.write(good, mode="overwrite")
    with pytest.raises(Exception, match="Append"):
        sink.write(good, mode="errorifexists")
    assert sink.values() == []


def test_a_stream_is_written_and_restarts_from_its_checkpoint(sink, spark, broker, tmp_path):
    """From one topic to another, in two runs."""
    source = f"{sink.kafka.topic}-in"
    broker.create_topic(source, 2)

    def run() -> None:
        frame = sink.kafka.stream(subscribe=source, startingOffsets="earliest").select("key", "value")
        writer = frame.writeStream.format("thinconsumer").options(**sink.options).queryName(f"q{source}")
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)  # raises the error of the query
        finally:
            query.stop()

    broker.produce(source, [b"a", b"b"])
    sink.kafka.patiently(run)
    assert sink.values() == [b"a", b"b"]
    broker.produce(source, [b"c"], 1)
    sink.kafka.patiently(run)
    assert sink.values() == [b"a", b"b", b"c"]


def test_complete_results_are_appended_and_updates_need_foreach_batch(sink, spark, broker, tmp_path):
    """Spark refuses output mode update for Python writers; foreachBatch writes each batch as a DataFrame."""
    source = f"{sink.kafka.topic}-in"
    broker.create_topic(source, 1)
    broker.produce(source, [b"a", b"b", b"a"])
    frame = sink.kafka.stream(subscribe=source, startingOffsets="earliest")
    counts = frame.groupBy(F.col("value").alias("key")).count().selectExpr("key", "cast(count as string) value")

    def run(writer, name) -> None:
        query = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    complete = counts.writeStream.format("thinconsumer").options(**sink.options)
    sink.kafka.patiently(lambda: run(complete.outputMode("complete"), "complete"))
    assert sorted((r.key, r.value) for r in sink.records()) == [(b"a", b"2"), (b"b", b"1")]
    with pytest.raises(Exception, match="does not support Update mode"):
        run(complete.outputMode("update"), "update")
    each = counts.writeStream.outputMode("update").foreachBatch(lambda batch, _: sink.write(batch))
    sink.kafka.patiently(lambda: run(each, "each"))
    assert len(sink.records()) == 4
