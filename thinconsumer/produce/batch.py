"""Record batches, the futures of their records, and the batches and sequence numbers (KIP-98) of one partition.

A batch is settled (acknowledged or failed) once and as a whole, and with it the futures of its records. After Java's
``ProducerBatch`` and ``FutureRecordMetadata``.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import IllegalStateError, KafkaError
from ..records.builder import NewRecord
from ..records.section import RecordSection
from ..support.state_machine import next_state
from ..support.timers import Retry
from ..types import TopicPartition

#: The base sequence of a batch that has no sequence numbers yet, or needs new ones.
NO_SEQUENCE = -1


class BatchState(enum.Enum):
    OPEN = "open"  #: accepts records
    SEALED = "sealed"  #: accepts no more records; waits to be sent, for the first time or again
    IN_FLIGHT = "in flight"  #: sent, without a response so far
    DONE = "done"  #: acknowledged or failed


class BatchEvent(enum.Enum):
    SEAL = "seal"
    SENT = "sent"
    TRY_AGAIN = "try again"
    SETTLED = "settled"


_S = BatchState
_E = BatchEvent

BATCH_TRANSITIONS: Mapping[BatchState, Mapping[BatchEvent, BatchState]] = {
    _S.OPEN: {_E.SEAL: _S.SEALED, _E.SETTLED: _S.DONE},
    _S.SEALED: {_E.SENT: _S.IN_FLIGHT, _E.SETTLED: _S.DONE},
    _S.IN_FLIGHT: {_E.TRY_AGAIN: _S.SEALED, _E.SETTLED: _S.DONE},
    _S.DONE: {},
}


class RecordMetadata(NamedTuple):
    """Partition, offset and timestamp of an acknowledged record."""

    topic: str
    partition: int
    offset: int  #: -1 if an earlier attempt wrote the record and the broker no longer has its offset.
    timestamp: int  #: In ms since the epoch; the broker's, if the topic uses LogAppendTime.


@dataclass(slots=True, eq=False, repr=False)
class ProducerBatch:
    """Records of one partition that are sent together."""

    tp: TopicPartition
    deadline: float  #: The time (monotonic seconds) at which the batch fails unless it is acknowledged before.
    deadline_extended: bool = False
    state: BatchState = BatchState.OPEN
    #: A section has the encoded records of another log's batch; a batch with a section is never open.
    records: list[NewRecord] | RecordSection = field(default_factory=list)
    size: int = 0  #: Bytes counted against ``buffer_memory``: uncompressed, but of a section as encoded.
    base_sequence: int = NO_SEQUENCE
    encoded: bytes | None = None  #: The bytes that each attempt sends; None before the first, or when outdated.
    attempts: int = 0
    maybe_appended: bool = False  #: Whether the broker may have written the batch in an earlier attempt.
    last_error: KafkaError | None = None  #: The latest error, which the error of a timeout names as its cause.
    base_offset: int = -1
    append_time: int = -1
    count: int = 0  #: Number of records, set once the batch is done, since ``records`` is emptied.
    error: KafkaError | None = None
    record_errors: dict[int, KafkaError] = field(default_factory=dict)  #: Errors of single records by index (KIP-467).
    #: The batch with the second half of the records, if the broker rejected this batch as too large and it was split.
    split_tail: ProducerBatch | None = None
    #: The new batch and index of each record, if they were moved: metadata has arrived, or the partition count changed.
    moved: list[tuple[ProducerBatch, int]] | None = None
    #: Whether the records must stay in this partition, which the caller has chosen. Sections are always pinned. Other
    #: records for an uncounted topic with metadata never are; they are moved only if the topic becomes counted.
    is_pinned: bool = False
    #: The count by which the partition was chosen; -1 if the batch is pinned, or its topic not counted or not known.
    partition_count: int = -1

    def __repr__(self) -> str:
        return f"<Batch {self.tp.topic}-{self.tp.partition} {self.state.value}, {len(self)} records>"

    def __len__(self) -> int:
        if self.moved is not None:
            return len(self.moved)
        return self.count if self.state is BatchState.DONE else len(self.records)

    def move(self, event: BatchEvent) -> None:
        """Change the state; raise ``IllegalStateError`` if the event is impossible in the current state."""
        self.state = next_state(BATCH_TRANSITIONS, self.state, event, self)

    def acknowledge(self, base_offset: int, append_time: int) -> None:
        """Settle the batch as written. ``append_time`` is -1 if the topic keeps the records' own timestamps."""
        self.base_offset = base_offset
        self.append_time = append_time
        self.error = None  # Ctrl-C may have interrupted an earlier call of fail() after it had set an error
        self.record_errors = {}
        self._settle()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Settle the batch as failed: it was not written, or the outcome is unknown."""
        self.error = error
        self.record_errors = dict(record_errors or {})
        self._settle()

    def _settle(self) -> None:
        self.count = len(self.records)
        self.move(BatchEvent.SETTLED)
        # Free the records' memory: the application may keep a future, and with it this batch, for long.
        self.records = []
        self.encoded = None


@dataclass(slots=True, eq=False, repr=False)
class SendFuture:
    """The outcome of one record: once :attr:`done`, it has a result or an error."""

    batch: ProducerBatch  #: The batch that got the record; it may have been split or moved since.
    index: int
    _timestamp: int

    def __repr__(self) -> str:
        words = "under way" if not self.done else str(self.error or self.result())
        return f"<SendFuture {self.batch.tp.topic}-{self.batch.tp.partition}: {words}>"

    @property
    def done(self) -> bool:
        """Whether the record is acknowledged or has failed."""
        return self._locate()[0].state is BatchState.DONE

    @property
    def error(self) -> KafkaError | None:
        """Why the record failed; None if it is under way or acknowledged."""
        batch, index = self._locate()
        return batch.record_errors.get(index, batch.error)

    def result(self) -> RecordMetadata:
        """Return the record's partition, offset and timestamp, or raise the error of the record.

        Raises:
            IllegalStateError: the record is neither acknowledged nor failed yet.
        """
        batch, index = self._locate()
        if batch.state is not BatchState.DONE:
            where = f"{batch.tp.topic}-{batch.tp.partition}"
            raise IllegalStateError(f"the record for {where} is still under way: poll() or flush() the producer first")
        error = batch.record_errors.get(index, batch.error)
        if error is not None:
            raise error
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.append_time < 0 else batch.append_time
        return RecordMetadata(batch.tp.topic, batch.tp.partition, offset, timestamp)

    def _locate(self) -> tuple[ProducerBatch, int]:
        batch, index = self.batch, self.index
        while True:
            if batch.split_tail is not None and index >= (size := len(batch)):
                batch, index = batch.split_tail, index - size
            elif batch.moved is not None:
                batch, index = batch.moved[index]
            else:
                return batch, index


@dataclass(slots=True, eq=False)
class BatchFuture:
    """The outcome of a batch that was sent as a whole. Once :attr:`done`, it is acknowledged or has an error."""

    batch: ProducerBatch  #: The batch may have been split since. As it is pinned, its partition does not change.

    @property
    def done(self) -> bool:
        """Whether every record is acknowledged or has failed."""
        return all(part.state is BatchState.DONE for part in self._parts())

    @property
    def error(self) -> KafkaError | None:
        """Why records failed; None while no record has failed."""
        return next((part.error for part in self._parts() if part.error is not None), None)

    def _parts(self) -> Iterator[ProducerBatch]:
        part: ProducerBatch | None = self.batch
        while part is not None:
            yield part
            part = part.split_tail


#: Upper bound of a record's bytes besides key, value and headers: Java's MAX_RECORD_OVERHEAD.
RECORD_OVERHEAD = 21
#: Upper bound of a header's bytes besides name and value: two lengths.
HEADER_OVERHEAD = 10


def size_of(record: NewRecord) -> int:
    """Return an upper bound of a record's encoded size in bytes."""
    headers = sum(HEADER_OVERHEAD + len(name.encode()) + len(data or b"") for name, data in record.headers)
    return RECORD_OVERHEAD + len(record.value or b"") + len(record.key or b"") + headers


