"""The values users hold: kafka-python's shapes, as plain data that crosses process borders."""

from __future__ import annotations

import pickle

import kafka.structs
import pytest
from kafka.consumer.fetcher import ConsumerRecord as KafkaPythonRecord

from thinconsumer import (
    ConsumerRecord,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

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
def test_fields_are_kafka_pythons_in_its_order(name):
    """Positional construction moves over unchanged."""
    assert globals()[name]._fields == getattr(kafka.structs, name)._fields


def test_partition_of_kafka_python_equals_ours():
    """A program in the middle of moving over mixes both as keys of one dict."""
    assert {TopicPartition("t", 1): 1}[kafka.structs.TopicPartition("t", 1)] == 1


def test_record_answers_to_every_name_that_kafka_pythons_has():
    """Null key: size -1, as there."""
    for name in KafkaPythonRecord._fields:
        getattr(RECORD, name)
    assert (RECORD.serialized_key_size, RECORD.serialized_value_size) == (-1, 1)


def test_tombstone_is_a_record_and_true():
    """Pain C6: falsy messages got lost in ``if record:``."""
    assert bool(RECORD.with_key_value(None, None)) is True
