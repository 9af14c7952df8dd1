"""The numbers of one partition: counted, kept when sent again, started over, used up."""

from __future__ import annotations

from thinconsumer import TopicPartition
from thinconsumer.produce.batch import NO_SEQUENCE, ProducerBatch
from thinconsumer.produce.sequences import EPOCH_MAX, NO_ID, Sequences
from thinconsumer.records.builder import NewRecord


def batch_of(count):
    batch = ProducerBatch(TopicPartition("t", 0), 0.0)
    batch.records = [NewRecord(b"v")] * count
    return batch


def begun(epoch=0):
    sequences = Sequences()
    sequences.adopt(7, epoch)
    return sequences


def test_each_batch_counts_on():
    sequences = begun()
    first, second = batch_of(3), batch_of(2)
    sequences.number(first)
    sequences.number(second)
    assert (first.base_sequence, second.base_sequence, sequences.next) == (0, 3, 5)


def test_sent_again_a_batch_keeps_its_number():
    sequences = begun()
    batch = batch_of(3)
    sequences.number(batch)
    sequences.number(batch)
    assert (batch.base_sequence, sequences.next) == (0, 3)


def test_numbers_begin_again_after_the_last_one():
    """As in DefaultRecordBatch.incrementSequence: 2**31 - 1 is used, then comes 0."""
    sequences = begun()
    sequences.next = 2**31 - 2
    batch = batch_of(3)
    sequences.number(batch)
    assert (batch.base_sequence, sequences.next) == (2**31 - 2, 1)


def test_starting_over_is_the_next_epoch_from_0_on():
    sequences = begun(5)
    sequences.number(batch_of(3))
    sequences.start_new_epoch()
    assert (sequences.producer_id, sequences.epoch, sequences.next) == (7, 6, 0)


def test_after_the_last_epoch_the_id_is_used_up():
    sequences = begun(EPOCH_MAX - 1)
    sequences.start_new_epoch()
    assert (sequences.producer_id, sequences.epoch) == (7, EPOCH_MAX)
    sequences.start_new_epoch()
    assert sequences.producer_id == NO_ID
    sequences.adopt(8, 0)
    assert (sequences.producer_id, sequences.epoch, sequences.next) == (8, 0, 0)


def test_a_dropped_id_is_used_no_more():
    sequences = begun()
    sequences.number(batch_of(3))
    sequences.drop()
    assert (sequences.producer_id, sequences.next) == (NO_ID, 0)
    assert batch_of(1).base_sequence == NO_SEQUENCE
