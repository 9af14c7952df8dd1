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
class Facts:
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

    def __init__(self, transactional_id: str, facts: Facts) -> None:
        self.transactional_id = transactional_id
        self.facts = facts
        self.pending: TransactionState | None = None

    def __repr__(self) -> str:
        going = f" to {self.pending.value}" if self.pending else ""
        producer = f"{self.facts.producer_id}/{self.facts.producer_epoch}"
        return f"<Transaction {self.transactional_id} {self.state.value}{going} {producer}>"

    @property
    def state(self) -> TransactionState:
        """Where it stands by the log."""
        return self.facts.state

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to be given out."""
        return is_exhausted(self.facts.producer_epoch)

    # -- preparing a move

    def initialise(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Facts | None:
        """Give the producer its next epoch; None when ``expected_epoch`` is that of a fenced one (KIP-360)."""
        facts = self.facts
        if self.is_exhausted:
            raise IllegalStateError(f"{self}: no epoch is left for producer id {facts.producer_id}")
        epoch, last = facts.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if facts.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == facts.producer_epoch:
                last = facts.producer_epoch
            elif expected_epoch == facts.last_producer_epoch:
                # Its answer was lost. Nobody else has come since, or the last epoch would have been forgotten.
                epoch, last = facts.producer_epoch, facts.last_producer_epoch
            else:
                return None
        return self._emptied(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def rotate(self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool) -> Facts:
        """Give the producer another id, since this one's epochs are used up."""
        last = self.facts.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._emptied(timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last)

    def _emptied(self, timeout_ms: int, now_ms: int, **changes: Any) -> Facts:
        return self._prepare(
            TransactionEvent.INITIALISED,
            timeout_ms=timeout_ms, partitions=frozenset(), started_ms=-1, updated_ms=now_ms, **changes,
        )  # fmt: skip

    def add(self, partitions: Iterable[TopicPartition], now_ms: int, client_version: int) -> Facts:
        """Let partitions in; the first ones begin the transaction."""
        facts = self.facts
        return self._prepare(
            TransactionEvent.ADDED,
            partitions=facts.partitions | frozenset(partitions),
            started_ms=facts.started_ms if facts.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def end(
        self, commit: bool, client_version: int, next_producer_id: int, now_ms: int, *, nothing_added: bool = False
    ) -> Facts:
        """Decide the end; with KIP-890 the producer's epoch goes up, so that what comes late cannot get in."""
        facts = self.facts
        epoch, last = facts.producer_epoch, facts.last_producer_epoch
        if client_version >= EPOCH_PER_TRANSACTION:
            # Whoever somehow has the very last epoch can still come to an end, and goes on with another id.
            epoch, last = min(epoch + 1, EPOCH_MAX), epoch
        return self._prepare(
            TransactionEvent.COMMITTED if commit else TransactionEvent.ABORTED,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            started_ms=now_ms if nothing_added else facts.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def finish(self, now_ms: int) -> Facts:
        """Be done, once every partition has its marker; here a producer gets its next id, if one was set aside."""
        facts = self.facts
        producer_id, epoch = facts.producer_id, facts.producer_epoch
        if facts.client_version >= EPOCH_PER_TRANSACTION and facts.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = facts.next_producer_id, 0
        return self._prepare(
            TransactionEvent.MARKED,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def fence(self) -> None:
        """Shut the producer out, to abort what it left behind; the abort, which has to follow, raises the epoch."""
        if self.pending is not None:
            raise IllegalStateError(f"{self} cannot be fenced while another move is prepared")
        self.pending = next_state(self.facts.state, TransactionEvent.FENCED, self)

    def expire(self) -> Facts:
        """Be forgotten."""
        return self._prepare(TransactionEvent.EXPIRED, partitions=frozenset())

    def _prepare(self, event: TransactionEvent, **changes: Any) -> Facts:
        facts = self.facts
        fenced = self.pending is TransactionState.PREPARE_EPOCH_FENCE
        if self.pending is not None and not fenced:
            raise IllegalStateError(f"{self}: {event.value!r} cannot be prepared while another move is")
        self.pending = next_state(TransactionState.PREPARE_EPOCH_FENCE if fenced else facts.state, event, self)
        return replace(facts, state=self.pending, previous_producer_id=facts.producer_id, **changes)

    # -- and then

    def complete(self, facts: Facts) -> None:
        """Make the move that was prepared: the log has it.

        Raises:
            IllegalStateError: It is not the one that was prepared.
        """
        if self.pending is not facts.state or facts.previous_producer_id != self.facts.producer_id:
            raise IllegalStateError(f"{self} cannot become {facts}")
        self.facts = facts
        self.pending = None

    def give_up(self) -> None:
        """Forget the move that was prepared: the log would not have it."""
        self.pending = None
