"""Batches and their futures: settling once, sizes and sequence numbers."""

import random

import pytest

from thinconsumer import TopicPartition
from thinconsumer.errors import IllegalStateError, KafkaError
from thinconsumer.produce import RecordMetadata, SendFuture
from thinconsumer.produce.batch import PartitionQueue, ProducerBatch, size_of
from thinconsumer.records.builder import NewRecord, build_batch
from thinconsumer.support.timers import Backoff, Retry

TP = TopicPartition("t", 3)


def batch_of(count):
    batch = ProducerBatch(TP, 99.0)
    batch.records = [NewRecord(b"%d" % n, timestamp=n) for n in range(count)]
    return batch


def test_futures_are_settled_with_their_batch():
    batch = batch_of(3)
    futures = [SendFuture(batch, n, 100 + n) for n in range(3)]
    assert not any(r.done for r in futures)
    assert "under way" in repr(futures[0])
    batch.acknowledge(50, -1)
    assert [r.result() for r in futures] == [RecordMetadata("t", 3, 50 + n, 100 + n) for n in range(3)]
    assert "offset=50" in repr(futures[0])


def test_an_unknown_offset_is_minus_one():
    batch = batch_of(2)
    batch.acknowledge(-1, -1)
    assert SendFuture(batch, 1, 5).result().offset == -1


def test_a_failed_batch_fails_each_future_with_its_record_error_if_any():
    batch = batch_of(2)
    whole, own = KafkaError("whole"), KafkaError("own")
    batch.fail(whole, {1: own})
    assert (SendFuture(batch, 0, 5).error, SendFuture(batch, 1, 5).error) == (whole, own)
    with pytest.raises(KafkaError, match="own"):
        SendFuture(batch, 1, 5).result()
    assert "own" in repr(SendFuture(batch, 1, 5))


@pytest.mark.parametrize("first", ["acknowledge", "fail"])
@pytest.mark.parametrize("second", ["acknowledge", "fail"])
def test_a_batch_is_settled_once(first, second):
    settle = {"acknowledge": lambda b: b.acknowledge(1, -1), "fail": lambda b: b.fail(KafkaError("x"))}
    batch = batch_of(1)
    settle[first](batch)
    with pytest.raises(IllegalStateError):
        settle[second](batch)


def test_a_settled_batch_frees_its_records_and_keeps_their_number():
    batch = batch_of(5)
    batch.encoded = b"x"
    batch.acknowledge(0, -1)
    assert (batch.records, batch.encoded, len(batch)) == ([], None, 5)


def test_sequence_numbers_wrap_to_0():
    """As in DefaultRecordBatch.incrementSequence: 2**31 - 1 is used, then comes 0."""
    queue = PartitionQueue(TP, Retry(Backoff(0.1, 1.0), random.Random(1)))
    queue.adopt(7, 0)
    queue.next_sequence = 2**31 - 2
    batch = batch_of(3)
    queue.number(batch)
    assert (batch.base_sequence, queue.next_sequence) == (2**31 - 2, 1)


def test_the_repr_of_a_batch():
    assert repr(batch_of(2)) == "<Batch t-3 open, 2 records>"


@pytest.mark.parametrize(
    "record",
    [
        NewRecord(None, None, (), 0),
        NewRecord(b"v" * 1000, b"k" * 100, (), 5),
        NewRecord(b"v", None, (("name", b"data"), ("é" * 50, None)), 5),
    ],
)
def test_a_record_takes_at_most_this_many_bytes(record):
    empty = len(build_batch([NewRecord(None, None, (), 0)]))
    assert len(build_batch([record])) - empty <= size_of(record)
