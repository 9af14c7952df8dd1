"""The queue of one partition."""

import random

from thinconsumer import TopicPartition
from thinconsumer.produce.batch import NO_SEQUENCE, BatchEvent, ProducerBatch
from thinconsumer.produce.queue import EPOCH_MAX, NO_ID, PartitionQueue, Sequences
from thinconsumer.records.builder import NewRecord
from thinconsumer.timers import Backoff, Retry

TP = TopicPartition("t", 0)


def test_a_queue_is_in_flight_with_its_first_batch():
    queue = PartitionQueue(TP, Retry(Backoff(0.1, 1.0), random.Random(1)))
    assert not queue.in_flight
    first, second = ProducerBatch(TP, 1.0), ProducerBatch(TP, 1.0)
    queue.batches.extend([first, second])
    assert not queue.in_flight
    first.move(BatchEvent.SEAL)
    first.move(BatchEvent.SENT)
    assert queue.in_flight
    first.move(BatchEvent.TRY_AGAIN)
    assert not queue.in_flight


def batch_of(count):
    batch = ProducerBatch(TopicPartition("t", 0), 0.0)
    batch.records = [NewRecord(b"v")] * count
    return batch


def adopted(epoch=0):
    sequences = Sequences()
    sequences.adopt(7, epoch)
    return sequences


def test_batches_are_numbered_consecutively():
    sequences = adopted()
    first, second = batch_of(3), batch_of(2)
    sequences.number(first)
    sequences.number(second)
    assert (first.base_sequence, second.base_sequence, sequences.next) == (0, 3, 5)


def test_a_retry_keeps_its_number():
    sequences = adopted()
    batch = batch_of(3)
    sequences.number(batch)
    sequences.number(batch)
    assert (batch.base_sequence, sequences.next) == (0, 3)


def test_numbers_wrap_to_0():
    """As in DefaultRecordBatch.incrementSequence: 2**31 - 1 is used, then comes 0."""
    sequences = adopted()
    sequences.next = 2**31 - 2
    batch = batch_of(3)
    sequences.number(batch)
    assert (batch.base_sequence, sequences.next) == (2**31 - 2, 1)


def test_a_new_epoch_begins_at_sequence_0():
    sequences = adopted(5)
    sequences.number(batch_of(3))
    sequences.start_new_epoch()
    assert (sequences.producer_id, sequences.epoch, sequences.next) == (7, 6, 0)


def test_the_last_epoch_is_followed_by_a_new_producer_id():
    sequences = adopted(EPOCH_MAX - 1)
    sequences.start_new_epoch()
    assert (sequences.producer_id, sequences.epoch) == (7, EPOCH_MAX)
    sequences.start_new_epoch()
    assert sequences.producer_id == NO_ID
    sequences.adopt(8, 0)
    assert (sequences.producer_id, sequences.epoch, sequences.next) == (8, 0, 0)


def test_drop_clears_the_producer_id():
    sequences = adopted()
    sequences.number(batch_of(3))
    sequences.drop()
    assert (sequences.producer_id, sequences.next) == (NO_ID, 0)
    assert batch_of(1).base_sequence == NO_SEQUENCE
