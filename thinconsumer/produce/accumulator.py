"""Holds the records that are neither acknowledged nor failed, by partition and in the order of ``send``.

The accumulator chooses each record's partition and batch; :mod:`.sender` decides when batches are sent. All records of
a topic without metadata wait in one queue, even those with an explicit partition, to keep the order of ``send``. After
Java's ``RecordAccumulator``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from ..errors import KafkaError
from ..linear_hashing import PartitionCounts
from ..network.metadata import Metadata
from ..partitioning import murmur2, partition
from ..records.builder import NewRecord
from ..records.section import RecordSection
from ..support.agenda import Agenda
from ..support.timers import NEVER, Backoff, Random, Retry
from ..types import TopicPartition
from .batch import (
    NO_SEQUENCE,
    UNKNOWN,
    BatchEvent,
    BatchFuture,
    BatchState,
    PartitionQueue,
    ProducerBatch,
    SendFuture,
    size_of,
)
from .settings import ProducerSettings


class BufferFullError(KafkaError):
    """``buffer_memory`` is full of unacknowledged records. The record was not queued: ``poll``, then send it again."""

    retriable = True


#: In place of a partition count: the batch is pinned, or its topic is not counted or has no metadata yet.
UNCOUNTED = -1


@dataclass(slots=True, eq=False)
class TopicBuffer:
    sticky: StickyPartitioner
    waiting: PartitionQueue  #: The records that wait for metadata.
    partitions: int = 0  #: Number of partitions; 0 while unknown.
    available: list[int] = field(default_factory=list)  #: Partitions with a leader that are not marked for deletion.
    #: The counts by which partitions are chosen; None if the topic is not counted.
    counts: PartitionCounts | None = None
    #: The counts in the latest metadata. While they differ from ``counts``, the sender sends only pinned batches, and
    #: batches that may be in the log already.
    next_counts: PartitionCounts | None = None
    queues: dict[int, PartitionQueue] = field(default_factory=dict)
    used_at: float = -NEVER

    @property
    def is_known(self) -> bool:
        """Whether a record gets its partition at once: the partitions are known, and no record waits for them."""
        return bool(self.partitions) and not self.waiting.batches

    @property
    def is_moving(self) -> bool:
        """Whether records are to be moved, since the partition counts have changed."""
        return self.counts != self.next_counts


#: The sender's name in the agenda, which a new record makes due.
ASKER = "produce"
#: While its topic has no metadata, a record may fail with its batch: at most so many seconds before its own deadline.
EARLY_MAX_S = 1.0


class Accumulator:
    def __init__(self, settings: ProducerSettings, random: Random, agenda: Agenda) -> None:
        self._backoff = Backoff.from_settings(settings)
        self._random = random
        self._agenda = agenda
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._timeout = settings.delivery_timeout_ms / 1000
        self.topics: dict[str, TopicBuffer] = {}
        self.active: dict[PartitionQueue, None] = {}  #: Queues with batches; a queue moves to the end when it is sent.
        self.buffered_bytes = 0  #: Upper bound of the bytes of all queued records, limited by ``buffer_memory``.
        self.settled_records = 0  #: Records acknowledged or failed since the start.
        #: The move that is being carried out, with its topic and the new counts.
        self._planned: tuple[TopicBuffer, PartitionCounts | None, Repartition] | None = None

    def __bool__(self) -> bool:
        return bool(self.active)

    def append(self, topic: str, partition: int | None, record: NewRecord, size: int, now: float) -> SendFuture:
        """Add a record of at most ``size`` bytes. The caller has checked that it fits ``buffer_memory``."""
        buffer = self._buffer_of(topic, now)
        is_known = buffer.is_known
        is_pinned = partition is not None and (buffer.counts is not None or not is_known)
        if partition is None:
            partition = self._choose_partition(buffer, buffer.counts, record.key, size) if is_known else UNKNOWN
        queue = self._queue_of(buffer, partition) if is_known else buffer.waiting
        batch = queue.batches[-1] if queue.batches else None
        if (
            batch is None
            or batch.state is not BatchState.OPEN
            or batch.size + size > self._batch_size
            or batch.is_pinned is not is_pinned
            or batch.tp.partition != partition
            or (queue is buffer.waiting and now + self._timeout > batch.deadline + EARLY_MAX_S)
        ):
            count = UNCOUNTED if is_pinned or buffer.counts is None else buffer.counts.undeleted
            batch = ProducerBatch(
                TopicPartition(topic, partition), now + self._timeout, is_pinned=is_pinned, partition_count=count
            )
            self._add_batch(queue, batch)
        assert isinstance(batch.records, list)
        self.buffered_bytes += size
        batch.size += size
        batch.records.append(record)
        return SendFuture(batch, len(batch.records) - 1, record.timestamp)

    def append_section(self, topic: str, partition: int, section: RecordSection, size: int, now: float) -> BatchFuture:
        """Add a section's records as one batch of ``size`` bytes, which stays in ``partition``."""
        buffer = self._buffer_of(topic, now)
        queue = self._queue_of(buffer, partition) if buffer.is_known else buffer.waiting
        tp = TopicPartition(topic, partition)
        batch = ProducerBatch(tp, now + self._timeout, records=section, size=size, is_pinned=True)
        batch.move(BatchEvent.SEAL)
        self._add_batch(queue, batch)
        self.buffered_bytes += size
        return BatchFuture(batch)

    def _add_batch(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if queue.batches and queue.batches[-1].state is BatchState.OPEN:
            queue.batches[-1].move(BatchEvent.SEAL)
        self.active[queue] = None
        queue.batches.append(batch)

    def _buffer_of(self, topic: str, now: float) -> TopicBuffer:
        """Return the buffer of a topic that is used now, and make the sender due."""
        self._agenda.touch(ASKER)
        buffer = self.topics.get(topic)
        if buffer is None:
            sticky = StickyPartitioner(self._batch_size, self._random)
            buffer = self.topics[topic] = TopicBuffer(sticky, self._new_queue(topic, UNKNOWN))
        buffer.used_at = now
        return buffer

    @staticmethod
    def _choose_partition(buffer: TopicBuffer, counts: PartitionCounts | None, key: bytes | None, size: int) -> int:
        if key is None:
            partitions = buffer.partitions if counts is None else counts.undeleted
            return buffer.sticky.choose(size, partitions, buffer.available)
        if counts is None:
            return (murmur2(key) & 0x7FFFFFFF) % buffer.partitions  # as Java's default partitioner
        return partition(key, *counts)

    def _queue_of(self, buffer: TopicBuffer, partition: int) -> PartitionQueue:
        queue = buffer.queues.get(partition)
        if queue is None:
            queue = buffer.queues[partition] = self._new_queue(buffer.waiting.tp.topic, partition)
        return queue

    def _new_queue(self, topic: str, partition: int) -> PartitionQueue:
        return PartitionQueue(TopicPartition(topic, partition), Retry(self._backoff, self._random, self._agenda))

    def update(self, metadata: Metadata) -> None:
        """Apply new metadata; move records of topics that had none to partition queues, in the order of ``send``."""
        for name, buffer in self.topics.items():
            topic = metadata.topics.get(name)
            partitions = {} if topic is None else topic.partitions
            buffer.partitions = len(partitions)
            if topic is not None and partitions:
                buffer.next_counts = topic.counts
                if buffer.is_moving and not any(queue.batches for queue in buffer.queues.values()):
                    buffer.counts = topic.counts
            end = len(partitions) if buffer.next_counts is None else buffer.next_counts.undeleted
            buffer.available = [n for n, info in partitions.items() if n < end and info.leader in metadata.nodes]
            buffer.sticky.keep_to(buffer.available)
            if buffer.partitions and buffer.waiting.batches:
                self._move(buffer, [buffer.waiting], buffer.counts)

    def may_send(self, queue: PartitionQueue) -> bool:
        """Return whether the queue's first batch may be sent: as a rule, once its partition is known.

        While the topic's records wait to be moved, only a batch whose records stay may be sent: a pinned batch, or one
        that may be in the log already (:func:`is_unresolved`).
        """
        if not self.topics[queue.tp.topic].is_moving:
            return queue.tp.partition != UNKNOWN
        return bool(queue.batches) and (queue.batches[0].is_pinned or is_unresolved(queue))

    def move_records(self) -> None:
        """Move the records of topics with a changed partition count, but not while a queue :func:`is_unresolved`."""
        # The cheap comparison comes first: topics are never forgotten, and most of them never change.
        changed = [one for one in self.topics.values() if one.counts is not one.next_counts]
        for buffer in [one for one in changed if one.is_moving]:
            queues = list(buffer.queues.values())
            if not any(map(is_unresolved, queues)):
                self._move(buffer, queues, buffer.next_counts)

    def _move(self, buffer: TopicBuffer, queues: list[PartitionQueue], counts: PartitionCounts | None) -> None:
        def choose(record: NewRecord, size: int, partition: int) -> int:
            stays = record.key is None and partition in buffer.available
            return partition if stays else self._choose_partition(buffer, counts, record.key, size)

        count = UNCOUNTED if counts is None else counts.undeleted
        moves = plan(queues, count, choose, lambda number: self._queue_of(buffer, number), self._batch_size)
        self._planned = buffer, counts, moves
        self.repair()

    def topics_in_use(self, now: float, idle: float) -> set[str]:
        """Return the topics with queued records, and those that got a record in the last ``idle`` seconds."""
        busy = {queue.tp.topic for queue in self.active}
        return busy | {name for name, buffer in self.topics.items() if buffer.used_at + idle > now}

    def remove_first(self, queue: PartitionQueue) -> None:
        """Remove a queue's first batch, which is acknowledged or has failed."""
        batch = queue.batches.popleft()
        self.settled_records += len(batch)
        self.buffered_bytes -= batch.size
        if not queue.batches:
            self.active.pop(queue, None)

    def move_to_end(self, queue: PartitionQueue) -> None:
        """Put a queue last after its batch was sent, so that every queue gets its turn, even if requests are full."""
        if self.active.pop(queue, queue) is None:
            self.active[queue] = None

    def repair(self) -> None:
        """Carry out a planned move, remove settled batches, and recompute ``active`` and ``buffered_bytes``.

        Ctrl-C may have interrupted any of this before.
        """
        if self._planned is not None:
            topic, counts, moves = self._planned
            topic.counts = counts
            moves.carry_out()
            self._planned = None
        for buffer in self.topics.values():
            for queue in (buffer.waiting, *buffer.queues.values()):
                while queue.batches and queue.batches[0].state is BatchState.DONE:
                    queue.batches.popleft()
                if queue.batches:
                    self.active.setdefault(queue)
                else:
                    self.active.pop(queue, None)
        self.buffered_bytes = sum(batch.size for queue in self.active for batch in queue.batches)


class StickyPartitioner:
    """Chooses a random partition for records without a key, and chooses again after ``stick_bytes`` bytes.

    Round robin would produce batches of one record each (KIP-480). If the partition changed with each batch, a slow
    broker would get larger batches, and so more records. After Java's ``BuiltInPartitioner`` (KIP-794), without its
    adaptation to slow brokers.
    """

    def __init__(self, stick_bytes: int, random: Random) -> None:
        self._stick_bytes = stick_bytes
        self._random = random
        self._chosen = -1
        self._left = 0

    def choose(self, size: int, partitions: int, available: Sequence[int]) -> int:
        """Return the partition for a record of ``size`` bytes: an ``available`` one, if there is any."""
        if self._left <= 0 or self._chosen >= partitions:
            choices = available or range(partitions)
            self._chosen = choices[self._random.randrange(len(choices))]
            self._left = self._stick_bytes
        self._left -= size
        return self._chosen

    def keep_to(self, available: Sequence[int]) -> None:
        """Choose again for the next record if the current partition is not ``available`` (see :class:`TopicBuffer`)."""
        if self._chosen not in available:
            self._left = 0


# Records are moved to other partitions after the partition count of a counted topic has changed, and those of a topic
# without metadata once its partitions are known. The unwritten records of a key are all in one queue (but for pinned
# ones). They are appended one by one to the queue of the key's new partition, and so stay in the order of ``send``. The
# move is planned first and then carried out by assignments that may be repeated: Ctrl-C can strike between any two of
# them, and a record must neither be lost nor be in two batches.

#: A batch, and the index of a record in it.
Place = tuple[ProducerBatch, int]


class Repartition(NamedTuple):
    """A planned move of a topic's records to the queues of their partitions."""

    tails: list[_Tail]
    moved: list[tuple[ProducerBatch, list[Place]]]  #: The batches that are dissolved, with each record's new place.

    def carry_out(self) -> None:
        """Move the records; has no further effect when it is called again."""
        for batch, places in self.moved:
            batch.moved = places
        for tail in self.tails:
            if tail.next_sequence != NO_SEQUENCE:
                tail.queue.next_sequence = tail.next_sequence
            tail.queue.batches = tail.batches


class _Tail:
    """A partition's queue, and its batches after the move."""

    def __init__(self, queue: PartitionQueue, batches: Iterable[ProducerBatch]) -> None:
        self.queue = queue
        self.batches = deque(batches)
        self.next_sequence = NO_SEQUENCE  #: The queue's next sequence number after the move; NO_SEQUENCE: unchanged.
        self._open: ProducerBatch | None = None  #: The last batch, if it accepts records that are moved.

    def add(self, record: NewRecord, size: int, source: ProducerBatch, count: int, batch_size: int) -> Place:
        """Append a record of the batch ``source``; return the record's new batch and index there.

        ``count`` and ``batch_size`` are those of :func:`plan`.
        """
        batch, is_pinned = self._open, source.is_pinned and count != UNCOUNTED
        if batch is None or batch.size + size > batch_size or batch.is_pinned is not is_pinned:
            count = source.partition_count if is_pinned else count
            batch = ProducerBatch(self.queue.tp, source.deadline, is_pinned=is_pinned, partition_count=count)
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
        """Append a batch as it is."""
        if self.batches and self.batches[-1].state is BatchState.OPEN:
            self.batches[-1].move(BatchEvent.SEAL)
        self._open = None
        self.batches.append(batch)

    def finish(self) -> None:
        """Lower deadlines so that no unpinned batch expires after a batch behind it: only the first one is checked."""
        earliest = list(accumulate((batch.deadline for batch in reversed(self.batches)), min))
        for batch, deadline in zip(reversed(self.batches), earliest):
            if not batch.is_pinned:
                batch.deadline = deadline


def is_unresolved(queue: PartitionQueue) -> bool:
    """Return whether the first batch may be in the log: its records cannot move before the leader has responded.

    False for a pinned batch, whose records stay in their partition.
    """
    first = queue.batches[0] if queue.batches else None
    return first is not None and not first.is_pinned and (queue.in_flight or first.maybe_appended)


def plan(
    queues: Iterable[PartitionQueue],
    count: int,
    choose: Callable[[NewRecord, int, int], int],
    queue_of: Callable[[int], PartitionQueue],
    batch_size: int,
) -> Repartition:
    """Return the move of the records in ``queues``, which belong to one topic. None of the queues is unresolved.

    ``count`` is the topic's new number of partitions, -1 if it is not counted. ``choose`` takes a record, its size and
    its partition, and returns its new partition. ``queue_of`` returns the queue of a partition, and makes it if it is
    missing. ``batch_size`` limits the bytes of new batches. A pinned batch in the queue of its partition stays there.
    A queue that is not in ``queues`` keeps its batches, and moved records come after them.
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
            # The pinned batch may be in flight: records that are moved to this queue must not come before it.
            tails[queue].keep(queue.batches[0])
    for queue in sources:
        for batch in queue.batches:
            tail = tail_of(batch.tp.partition) if batch.is_pinned else None
            if tail is not None and (tail.queue is queue or isinstance(batch.records, RecordSection)):
                if tail.queue is not queue or batch is not queue.batches[0]:
                    tail.keep(batch)
                continue
            if batch.base_sequence != NO_SEQUENCE:
                # The broker has not written the batch, so it expects these sequence numbers in the queue's next batch.
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
