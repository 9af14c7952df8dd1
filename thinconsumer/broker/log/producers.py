"""What each producer has done in one log: its epoch, its last five batches, its open transaction.

Follows Kafka's ``ProducerAppendInfo``, ``ProducerStateEntry``, ``VerificationStateEntry`` and ``ProducerStateManager``.
Leaders ask first whether a batch may be appended; followers, and logs that are read anew, only take note.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ...wire.error_codes import Code
from .markers import marker_of
from .stored import SEQUENCE_MAX, AppendRefused, StoredBatch
from .transactions import LogTransactions

BATCHES_KEPT = 5


class BatchMetadata(NamedTuple):
    """A batch as its producer may send it again."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    timestamp: int


class ProducerStateEntry:
    """One producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp")

    def __init__(self) -> None:
        self.epoch = -1
        self.coordinator_epoch = -1  #: Of the last marker.
        self.timestamp = -1  #: Of its last batch, in milliseconds.
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        """Of its last batch in this epoch; -1 when there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    def update_epoch(self, epoch: int) -> None:
        """Sequence numbers begin anew in each epoch."""
        if self.epoch != epoch:
            self.batches.clear()
            self.epoch = epoch


class VerificationStateEntry(NamedTuple):
    """A coordinator was asked whether a producer may begin a transaction here; until it does, this is remembered."""

    epoch: int
    lowest_sequence: int  #: Of the batches that were asked for.
    is_strict: bool  #: Whether the producer is of the kind that begins at 0 wherever nobody knows it (KIP-890).
    started_ms: int  #: Milliseconds.


