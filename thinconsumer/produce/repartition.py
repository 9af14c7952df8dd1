"""Moves records to other partitions: after the partition count of a counted topic has changed, and those of a topic
without metadata once its partitions are known.

All records with a key that are not written yet are in one queue, so they stay in the order of ``send`` when each is
appended to the queue of its key's new partition. The move is planned first and then carried out by assignments that may
be repeated: Ctrl-C can strike between any two of them, and a record must neither be lost nor be in two batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..records.builder import NewRecord
from ..records.section import RecordSection
from ..support.timers import NEVER
from .batch import NO_SEQUENCE, BatchEvent, BatchState, PartitionQueue, ProducerBatch, size_of

#: Returns the new partition of a record of ``size`` bytes that is in a partition now.
ChoosePartition = Callable[[NewRecord, int, int], int]
#: A batch, and the index of a record in it.
Place = tuple[ProducerBatch, int]


class Repartition(NamedTuple):
    """A planned move of all records of a topic that were not sent to an explicit partition."""

    tails: list[_Tail]
    #: The batches that end here, each with the new batch and index of each record.
    moved: list[tuple[ProducerBatch, list[Place]]]

    def carry_out(self) -> None:
        """Move the records; has no further effect when it is called again."""
        for batch, places in self.moved:
            batch.moved = places
        for tail in self.tails:
            if tail.next_sequence != NO_SEQUENCE:
                tail.queue.next_sequence = tail.next_sequence
            tail.queue.batches = tail.batches


class _Tail:
    """A partition's queue, and what it contains afterwards."""

    def __init__(self, queue: PartitionQueue, batches: Iterable[ProducerBatch]) -> None:
        self.queue = queue
        self.batches = deque(batches)
        self.next_sequence = NO_SEQUENCE  #: That of the next batch without one; NO_SEQUENCE: unchanged.
        self._open: ProducerBatch | None = None  #: The last batch, if it accepts records that are moved.

    def add(self, record: NewRecord, size: int, source: ProducerBatch, count: int, batch_size: int) -> Place:
        """Append a record of the batch ``source``; return its new batch and index."""
        batch = self._open
        if batch is None or batch.size + size > batch_size or batch.is_pinned is not source.is_pinned:
            count = source.partition_count if source.is_pinned else count
            batch = ProducerBatch(self.queue.tp, source.deadline, is_pinned=source.is_pinned, partition_count=count)
            self.keep(batch)
            self._open = batch
        batch.deadline = min(batch.deadline, source.deadline)
        batch.deadline_extended = batch.deadline_extended or source.deadline_extended
        batch.last_error = source.last_error or batch.last_error
        batch.size += size
        assert isinstance(batch.records, list)
        batch.records.append(record)
        return batch, len(batch.records) - 1

    def keep(self, batch: ProducerBatch) -> None:
        """Append a batch as it is: one with records that were sent to this explicit partition, say."""
        if self.batches and self.batches[-1].state is BatchState.OPEN:
            self.batches[-1].move(BatchEvent.SEAL)
        self._open = None
        self.batches.append(batch)

    def finish(self) -> None:
        """Give the first batch the earliest deadline: the queue expires with it."""
        deadline = NEVER
        for batch in reversed(self.batches):
            deadline = min(deadline, batch.deadline)
            if not batch.is_pinned:
                batch.deadline = deadline


def is_unresolved(queue: PartitionQueue) -> bool:
    """Return whether the queue's first batch may be in the log of its partition, or may still get there.

    Its records cannot be moved until the leader has acknowledged or rejected it.
    """
    first = queue.batches[0] if queue.batches else None
    if first is None or first.is_pinned:
        return False
    return first.state is BatchState.IN_FLIGHT or first.maybe_appended


def plan(
    queues: Iterable[PartitionQueue],
    count: int,
    choose: ChoosePartition,
    queue_of: Callable[[int], PartitionQueue],
    batch_size: int,
) -> Repartition:
    """Return the move of all records in ``queues``, of one topic; none of them is unresolved.

    ``count`` is the topic's new number of partitions, -1 if it is not counted. ``queue_of`` returns the queue of a
    partition, which may be a new one. Records that are moved follow what other queues have already.
    """
    tails = {queue: _Tail(queue, ()) for queue in queues}
    moved = []

    def tail_of(partition: int) -> _Tail:
        queue = queue_of(partition)
        if queue not in tails:
            tails[queue] = _Tail(queue, queue.batches)
        return tails[queue]

    sources = list(tails)
    for queue in sources:
        if queue.batches and queue.batches[0].is_pinned and queue.batches[0].tp == queue.tp:
            # It may be in flight: records that are moved to this queue must not come before it.
            tails[queue].keep(queue.batches[0])
    for queue in sources:
        for batch in queue.batches:
            tail = tail_of(batch.tp.partition) if batch.is_pinned else None
            if tail is not None and (tail.queue is queue or isinstance(batch.records, RecordSection)):
                if batch not in tail.batches:
                    tail.keep(batch)
                continue
            if batch.base_sequence != NO_SEQUENCE:
                # The broker has rejected the batch, so it expects these sequence numbers from the next one.
                tails[queue].next_sequence = batch.base_sequence
            places = []
            for record in batch.records:
                size = size_of(record)
                place = tail or tail_of(choose(record, size, queue.tp.partition))
                places.append(place.add(record, size, batch, count, batch_size))
            moved.append((batch, places))
    for tail in tails.values():
        tail.finish()
    return Repartition(list(tails.values()), moved)
