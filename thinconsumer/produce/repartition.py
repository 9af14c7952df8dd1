"""Moves records of a counted topic to other partitions after its partition count has changed.

All records with a key that are not written yet are in one queue, so they stay in the order of ``send`` when each is
appended to the queue of its key's new partition. The move is planned first and then carried out by assignments that may
be repeated: Ctrl-C can strike between any two of them, and a record must neither be lost nor be in two batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ..records.builder import NewRecord
from .batch import NO_SEQUENCE, BatchEvent, BatchState, PartitionQueue, ProducerBatch, size_of

#: Returns the new partition of a record of ``size`` bytes that is in a partition now.
ChoosePartition = Callable[[NewRecord, int, int], int]


class MovedQueue(NamedTuple):
    """A partition's queue, and what it contains afterwards."""

    queue: PartitionQueue
    batches: deque[ProducerBatch]
    next_sequence: int  #: The sequence number of the next batch without one; NO_SEQUENCE: unchanged.


class Repartition(NamedTuple):
    """A planned move of all records of a topic that were not sent to an explicit partition."""

    queues: list[MovedQueue]
    #: The batches that end here, each with the new batch and index of each record.
    moved: list[tuple[ProducerBatch, list[tuple[ProducerBatch, int]]]]

    def carry_out(self) -> None:
        """Move the records; has no further effect when it is called again."""
        for batch, places in self.moved:
            batch.moved = places
        for queue, batches, next_sequence in self.queues:
            if next_sequence != NO_SEQUENCE:
                queue.sequences.next = next_sequence
            queue.batches = batches


class _Tail:
    """The queue of one partition while its new contents are collected."""

    def __init__(self, queue: PartitionQueue, batch_size: int) -> None:
        self.queue = queue
        self.batches: deque[ProducerBatch] = deque()
        self.next_sequence = NO_SEQUENCE
        self._batch_size = batch_size

    def add(self, record: NewRecord, size: int, source: ProducerBatch, count: int) -> tuple[ProducerBatch, int]:
        """Append a record of the batch ``source``; return its new batch and index."""
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.is_pinned or batch.size + size > self._batch_size:
            self._seal()
            batch = ProducerBatch(self.queue.tp, source.deadline, partition_count=count)
            self.batches.append(batch)
        batch.deadline = min(batch.deadline, source.deadline)
        batch.deadline_extended = batch.deadline_extended or source.deadline_extended
        batch.last_error = source.last_error or batch.last_error
        batch.size += size
        assert isinstance(batch.records, list)
        batch.records.append(record)
        return batch, len(batch.records) - 1

    def keep(self, batch: ProducerBatch) -> None:
        """Append a batch with records that were sent to this explicit partition."""
        self._seal()
        self.batches.append(batch)

    def finish(self) -> MovedQueue:
        """Return the result. The first batch decides when the queue expires, so it gets the earliest deadline."""
        deadline = None
        for batch in reversed(self.batches):
            deadline = batch.deadline if deadline is None else min(deadline, batch.deadline)
            if not batch.is_pinned:
                batch.deadline = deadline
        return MovedQueue(self.queue, self.batches, self.next_sequence)

    def _seal(self) -> None:
        if self.batches and self.batches[-1].state is BatchState.OPEN:
            self.batches[-1].move(BatchEvent.SEAL)


def is_unresolved(queue: PartitionQueue) -> bool:
    """Return whether the queue's first batch may be in the log of its partition, or may still get there.

    Its records cannot be moved until the leader has acknowledged or rejected it.
    """
    first = queue.batches[0] if queue.batches else None
    if first is None or first.is_pinned:
        return False
    return first.state is BatchState.IN_FLIGHT or first.maybe_appended


def plan(
    queues: list[PartitionQueue],
    count: int,
    choose: ChoosePartition,
    queue_of: Callable[[int], PartitionQueue],
    batch_size: int,
) -> Repartition:
    """Return the move of all records in ``queues``, the partitions of one topic; none of them is unresolved.

    ``count`` is the topic's new number of partitions, -1 if it is not counted. ``queue_of`` returns the queue of a
    partition, which may be a new one.
    """
    tails = {queue.tp.partition: _Tail(queue, batch_size) for queue in queues}
    for queue in queues:
        if queue.batches and queue.batches[0].is_pinned:
            # It may be in flight: records that are moved to this queue must not come before it.
            tails[queue.tp.partition].keep(queue.batches[0])
    moved = []
    for queue in queues:
        own = tails[queue.tp.partition]
        for batch in queue.batches:
            if batch.is_pinned:
                if batch is not queue.batches[0]:
                    own.keep(batch)
                continue
            if batch.base_sequence != NO_SEQUENCE:
                # The broker has rejected the batch, so it expects these sequence numbers from the next one.
                own.next_sequence = batch.base_sequence
            places = []
            for record in batch.records:
                size = size_of(record)
                partition = choose(record, size, queue.tp.partition)
                if partition not in tails:
                    tails[partition] = _Tail(queue_of(partition), batch_size)
                places.append(tails[partition].add(record, size, batch, count))
            moved.append((batch, places))
    return Repartition([tail.finish() for tail in tails.values()], moved)
