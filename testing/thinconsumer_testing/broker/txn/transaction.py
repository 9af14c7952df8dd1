"""One transactional id: its metadata, and the transitions that it can prepare and complete.

A transition is prepared as a new :class:`TransactionMetadata`, which takes effect once it is in the log
(:meth:`Transaction.complete`). Until then :attr:`Transaction.pending` is its target state. ``shard`` writes the log,
``transitions`` decides on requests. Follows Kafka 4.3's ``TransactionMetadata`` and ``TxnTransitMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition

from ..group.states import next_state
from .states import TRANSITIONS, TransactionEvent, TransactionState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
EPOCH_MAX = 32_767
#: The transaction.version from which on each transaction has a new producer epoch (KIP-890).
EPOCH_PER_TRANSACTION = 2


def is_exhausted(epoch: int) -> bool:
    """Return whether a producer id with this epoch has no further epoch; the highest one is reserved for fencing."""
    return epoch >= EPOCH_MAX - 1


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of a transactional id, as it is logged. ``updated_ms`` and ``started_ms`` are Unix time; -1 is none."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    previous_producer_id: int = NO_PRODUCER_ID  #: The producer id before the last transition.
    #: The producer id for the next transaction if the epochs of the current id are exhausted, else -1.
    next_producer_id: int = NO_PRODUCER_ID
    #: The producer's previous epoch, which is not logged. InitProducerId with this epoch is a retry.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    client_version: int = 0  #: The client's transaction.version: 0 or 2.


class Transaction:
    """A transactional id on its coordinator; ``pending`` is the target state of a transition being logged, or None."""

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
        """The transaction's state, in which it stays until a pending transition takes effect."""
        return self.metadata.state

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to assign."""
        return is_exhausted(self.metadata.producer_epoch)

    def prepare_init(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata | None:
        """Prepare a transition that assigns the producer's next epoch, or the current epoch again to a retry.

        The producer id must have a next epoch. ``expected_epoch`` (KIP-360) is the epoch in the request, or None.
        Return None if request and producer have an epoch, and that of the request is neither the producer's current nor
        its previous one: the request must be rejected as fenced.
        """
        metadata = self.metadata
        epoch, last = metadata.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if metadata.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == metadata.producer_epoch:
                last = metadata.producer_epoch
            elif expected_epoch == metadata.last_producer_epoch:
                # The producer still has its previous epoch, because the response with the current epoch was lost: the
                # retried InitProducerId gets the current epoch again.
                epoch, last = metadata.producer_epoch, metadata.last_producer_epoch
            else:
                return None
        return self._emptied(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def prepare_producer_id_rotation(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
    ) -> TransactionMetadata:
        """Prepare a transition that assigns a new producer id, because the epochs of the current one are exhausted.

        With ``keep_last_epoch`` the old id's epoch becomes the last epoch, so that InitProducerId with it is a retry.
        """
        last = self.metadata.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._emptied(timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)

    def _emptied(self, timeout_ms: int, now_ms: int, **changes: Any) -> TransactionMetadata:
        return self._prepare(
            TransactionEvent.INITIALISED,
            timeout_ms=timeout_ms, partitions=frozenset(), started_ms=-1, updated_ms=now_ms, **changes,
        )  # fmt: skip

    def add(self, partitions: Iterable[TopicPartition], now_ms: int, client_version: int) -> TransactionMetadata:
        """Prepare a transition that adds partitions, and begins a transaction if none is ongoing."""
        metadata = self.metadata
        return self._prepare(
            TransactionEvent.ADDED,
            partitions=metadata.partitions | frozenset(partitions),
            started_ms=metadata.started_ms if metadata.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def end(
        self,
        commit: bool,
        client_version: int,
        next_producer_id: int,
        now_ms: int,
        *,
        is_without_partitions: bool = False,
    ) -> TransactionMetadata:
        """Prepare the transition to PrepareCommit or PrepareAbort.

        For clients with KIP-890 the transition increments the producer epoch, so that late writes of the transaction
        are fenced. With ``is_without_partitions`` no transaction is ongoing, so ``now_ms`` also becomes the start time.
        """
        metadata = self.metadata
        epoch, last = metadata.producer_epoch, metadata.last_producer_epoch
        if client_version >= EPOCH_PER_TRANSACTION:
            # A transaction with the highest epoch can still be ended; the next transaction gets another producer id.
            epoch, last = min(epoch + 1, EPOCH_MAX), epoch
        return self._prepare(
            TransactionEvent.COMMITTED if commit else TransactionEvent.ABORTED,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            started_ms=now_ms if is_without_partitions else metadata.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TransactionMetadata:
        """Prepare the completed state, since all markers are written. A next producer id replaces the current one."""
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
        """Set the pending state PrepareEpochFence, the first step of an abort that the producer has not requested.

        The caller must then call :meth:`end` with :data:`EPOCH_PER_TRANSACTION`, so that the producer epoch increases.
        """
        if self.pending is not None:
            raise IllegalStateError(f"{self} cannot be fenced while another transition is pending")
        self.pending = next_state(TRANSITIONS, self.metadata.state, TransactionEvent.FENCED, self)

    def expire(self) -> TransactionMetadata:
        """Prepare the transition to Dead: the transactional id has expired, and is to be removed."""
        return self._prepare(TransactionEvent.EXPIRED, partitions=frozenset())

    def _prepare(self, event: TransactionEvent, **changes: Any) -> TransactionMetadata:
        metadata = self.metadata
        if self.pending not in (None, TransactionState.PREPARE_EPOCH_FENCE):
            raise IllegalStateError(f"{self} cannot prepare {event.value!r} while another transition is pending")
        self.pending = next_state(TRANSITIONS, self.pending or metadata.state, event, self)
        return replace(metadata, state=self.pending, previous_producer_id=metadata.producer_id, **changes)

    def complete(self, metadata: TransactionMetadata) -> None:
        """Let the prepared transition take effect: ``metadata`` is in the log. Raise IllegalStateError if its state or
        previous producer id does not match the prepared transition.
        """
        if self.pending is not metadata.state or metadata.previous_producer_id != self.metadata.producer_id:
            raise IllegalStateError(f"{self} cannot complete a transition that was not prepared: {metadata}")
        self.metadata = metadata
        self.pending = None

    def cancel_transition(self) -> None:
        """Discard the prepared transition: it could not be logged."""
        self.pending = None
