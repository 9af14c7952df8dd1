"""The queue of one partition."""

import random

from thinconsumer import TopicPartition
from thinconsumer.produce.batch import BatchEvent, ProducerBatch
from thinconsumer.produce.queue import PartitionQueue
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
