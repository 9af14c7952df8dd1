"""The writers, called as Spark calls them, with writers and messages pickled; without a JVM."""

import logging
import pickle

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType

from thinconsumer import Consumer, KafkaConfigurationError, TopicPartition
from thinconsumer.produce import Producer
from thinconsumer.spark import sink
from thinconsumer.spark.sink import KafkaBatchWriter, KafkaCommitMessage, KafkaStreamWriter
from thinconsumer.spark.source import KafkaDataSource, spark_schema
from thinconsumer.spark.worker_process import ClientCache
from thinconsumer.testing import Simulation

VALUE = StructType([StructField("value", StringType())])


def source(**given):
    return KafkaDataSource(CaseInsensitiveDict({"kafka.bootstrap.servers": "h:1", "topic": "t", **given}))


def test_writers_have_the_classes_that_pyspark_passes_arrow_batches_to():
    assert isinstance(source().writer(VALUE, False), DataSourceArrowWriter)
    stream = source().streamWriter(schema=VALUE, overwrite=False)
    assert isinstance(stream, getattr(datasource, "DataSourceStreamArrowWriter", DataSourceArrowWriter))
    assert isinstance(stream, datasource.DataSourceStreamWriter)


def test_wrong_options_and_columns_are_refused_when_the_writer_is_created():
    for make in (source(**{"kafka.acks": "1"}).writer, source(**{"kafka.acks": "1"}).streamWriter):
        with pytest.raises(KafkaConfigurationError, match="kafka.acks='1' is refused"):
            make(VALUE, False)
    wrong = StructType([StructField("value", IntegerType())])
    with pytest.raises(KafkaConfigurationError, match="column 'value' is of type int, but must be string or binary"):
        source().writer(wrong, False)


def test_overwrite_is_refused_for_batches_and_appends_for_streams():
    with pytest.raises(KafkaConfigurationError, match=r"a topic cannot be overwritten: write with mode\('append'\)"):
        source().writer(VALUE, True)
    assert isinstance(source().streamWriter(VALUE, True), KafkaStreamWriter)


def test_the_schema_of_the_reader_can_be_written():
    """Columns that a record cannot have are ignored."""
    assert source().writer(spark_schema(include_headers=True), False)._settings.columns == {
        "key": 0,
        "value": 1,
        "partition": 3,
        "headers": 7,
    }
    header = StructType([StructField("key", StringType(), False), StructField("value", BinaryType())])
    never_null = StructField("headers", ArrayType(header, False), False)
    assert source().writer(StructType([*VALUE.fields, never_null]), False)


def test_a_task_writes_and_reports_how_much_to_the_driver(caplog):
    sim = Simulation(seed=1, topics={"t": 1})
    servers = ",".join(sim.bootstrap_servers)
    writer = pickle.loads(pickle.dumps(source(**{"kafka.bootstrap.servers": servers}).writer(VALUE, False)))
    writer._connect = lambda settings: Producer(settings, driver=sim.driver())
    writer._cache = ClientCache(lambda producer: producer.close(0))
    message = writer.write(iter([pa.record_batch([pa.array(["a", "bc"])], names=["value"])]))
    assert isinstance(message, WriterCommitMessage)
    message = pickle.loads(pickle.dumps(message))
    assert message == KafkaCommitMessage(2, 3)
    with caplog.at_level(logging.INFO, sink.__name__):
        writer.commit([message, message])
    assert "wrote 4 records (6 bytes)" in caplog.text
    with Consumer(
        bootstrap_servers=sim.bootstrap_servers, driver=sim.driver(), auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.read_to_end(1000)] == [b"a", b"bc"]


def test_abort_logs_how_much_was_written(caplog):
    """Failed tasks have no message."""
    messages = [KafkaCommitMessage(1000, 5), None]
    KafkaBatchWriter(source().writer(VALUE, False)._settings).abort(messages)
    assert "the write failed; 1,000 records (5 bytes) of finished tasks stay in Kafka" in caplog.text
    caplog.clear()
    stream = source().streamWriter(VALUE, False)
    with caplog.at_level(logging.INFO, sink.__name__):
        stream.abort(messages, 7)
        stream.commit(messages, 8)
    assert "micro-batch 7 failed; 1,000 records (5 bytes)" in caplog.text
    assert "wrote 1,000 records (5 bytes) of micro-batch 8" in caplog.text
