"""Record batches and the futures of their records.

A batch is settled once, as a whole, and every future of its records with it. Knows nothing of brokers, sequences or
timeouts. After Java's ``ProducerBatch`` and ``FutureRecordMetadata``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..connection.states import next_state
from ..errors import IllegalStateError, KafkaError
from ..records.builder import NewRecord
from ..types import TopicPartition

#: The base sequence of a batch that has no sequence numbers yet, or has to get new ones.
NO_SEQUENCE = -1


class BatchState(enum.Enum):
    """How far a batch has come."""

    OPEN = "open"  #: accepts records
    SEALED = "sealed"  #: accepts no more records; waits to be sent, for the first time or again
    IN_FLIGHT = "in flight"  #: sent, and no response yet
    DONE = "done"  #: acknowledged or failed


class BatchEvent(enum.Enum):
    """An event in the life of a batch."""

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
    """The position of an acknowledged record."""

    topic: str
    partition: int
    offset: int  #: -1 if an earlier attempt wrote the record at an offset that the broker no longer remembers.
    timestamp: int  #: In ms since the epoch; the broker's, if the topic uses LogAppendTime.


@dataclass(slots=True, eq=False, repr=False)
class ProducerBatch:
    """Records of one partition that are sent together."""

    tp: TopicPartition
    deadline: float  #: The batch is settled by then.
    deadline_extended: bool = False  #: A deadline is extended at most once.
    state: BatchState = BatchState.OPEN
    records: list[NewRecord] = field(default_factory=list)
    size: int = 0  #: Upper bound of the uncompressed bytes.
    base_sequence: int = NO_SEQUENCE
    encoded: bytes | None = None  #: The bytes sent under this base sequence.
    attempts: int = 0
    maybe_appended: bool = False  #: An attempt without a clear answer may have been appended to the log.
    last_error: KafkaError | None = None  #: Of the last attempt, for the message of a timeout.
    base_offset: int = -1
    append_time: int = -1
    count: int = 0  #: Number of records, once the batch is done.
    error: KafkaError | None = None
    record_errors: dict[int, KafkaError] = field(default_factory=dict)  #: By index in the batch (KIP-467).
    split_tail: ProducerBatch | None = None  #: The later records of a split batch.

    def __repr__(self) -> str:
        return f"<Batch {self.tp.topic}-{self.tp.partition} {self.state.value}, {len(self)} records>"

    def __len__(self) -> int:
        return self.count if self.state is BatchState.DONE else len(self.records)

    def move(self, event: BatchEvent) -> None:
        """Change the state; raise ``IllegalStateError`` if the event is impossible in it."""
        after = next_state(BATCH_TRANSITIONS, {}, self.state, event, self)
        assert after is not None  # no event is ignored
        self.state = after

    def acknowledge(self, base_offset: int, append_time: int) -> None:
        """Settle as written. ``append_time`` is -1 if the topic keeps the records' own timestamps."""
        self.base_offset = base_offset
        self.append_time = append_time
        self.error = None  # set if Ctrl-C interrupted fail()
        self.record_errors = {}
        self._settle()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Settle as not written, or not known to be."""
        self.error = error
        self.record_errors = dict(record_errors or {})
        self._settle()

    def _settle(self) -> None:
        self.count = len(self.records)
        self.move(BatchEvent.SETTLED)
        # The application may keep futures, and so this batch, for long: free the records' memory.
        self.records = []
        self.encoded = None


class SendFuture:
    """The outcome of one sent record: :attr:`done` becomes true once, with a result or an error."""

    __slots__ = ("_timestamp", "batch", "index")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self.batch = batch  #: The batch that the record was appended to; after a split it may be in a tail of this one.
        self.index = index
        self._timestamp = timestamp

    def __repr__(self) -> str:
        words = "under way" if not self.done else str(self.error or self.result())
        return f"<SendFuture {self.batch.tp.topic}-{self.batch.tp.partition}: {words}>"

    @property
    def done(self) -> bool:
        """Whether the record is acknowledged or has failed."""
        return self._locate()[0].state is BatchState.DONE

    @property
    def error(self) -> KafkaError | None:
        """Why the record failed; None while it is under way and once it is acknowledged."""
        batch, index = self._locate()
        return batch.record_errors.get(index, batch.error)

    def result(self) -> RecordMetadata:
        """Return the record's position, or raise why it failed.

        Raises:
            IllegalStateError: the record is still under way.
        """
        batch, index = self._locate()
        if batch.state is not BatchState.DONE:
            raise IllegalStateError("the record is still under way: poll() or flush() the producer first")
        error = batch.record_errors.get(index, batch.error)
        if error is not None:
            raise error
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.append_time < 0 else batch.append_time
        return RecordMetadata(batch.tp.topic, batch.tp.partition, offset, timestamp)

    def _locate(self) -> tuple[ProducerBatch, int]:
        batch, index = self.batch, self.index
        while batch.split_tail is not None and index >= (size := len(batch)):
            batch, index = batch.split_tail, index - size
        return batch, index


def failed_batch(tp: TopicPartition, error: KafkaError) -> ProducerBatch:
    """Return a failed batch of one record, for a record that was never appended to a batch."""
    batch = ProducerBatch(tp, 0.0)
    batch.fail(error)
    batch.count = 1
    return batch
