"""The public value types: kafka-python's fields, picklable."""

import pickle

import kafka.structs
import pytest
from kafka.consumer.fetcher import ConsumerRecord as KafkaPythonRecord

from thinconsumer import ConsumerRecord, Node, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition

RECORD = ConsumerRecord(
    topic="orders", partition=1, leader_epoch=2, offset=3, timestamp=4, timestamp_type=0,
    key=None, value=b"v", headers=(("h", None),),
)  # fmt: skip
VALUES = [
    TopicPartition("orders", 1),
    OffsetAndMetadata(5, "note", 6),
    OffsetAndTimestamp(7, 8),
    Node(1, "host", 9092),
    PartitionInfo("orders", 1, 1, 0, (1, 2), (1,), ()),
    RECORD,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_survive_pickling_with_their_type(value):
    """Spark and multiprocessing send them to other processes."""
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert type(copy) is type(value)


@pytest.mark.parametrize("name", ["TopicPartition", "OffsetAndMetadata", "OffsetAndTimestamp"])
def test_fields_have_kafka_pythons_names_and_order(name):
    """Positional construction works unchanged."""
    assert globals()[name]._fields == getattr(kafka.structs, name)._fields


def test_topic_partition_equals_kafka_pythons():
    """A program in migration uses both as keys of one dict."""
    assert {TopicPartition("t", 1): 1}[kafka.structs.TopicPartition("t", 1)] == 1


def test_record_has_every_attribute_of_kafka_pythons():
    """A null key has the size -1, as there."""
    for name in KafkaPythonRecord._fields:
        getattr(RECORD, name)
    assert (RECORD.serialized_key_size, RECORD.serialized_value_size) == (-1, 1)


def test_a_tombstone_is_true():
    """A false record would be lost in ``if record:``."""
    assert bool(RECORD.with_key_value(None, None)) is True