class ProducerStateManager:
    """All producers of a log that are not forgotten, and their transactions."""

    __slots__ = ("by_id", "transactions", "verifications")

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerStateEntry] = {}
        self.verifications: dict[int, VerificationStateEntry] = {}
        self.transactions = LogTransactions()

    # -- may it be appended

    def duplicate_of(self, batch: StoredBatch) -> BatchMetadata | None:
        """Return the same batch if it is one of the last that its producer sent."""
        known = self.by_id.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return None
        wanted = batch.base_sequence, batch.last_sequence
        for seen in known.batches:
            if (seen.first_sequence, seen.last_sequence) == wanted:
                return seen
        return None

    def check(self, batch: StoredBatch, from_client: bool) -> None:
        """Refuse what cannot be what the producer writes next.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE.
        """
        known = self.by_id.get(batch.producer_id)
        if known is None:
            if from_client:
                self._check_first(batch, is_known=False)
            return  # whatever else comes: its earlier batches may all have been deleted
        if batch.producer_epoch < known.epoch:
            raise _old_epoch(batch.producer_id, batch.producer_epoch, known.epoch)
        if from_client:
            self._check_first(batch, is_known=True)
            _check_sequence(batch, known)
        if batch.producer_id in self.transactions.ongoing and not batch.is_transactional:
            raise AppendRefused(
                Code.INVALID_TXN_STATE, f"producer {batch.producer_id} has a transaction open and wrote outside of it"
            )

    def _check_first(self, batch: StoredBatch, *, is_known: bool) -> None:
        """Refuse a batch that has overtaken the one that its transaction was to begin with."""
        verification = self.verifications.get(batch.producer_id)
        if verification is None:
            return
        limit = 0 if verification.is_strict and not is_known else verification.lowest_sequence
        if batch.base_sequence > limit:
            raise AppendRefused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent sequence number {batch.base_sequence}, and {limit} is missing",
            )

    def start_verification(self, producer_id: int, epoch: int, sequence: int, *, is_strict: bool, now_ms: int) -> None:
        """A coordinator is being asked about the producer's batch with this sequence number."""
        verification = self.verifications.get(producer_id)
        if verification is None:
            self.verifications[producer_id] = VerificationStateEntry(epoch, sequence, is_strict, now_ms)
        elif epoch > verification.epoch or (epoch == verification.epoch and sequence < verification.lowest_sequence):
            self.verifications[producer_id] = verification._replace(epoch=epoch, lowest_sequence=sequence)

    def would_begin_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a batch is the first of its transaction; one that is open in another epoch is another."""
        known = self.by_id.get(producer_id)
        return known is None or producer_epoch != known.epoch or producer_id not in self.transactions.ongoing

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Refuse what a coordinator must not write (any more).

        From transaction version 2 on (KIP-890) a transaction ends in an epoch of its own: one that is not above the
        last is late, unless it is the last marker once more.

        Raises:
            Refused: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        known = self.by_id.get(producer_id)
        if known is None:
            return
        too_old = producer_epoch < known.epoch
        if transaction_version >= 2 and producer_epoch == known.epoch:
            too_old = producer_id in self.transactions.ongoing
        if too_old:
            raise _old_epoch(producer_id, producer_epoch, known.epoch)
        if coordinator_epoch < known.coordinator_epoch:
            raise AppendRefused(
                Code.TRANSACTION_COORDINATOR_FENCED,
                f"a marker for producer {producer_id} came in coordinator epoch {coordinator_epoch}, "
                f"after one in epoch {known.coordinator_epoch}",
            )

    # -- what was appended

    def note(self, batch: StoredBatch) -> None:
        """A batch is in the log now."""
        if batch.producer_id < 0:
            return
        if batch.is_transactional and self.verifications:
            self.verifications.pop(batch.producer_id, None)
        if batch.is_control:
            self._note_marker(batch)
            return
        known = self._entry(batch.producer_id)
        known.update_epoch(batch.producer_epoch)
        known.timestamp = batch.max_timestamp
        known.batches.append(
            BatchMetadata(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.next_offset, batch.max_timestamp
            )
        )
        if batch.is_transactional and batch.producer_id not in self.transactions.ongoing:
            self.transactions.begin(batch.producer_id, batch.base_offset)

    def _note_marker(self, batch: StoredBatch) -> None:
        marker = marker_of(batch)
        if marker is None:
            return  # of KRaft's own, or emptied by compaction, when nothing of its transaction was left either
        known = self._entry(batch.producer_id)
        known.update_epoch(batch.producer_epoch)
        known.coordinator_epoch = marker.coordinator_epoch
        known.timestamp = marker.timestamp
        self.transactions.end(batch.producer_id, batch.last_offset, marker.is_abort)

    def _entry(self, producer_id: int) -> ProducerStateEntry:
        known = self.by_id.get(producer_id)
        if known is None:
            known = self.by_id[producer_id] = ProducerStateEntry()
        return known

    def rebuild(self, batches: Iterable[StoredBatch]) -> None:
        """Forget everything, then learn it again from these."""
        self.by_id = {}
        self.transactions = LogTransactions()
        for batch in batches:
            self.note(batch)

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget those that have not written for so long and have no transaction open."""
        ongoing = self.transactions.ongoing
        for producer_id, known in list(self.by_id.items()):
            if producer_id not in ongoing and now_ms - known.timestamp >= after_ms:
                del self.by_id[producer_id]
        for producer_id, verification in list(self.verifications.items()):
            if now_ms - verification.started_ms >= after_ms:
                del self.verifications[producer_id]


def _check_sequence(batch: StoredBatch, known: ProducerStateEntry) -> None:
    if known.epoch < 0:
        return
    expected = (known.last_sequence + 1) & SEQUENCE_MAX if batch.producer_epoch == known.epoch else 0
    if batch.base_sequence != expected:
        raise AppendRefused(
            Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {batch.producer_id} sent sequence number {batch.base_sequence} in epoch {batch.producer_epoch}, "
            f"where {expected} had to come (epoch {known.epoch}, last sequence number {known.last_sequence})",
        )


def _old_epoch(producer_id: int, epoch: int, last: int) -> AppendRefused:
    return AppendRefused(
        Code.INVALID_PRODUCER_EPOCH, f"producer {producer_id} wrote in epoch {epoch}, and epoch {last} was seen already"
    )
