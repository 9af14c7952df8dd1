"""Producer state of one log: each producer id's epoch and last five batches, and the transactions.

Follows Kafka's ``ProducerAppendInfo``, ``ProducerStateEntry``, ``VerificationStateEntry``, ``ProducerStateManager`` and
``TransactionIndex``. A leader checks a batch before the append. On a follower, and when a log is loaded, batches only
update the state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from thinconsumer.wire.error_codes import Code

from .markers import marker_of
from .stored import SEQUENCE_MAX, AppendRefused, StoredBatch

BATCHES_KEPT = 5


class CompletedTransaction(NamedTuple):
    """A transaction that has ended: its marker is in the log."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int  #: The last stable offset after this transaction was completed.


@dataclass(slots=True, eq=False)
class LogTransactions:
    """Ongoing transactions by producer id; and completed ones, of which the aborted ones are also listed on their own,
    in the order of their markers' offsets.
    """

    #: The first offset of each ongoing transaction by producer id, in ascending order of offsets.
    ongoing: dict[int, int] = field(default_factory=dict)
    completed: list[CompletedTransaction] = field(default_factory=list)
    aborted: list[CompletedTransaction] = field(default_factory=list)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add an ongoing transaction of a producer; its first batch begins at ``first_offset``."""
        self.ongoing[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, is_abort: bool) -> None:
        """Complete the producer's ongoing transaction at the marker's offset; without a transaction, do nothing."""
        first = self.ongoing.pop(producer_id, None)
        if first is None:
            return
        stable = next(iter(self.ongoing.values()), marker_offset + 1)
        ended = CompletedTransaction(producer_id, first, marker_offset, stable)
        self.completed.append(ended)
        if is_abort:
            self.aborted.append(ended)

    def first_unstable(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction without a marker below the high watermark, if any."""
        at = bisect_left(self.completed, high_watermark, key=_marker_offset)
        unstable = [one.first_offset for one in self.completed[at:]]
        if self.ongoing:
            unstable.append(next(iter(self.ongoing.values())))
        return min(unstable, default=None)

    def aborted_in(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions that may have batches in [``start``, ``end``), in
        the order of their markers.
        """
        found = []
        for one in self.aborted[bisect_left(self.aborted, start, key=_marker_offset) :]:
            if one.first_offset < end:
                found.append((one.producer_id, one.first_offset))
            if one.last_stable_offset >= end:
                break  # all transactions that were completed later began at or after ``end``
        return found

    def forget_before(self, start: int) -> None:
        """Remove the completed transactions with markers below the new log start offset."""
        for index in (self.completed, self.aborted):
            del index[: bisect_left(index, start, key=_marker_offset)]


def _marker_offset(ended: CompletedTransaction) -> int:
    return ended.marker_offset


class BatchMetadata(NamedTuple):
    """Sequence numbers and offsets of a recent batch, by which a retry of the batch is recognised."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    next_offset: int
    timestamp: int


@dataclass(slots=True, eq=False)
class ProducerStateEntry:
    epoch: int = -1
    coordinator_epoch: int = -1  #: Coordinator epoch of the last transaction marker.
    timestamp: int = -1  #: Timestamp of the producer's last batch or marker in milliseconds.
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the producer in its current epoch; -1 if it has no batch in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1

    def update_epoch(self, epoch: int) -> None:
        """Set the epoch; a new epoch starts with sequence number 0."""
        if self.epoch != epoch:
            self.batches.clear()
            self.epoch = epoch


class VerificationStateEntry(NamedTuple):
    """A producer's transaction that the coordinator verifies before its first append to this log (KIP-890)."""

    epoch: int
    lowest_sequence: int  #: Lowest sequence number of the batches being verified.
    #: Whether a producer id that this log does not know must start with sequence number 0 (clients with KIP-890).
    is_strict: bool
    started_ms: int  #: Start of the verification in milliseconds.


@dataclass(slots=True, eq=False)
class ProducerStateManager:
    """The state of all producers of a log that have not expired, and of their transactions."""

    by_id: defaultdict[int, ProducerStateEntry] = field(default_factory=lambda: defaultdict(ProducerStateEntry))
    verifications: dict[int, VerificationStateEntry] = field(default_factory=dict)
    transactions: LogTransactions = field(default_factory=LogTransactions)

    def duplicate_of(self, batch: StoredBatch) -> BatchMetadata | None:
        """Return which of its producer's last five batches ``batch`` repeats; None if it repeats none of them."""
        known = self.by_id.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return None
        sequences = batch.base_sequence, batch.last_sequence
        for seen in known.batches:
            if (seen.first_sequence, seen.last_sequence) == sequences:
                return seen
        return None

    def check(self, batch: StoredBatch, from_client: bool) -> None:
        """Check that a batch continues its producer's epoch, transaction and (with ``from_client``) sequence numbers.

        Raises:
            AppendRefused: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE.
        """
        known = self.by_id.get(batch.producer_id)
        if known is None:
            if from_client:
                self._check_first(batch, is_known=False)
            # Without a verification, an unknown producer id may begin with any sequence number: its earlier batches may
            # have been deleted.
            return
        if batch.producer_epoch < known.epoch:
            raise _old_epoch(batch.producer_id, batch.producer_epoch, known.epoch)
        if from_client:
            self._check_first(batch, is_known=True)
            _check_sequence(batch, known)
        if batch.producer_id in self.transactions.ongoing and not batch.is_transactional:
            raise AppendRefused(
                Code.INVALID_TXN_STATE,
                f"producer {batch.producer_id} sent a non-transactional batch during its transaction",
            )

    def _check_first(self, batch: StoredBatch, *, is_known: bool) -> None:
        """Reject a batch that has a higher sequence number than the lowest one under verification (than 0 for an
        unknown producer id with ``is_strict``): an earlier batch must be appended first. Raises: AppendRefused.
        """
        verification = self.verifications.get(batch.producer_id)
        if verification is None:
            return
        limit = 0 if verification.is_strict and not is_known else verification.lowest_sequence
        if batch.base_sequence > limit:
            raise AppendRefused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent sequence number {batch.base_sequence}, but must begin with {limit}",
            )

    def start_verification(self, producer_id: int, epoch: int, sequence: int, *, is_strict: bool, now_ms: int) -> None:
        """Record that the transaction coordinator verifies a batch before its append.

        Until the append the log rejects batches of this producer with a higher sequence number. With ``is_strict``, a
        producer id that this log does not know must start with sequence number 0.
        """
        verification = self.verifications.get(producer_id)
        if verification is None:
            self.verifications[producer_id] = VerificationStateEntry(epoch, sequence, is_strict, now_ms)
        elif epoch > verification.epoch or (epoch == verification.epoch and sequence < verification.lowest_sequence):
            self.verifications[producer_id] = verification._replace(epoch=epoch, lowest_sequence=sequence)

    def would_begin_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a transactional batch of this producer would be the first of its transaction in this log.

        The transaction coordinator must verify such a batch (KIP-890). An ongoing transaction that the producer began
        with another epoch is another transaction.
        """
        known = self.by_id.get(producer_id)
        return known is None or producer_epoch != known.epoch or producer_id not in self.transactions.ongoing

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check that a transaction marker is not outdated.

        From transaction version 2 on (KIP-890) every marker has a higher producer epoch than its transaction. A marker
        of this version that has the producer's current epoch is therefore rejected during a transaction. Afterwards it
        is accepted, as it repeats the last marker.

        Raises:
            AppendRefused: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
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
                f"a transaction marker for producer {producer_id} has coordinator epoch {coordinator_epoch}, "
                f"below epoch {known.coordinator_epoch} of the last marker",
            )

    def note(self, batch: StoredBatch) -> None:
        """Update the producer's state and transaction by a batch that was appended."""
        if batch.producer_id < 0:
            return
        if batch.is_transactional and self.verifications:
            self.verifications.pop(batch.producer_id, None)
        if batch.is_control:
            self._note_marker(batch)
            return
        known = self.by_id[batch.producer_id]
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
            return  # another control record, or a marker without its record, which compaction has removed
        known = self.by_id[batch.producer_id]
        known.update_epoch(batch.producer_epoch)
        known.coordinator_epoch = marker.coordinator_epoch
        known.timestamp = marker.timestamp
        self.transactions.end(batch.producer_id, batch.last_offset, marker.is_abort)

    def rebuild(self, batches: Iterable[StoredBatch]) -> None:
        """Rebuild the state from these batches, which remain after a truncation of the log."""
        self.by_id.clear()
        self.transactions = LogTransactions()
        for batch in batches:
            self.note(batch)

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Remove the producers without an ongoing transaction whose last batch or marker is at least ``after_ms`` old.

        Verifications of this age are removed, too.
        """
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
            f"but {expected} was expected (epoch {known.epoch}, last sequence number {known.last_sequence})",
        )


def _old_epoch(producer_id: int, epoch: int, last: int) -> AppendRefused:
    return AppendRefused(
        Code.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {last}; epoch {epoch} is fenced"
    )
