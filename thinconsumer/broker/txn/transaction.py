"""One transactional id: what is known of it, and the moves it can prepare and then make.

A move is prepared as a whole new set of :class:`Facts`; they are logged, and only once the log has them do they count
(:meth:`Transaction.complete`). Meanwhile :attr:`Transaction.pending` says where it is going. Knows no log and nobody
who waits. Follows Kafka's ``TransactionMetadata`` and ``TxnTransitMetadata`` in version 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...errors import IllegalStateError
from ...types import TopicPartition
from .states import TransactionEvent, TransactionState, next_state

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
EPOCH_MAX = 32_767
#: What a client has to speak for each of its transactions to get an epoch of its own (KIP-890).
EPOCH_PER_TRANSACTION = 2


def is_exhausted(epoch: int) -> bool:
    """Return whether no epoch is left to be given out; the very last is kept, to fence with."""
    return epoch >= EPOCH_MAX - 1


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """All that is known of a transactional id at a time. Times are milliseconds since the epoch, -1 for none."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    previous_producer_id: int = NO_PRODUCER_ID  #: The producer id before the last move.
    next_producer_id: int = NO_PRODUCER_ID  #: The one to go on with after this transaction: the epochs are used up.
    last_producer_epoch: int = NO_PRODUCER_EPOCH  #: The epoch that may be retried with; it is not logged.
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    client_version: int = 0  #: Kafka's transaction.version, as the client spoke it: 0 or 2.


class Transaction:
    """A transactional id on its coordinator. ``pending`` is the state that is being logged, if any."""

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self.pending: TransactionState | None = None

    def __repr__(self) -> str:
        going = f" to {self.pending.value}" if self.pending else ""
        producer = f"{self.metadata.producer_id}/{self.metadata.producer_epoch}"
        return f"<Transaction {self.transactional_id} {self.state.value}{going} {producer}>"

    @property
    def state(self) -> TransactionState:
        """Where it stands by the log."""
        return self.metadata.state

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to be given out."""
        return is_exhausted(self.metadata.producer_epoch)

    # -- preparing a move

    def prepare_init(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata | None:
        """Give the producer its next epoch; None when ``expected_epoch`` is that of a fenced one (KIP-360)."""
        metadata = self.metadata
        if self.is_exhausted:
            raise IllegalStateError(f"{self}: no epoch is left for producer id {metadata.producer_id}")
        epoch, last = metadata.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if metadata.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == metadata.producer_epoch:
                last = metadata.producer_epoch
            elif expected_epoch == metadata.last_producer_epoch:
                # Its answer was lost. Nobody else has come since, or the last epoch would have been forgotten.
                epoch, last = metadata.producer_epoch, metadata.last_producer_epoch
            else:
                return None
        return self._emptied(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def prepare_producer_id_rotation(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
    ) -> TransactionMetadata:
        """Give the producer another id, since this one's epochs are used up."""
        last = self.metadata.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._emptied(timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)

    def _emptied(self, timeout_ms: int, now_ms: int, **changes: Any) -> TransactionMetadata:
        return self._prepare(
            TransactionEvent.INITIALISED,
            timeout_ms=timeout_ms, partitions=frozenset(), started_ms=-1, updated_ms=now_ms, **changes,
        )  # fmt: skip

    def add(self, partitions: Iterable[TopicPartition], now_ms: int, client_version: int) -> TransactionMetadata:
        """Let partitions in; the first ones begin the transaction."""
        metadata = self.metadata
        return self._prepare(
            TransactionEvent.ADDED,
            partitions=metadata.partitions | frozenset(partitions),
            started_ms=metadata.started_ms if metadata.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def end(
        self, commit: bool, client_version: int, next_producer_id: int, now_ms: int, *, nothing_added: bool = False
    ) -> TransactionMetadata:
        """Decide the end; with KIP-890 the producer's epoch goes up, so that what comes late cannot get in."""
        metadata = self.metadata
        epoch, last = metadata.producer_epoch, metadata.last_producer_epoch
        if client_version >= EPOCH_PER_TRANSACTION:
            # Whoever somehow has the very last epoch can still come to an end, and goes on with another id.
            epoch, last = min(epoch + 1, EPOCH_MAX), epoch
        return self._prepare(
            TransactionEvent.COMMITTED if commit else TransactionEvent.ABORTED,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            started_ms=now_ms if nothing_added else metadata.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TransactionMetadata:
        """Be done, once every partition has its marker; here a producer gets its next id, if one was set aside."""
        metadata = self.metadata
        producer_id, epoch = metadata.producer_id, metadata.producer_epoch
        if metadata.client_version >= EPOCH_PER_TRANSACTION and metadata.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = metadata.next_producer_id, 0
        return self._prepare(
            TransactionEvent.MARKED,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def prepare_fence(self) -> None:
        """Shut the producer out, to abort what it left behind; the abort, which has to follow, raises the epoch."""
        if self.pending is not None:
            raise IllegalStateError(f"{self} cannot be fenced while another move is prepared")
        self.pending = next_state(self.metadata.state, TransactionEvent.FENCED, self)

    def expire(self) -> TransactionMetadata:
        """Be forgotten."""
        return self._prepare(TransactionEvent.EXPIRED, partitions=frozenset())

    def _prepare(self, event: TransactionEvent, **changes: Any) -> TransactionMetadata:
        metadata = self.metadata
        fenced = self.pending is TransactionState.PREPARE_EPOCH_FENCE
        if self.pending is not None and not fenced:
            raise IllegalStateError(f"{self}: {event.value!r} cannot be prepared while another move is")
        self.pending = next_state(TransactionState.PREPARE_EPOCH_FENCE if fenced else metadata.state, event, self)
        return replace(metadata, state=self.pending, previous_producer_id=metadata.producer_id, **changes)

    # -- and then

    def complete(self, metadata: TransactionMetadata) -> None:
        """Make the move that was prepared: the log has it.

        Raises:
            IllegalStateError: It is not the one that was prepared.
        """
        if self.pending is not metadata.state or metadata.previous_producer_id != self.metadata.producer_id:
            raise IllegalStateError(f"{self} cannot become {metadata}")
        self.metadata = metadata
        self.pending = None

    def cancel_transition(self) -> None:
        """Forget the move that was prepared: the log would not have it."""
        self.pending = None
