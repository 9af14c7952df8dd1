"""What was given to the producer and is not settled yet: by topic and partition, in order, within a bound.

Owns the queues, the choice of a partition, and the bytes they hold. It decides where a record goes, not when. Records
of a topic whose partitions are not known yet wait together, those with a partition given too: they must not overtake.
After Java's ``RecordAccumulator``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from ..errors import KafkaError
from ..metadata import Metadata
from ..records.builder import NewRecord
from ..timers import NEVER, Random
from ..types import TopicPartition
from .batch import BatchEvent, BatchState, ProducerBatch, Receipt, failed_batch
from .partitioner import Sticky, partition_for_key
from .sequences import Sequences


class AccumulatorSettings(Protocol):
    """The options this room reads."""

    @property
    def buffer_memory(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def max_request_size(self) -> int: ...
    @property
    def delivery_timeout_ms(self) -> int: ...


class BufferFullError(KafkaError):
    """``buffer_memory`` is full of records that are not acknowledged yet. Nothing was taken; poll and try again."""

    retriable = True


class PartitionQueue:
    """One partition's batches, the oldest first, and what sending them needs to know."""

    __slots__ = ("attempts", "batches", "leaderless", "not_before", "sequences", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.batches: deque[ProducerBatch] = deque()
        self.sequences = Sequences()
        self.attempts = 0  #: Failures in a row.
        self.not_before = -NEVER  #: Of the next attempt.
        self.leaderless = False  #: What it waits for is a leader, and not the end of a backoff.

    @property
    def head(self) -> ProducerBatch | None:
        """The batch whose turn it is."""
        return self.batches[0] if self.batches else None

    @property
    def in_flight(self) -> bool:
        """Whether it is on its way: another one has to wait."""
        return bool(self.batches) and self.batches[0].state is BatchState.IN_FLIGHT


class _Waiting:
    """A record whose topic is not known yet."""

    __slots__ = ("deadline", "partition", "receipt", "record", "reprieved", "size")

    def __init__(self, record: NewRecord, partition: int | None, size: int, receipt: Receipt, deadline: float) -> None:
        self.record = record
        self.partition = partition
        self.size = size
        self.receipt = receipt
        self.deadline = deadline
        self.reprieved = False  #: The deadline has been moved, which happens once.


class TopicBuffer:
    """One topic's records."""

    __slots__ = ("available", "name", "nowhere", "partitions", "queues", "sticky", "used_at", "waiting")

    def __init__(self, name: str, sticky: Sticky) -> None:
        self.name = name
        self.sticky = sticky
        self.partitions = 0  #: How many there are; 0 while unknown.
        self.available: list[int] = []  #: Those with a leader.
        self.queues: dict[int, PartitionQueue] = {}
        self.waiting: deque[_Waiting] = deque()
        self.nowhere = ProducerBatch(TopicPartition(name, -1), NEVER)  #: What receipts of waiting records point to.
        self.used_at = -NEVER


class Accumulator:
    """All records under way. :meth:`append` takes one, the sender empties it."""

    def __init__(self, settings: AccumulatorSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._timeout = settings.delivery_timeout_ms / 1000
        self.topics: dict[str, TopicBuffer] = {}
        self.active: dict[PartitionQueue, None] = {}  #: Queues with batches; whose turn it was last, comes last.
        self.used = 0  #: Bytes of records that are not settled.
        self.settled = 0  #: Counts records.
        self._waiting: dict[str, TopicBuffer] = {}

    def __bool__(self) -> bool:
        return bool(self.active or self._waiting)

    # -- from the user

    def append(self, topic: str, partition: int | None, record: NewRecord, size: int, now: float) -> Receipt:
        """Take a record of at most ``size`` bytes. Whether there is room, the caller has looked."""
        buffer = self.topics.get(topic)
        if buffer is None:
            buffer = self.topics[topic] = TopicBuffer(topic, Sticky(self._batch_size, self._random))
        buffer.used_at = now
        if not buffer.partitions or buffer.waiting:
            return self._wait(buffer, partition, record, size, now)
        if partition is None:
            partition = self._choose(buffer, record.key, size)
        batch = self._open_batch(buffer, partition, size, now + self._timeout)
        self.used += size
        batch.size += size
        batch.records.append(record)
        return Receipt(batch, len(batch.records) - 1, record.timestamp)

    def _wait(self, buffer: TopicBuffer, partition: int | None, record: NewRecord, size: int, now: float) -> Receipt:
        receipt = Receipt(buffer.nowhere, 0, record.timestamp)
        self._waiting[buffer.name] = buffer
        self.used += size
        buffer.waiting.append(_Waiting(record, partition, size, receipt, now + self._timeout))
        return receipt

    def _choose(self, buffer: TopicBuffer, key: bytes | None, size: int) -> int:
        if key is None:
            return buffer.sticky.choose(size, buffer.partitions, buffer.available)
        return partition_for_key(key, buffer.partitions)

    def _open_batch(self, buffer: TopicBuffer, partition: int, size: int, deadline: float) -> ProducerBatch:
        queue = buffer.queues.get(partition)
        if queue is None:
            queue = buffer.queues[partition] = PartitionQueue(TopicPartition(buffer.name, partition))
        batch = queue.batches[-1] if queue.batches else None
        if batch is not None and batch.state is BatchState.OPEN:
            if batch.size + size <= self._batch_size:
                return batch
            batch.move(BatchEvent.SEAL)
        self.active[queue] = None
        batch = ProducerBatch(queue.tp, deadline)
        queue.batches.append(batch)
        return batch

    # -- from the sender

    def update(self, metadata: Metadata) -> None:
        """Take what is known of topics now; records that waited for it find their partitions, in order."""
        for buffer in self.topics.values():
            topic = metadata.topics.get(buffer.name)
            partitions = {} if topic is None else topic.partitions
            buffer.partitions = len(partitions)
            buffer.available = [number for number, info in partitions.items() if info.leader in metadata.nodes]
            buffer.sticky.keep_to(buffer.available)
            if buffer.partitions and buffer.waiting:
                self._place(buffer)

    def _place(self, buffer: TopicBuffer) -> None:
        while buffer.waiting:
            one = buffer.waiting[0]
            partition = self._choose(buffer, one.record.key, one.size) if one.partition is None else one.partition
            batch = self._open_batch(buffer, partition, one.size, one.deadline)
            receipt, index = one.receipt, len(batch.records)
            # No call from here on: interrupted in between, the record would be written twice, or not at all.
            batch.size += one.size
            batch.records += (one.record,)
            receipt.batch, receipt.index = batch, index
            del buffer.waiting[0]
        self._waiting.pop(buffer.name, None)

    def wanted(self, now: float, idle: float) -> set[str]:
        """Return the topics that have records, or had some within ``idle`` seconds."""
        busy = {queue.tp.topic for queue in self.active} | set(self._waiting)
        return busy | {name for name, buffer in self.topics.items() if buffer.used_at + idle > now}

    def waiting(self) -> Iterator[tuple[TopicBuffer, float]]:
        """Yield topics whose records wait for metadata, and when the first one's time is over."""
        for buffer in list(self._waiting.values()):
            if buffer.waiting:
                yield buffer, buffer.waiting[0].deadline

    def reprieve_waiting(self, buffer: TopicBuffer, now: float, deadline: float) -> None:
        """Give waiting records whose time is over until ``deadline``, each of them once."""
        for one in buffer.waiting:
            if one.deadline <= now and not one.reprieved:
                one.reprieved = True
                one.deadline = deadline

    def fail_waiting(self, buffer: TopicBuffer, error: KafkaError, until: float = NEVER) -> None:
        """Fail the waiting records whose time is over ``until`` then."""
        while buffer.waiting and buffer.waiting[0].deadline <= until:
            one = buffer.waiting[0]
            one.receipt.batch = failed_batch(buffer.nowhere.tp, error)
            buffer.waiting.popleft()
            self._forget(one.size, 1)
        if not buffer.waiting:
            self._waiting.pop(buffer.name, None)

    def settled_head(self, queue: PartitionQueue) -> None:
        """Drop a queue's first batch, which has been settled."""
        batch = queue.batches.popleft()
        self._forget(batch.size, len(batch))
        if not queue.batches:
            self.active.pop(queue, None)

    def to_the_end(self, queue: PartitionQueue) -> None:
        """It was this queue's turn: others come first next time."""
        if self.active.pop(queue, queue) is None:
            self.active[queue] = None

    def recount(self) -> None:
        """Put right what a call that was broken off has left between two statements."""
        for buffer in self.topics.values():
            for queue in buffer.queues.values():
                while queue.batches and queue.batches[0].state is BatchState.DONE:
                    queue.batches.popleft()
                if queue.batches:
                    self.active.setdefault(queue)
                else:
                    self.active.pop(queue, None)
            if buffer.waiting:
                self._waiting[buffer.name] = buffer
            else:
                self._waiting.pop(buffer.name, None)
        batches = sum(batch.size for queue in self.active for batch in queue.batches)
        self.used = batches + sum(one.size for buffer in self._waiting.values() for one in buffer.waiting)

    def _forget(self, size: int, records: int) -> None:
        self.settled += records
        self.used -= size
        if not self:
            self.used = 0