#: The highest epoch. After it, the partition needs a new producer id.
EPOCH_MAX = 2**15 - 1
#: Sequence numbers wrap from 2**31 - 1 to 0.
_SEQUENCE_MASK = 2**31 - 1

NO_ID = -1
#: The partition of records for which none is chosen yet, since their topic's metadata is not known.
UNKNOWN = -1


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """One partition's batches, oldest first, and its producer id, epoch and next sequence number.

    Java's producer has one epoch for all partitions. Here each partition has its own, which brokers accept: without
    transactions they keep producer state per partition.
    """

    tp: TopicPartition
    retry: Retry  #: Backoff before the next attempt to send the first batch.
    batches: deque[ProducerBatch] = field(default_factory=deque)
    producer_id: int = NO_ID
    epoch: int = -1
    next_sequence: int = 0

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Set a new producer id and begin at sequence 0."""
        self.producer_id, self.epoch, self.next_sequence = producer_id, epoch, 0

    def number(self, batch: ProducerBatch) -> None:
        """Set the batch's base sequence, unless it has one: a retry must have the same sequence numbers."""
        if batch.base_sequence == NO_SEQUENCE:
            following = (self.next_sequence + len(batch)) & _SEQUENCE_MASK
            # There must be no call between these statements, since Python handles Ctrl-C at calls: the next batch would
            # get the same sequence numbers, and the broker would drop it as a duplicate.
            batch.base_sequence = self.next_sequence
            self.next_sequence = following

    def take_back(self, batch: ProducerBatch) -> None:
        """Give up the sequence numbers of the first batch, which is not in the log: its records can be moved now."""
        self.next_sequence = batch.base_sequence
        batch.base_sequence, batch.encoded = NO_SEQUENCE, None

    @property
    def in_flight(self) -> bool:
        """Whether the first batch is in flight, so that no other may be sent."""
        return bool(self.batches) and self.batches[0].state is BatchState.IN_FLIGHT
