"""Batches on their way, and the receipts of the records in them.

Owns what becomes of a record: a batch is settled once, as a whole, and with it every receipt of its records. Knows
nothing of brokers, sequences or time limits. After Java's ``ProducerBatch`` and ``FutureRecordMetadata``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ..connection.states import next_state
from ..errors import IllegalStateError, KafkaError
from ..records.builder import NewRecord
from ..types import TopicPartition

#: Of a batch that has no sequence number yet, or has to get a new one.
NO_SEQUENCE = -1


class BatchState(enum.Enum):
    """How far a batch has come."""

    OPEN = "open"  #: takes records
    SEALED = "sealed"  #: full, or about to be sent, or to be sent again: takes none any more
    IN_FLIGHT = "in flight"  #: written, and not answered
    DONE = "done"  #: acknowledged or failed


class BatchEvent(enum.Enum):
    """What can happen to a batch."""

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
    """Where an acknowledged record is."""

    topic: str
    partition: int
    offset: int  #: -1: written before, at an offset that the broker has forgotten.
    timestamp: int  #: Milliseconds since the epoch; the broker's, where it stamps records itself.


class ProducerBatch:
    """Records of one partition that are written together."""

    __slots__ = (
        "append_time",
        "attempts",
        "base_offset",
        "base_sequence",
        "count",
        "data",
        "deadline",
        "error",
        "in_doubt",
        "last_error",
        "record_errors",
        "records",
        "reprieved",
        "rest",
        "size",
        "state",
        "tp",
    )  # fmt: skip

    def __init__(self, tp: TopicPartition, deadline: float) -> None:
        self.tp = tp
        self.state = BatchState.OPEN
        self.records: list[NewRecord] = []
        self.size = 0  #: Upper bound of its bytes, uncompressed.
        self.deadline = deadline  #: Settled by then.
        self.reprieved = False  #: The deadline has been moved, which happens once.
        self.base_sequence = NO_SEQUENCE
        self.data: bytes | None = None  #: As it is written, while a sequence number is given.
        self.attempts = 0
        #: An attempt may have been appended although nobody said so.
        self.in_doubt = False
        self.last_error: KafkaError | None = None  #: Of the last attempt, for the message of a timeout.
        self.base_offset = -1
        self.append_time = -1
        self.count = 0  #: Of records, once it is done.
        self.error: KafkaError | None = None  #: Why it failed.
        self.record_errors: dict[int, KafkaError] = {}  #: By place, where the broker blames single ones.
        self.rest: ProducerBatch | None = None  #: Where the later records are, after a split.

    def __repr__(self) -> str:
        return f"<Batch {self.tp.topic}-{self.tp.partition} {self.state.value}, {len(self)} records>"

    def __len__(self) -> int:
        return self.count if self.state is BatchState.DONE else len(self.records)

    def move(self, event: BatchEvent) -> None:
        """Go to the next state.

        Raises:
            IllegalStateError: the event makes no sense in this one.
        """
        after = next_state(BATCH_TRANSITIONS, {}, self.state, event, self)
        assert after is not None  # nothing is ignored
        self.state = after

    def acknowledge(self, base_offset: int, append_time: int) -> None:
        """Settle: it is written. ``append_time`` is -1 where records keep their own timestamps."""
        self.base_offset = base_offset
        self.append_time = append_time
        self.error = None  # it may have been about to fail when a Ctrl-C came
        self.record_errors = {}
        self._settle()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Settle: it is not written, or nobody knows."""
        self.error = error
        self.record_errors = dict(record_errors or {})
        self._settle()

    def _settle(self) -> None:
        self.count = len(self.records)
        self.move(BatchEvent.SETTLED)
        # Receipts may be kept for long, and with them this batch: not its bytes, too.
        self.records = []
        self.data = None


class Receipt:
    """What becomes of one record: :attr:`done` turns true once, with a result or an error, and nothing changes then."""

    __slots__ = ("_timestamp", "batch", "index")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self.batch = batch  #: Where the record was put; its own until a split, see :meth:`_find`.
        self.index = index
        self._timestamp = timestamp

    def __repr__(self) -> str:
        words = "under way" if not self.done else str(self.error or self.result())
        return f"<Receipt {self.batch.tp.topic}-{self.batch.tp.partition}: {words}>"

    @property
    def done(self) -> bool:
        """Whether the record is acknowledged or has failed."""
        return self._find()[0].state is BatchState.DONE

    @property
    def error(self) -> KafkaError | None:
        """Why it failed; None while it is under way, and when it is acknowledged."""
        batch, index = self._find()
        return batch.record_errors.get(index, batch.error)

    def result(self) -> RecordMetadata:
        """Return where the record is, or raise why it failed.

        Raises:
            IllegalStateError: it is still under way.
        """
        batch, index = self._find()
        if batch.state is not BatchState.DONE:
            raise IllegalStateError("the record is still under way: poll() or flush() the producer first")
        error = batch.record_errors.get(index, batch.error)
        if error is not None:
            raise error
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.append_time < 0 else batch.append_time
        return RecordMetadata(batch.tp.topic, batch.tp.partition, offset, timestamp)

    def _find(self) -> tuple[ProducerBatch, int]:
        batch, index = self.batch, self.index
        while batch.rest is not None and index >= (size := len(batch)):
            batch, index = batch.rest, index - size
        return batch, index


def failed_batch(tp: TopicPartition, error: KafkaError) -> ProducerBatch:
    """Return a batch that has failed, for a record that never got into one."""
    batch = ProducerBatch(tp, 0.0)
    batch.fail(error)
    batch.count = 1
    return batch
