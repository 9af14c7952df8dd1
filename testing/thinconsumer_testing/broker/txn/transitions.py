"""Decides which transition a request causes in its transaction, or with which error code it is rejected.

The functions neither log nor send anything. The order of the checks is Kafka's, as clients depend on it. There are two
protocols to end a transaction: before KIP-890 the producer epoch stays the same; since then each EndTxn increments it.
So when a transaction has ended, EndTxn with the previous epoch is a retry, and with the current one a new request.
Follows Kafka 4.3's ``TransactionCoordinator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from thinconsumer.errors import IllegalStateError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from .states import IDLE_STATES, PREPARED_STATES, TransactionState
from .transaction import (
    EPOCH_MAX,
    EPOCH_PER_TRANSACTION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionMetadata,
    is_exhausted,
)

#: The transition to log, or the error code (or NONE) with which to respond immediately.
Decision = TransactionMetadata | Code
NewProducerId = Callable[[], int]

_S = TransactionState


class ProducerIdAndEpoch(NamedTuple):
    id: int
    epoch: int


def on_init_producer_id(
    txn: Transaction, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int, new_producer_id: NewProducerId
) -> Decision:
    """Decide on InitProducerId: assign a producer epoch or, during a transaction, abort the transaction first.

    The abort begins with a transition to PrepareAbort. The producer must repeat InitProducerId when the abort is over.
    """
    if txn.pending is not None:
        return Code.CONCURRENT_TRANSACTIONS
    if expected is not None and not _is_known(txn, expected):
        return Code.PRODUCER_FENCED
    if txn.state in PREPARED_STATES:
        return Code.CONCURRENT_TRANSACTIONS
    if txn.state is _S.ONGOING:
        return prepare_abort_unrequested(txn, now_ms, new_producer_id)
    if txn.state not in IDLE_STATES:
        raise IllegalStateError(f"{txn} cannot assign a producer id in state {txn.state.value}")
    if txn.is_exhausted and (expected is None or expected.epoch == txn.metadata.producer_epoch):
        return txn.prepare_producer_id_rotation(
            new_producer_id(), timeout_ms, now_ms, keep_last_epoch=expected is not None
        )
    if txn.is_exhausted:
        # The request has another epoch than the exhausted producer id: Kafka throws an IllegalStateException here.
        return Code.UNKNOWN_SERVER_ERROR
    return txn.prepare_init(timeout_ms, None if expected is None else expected.epoch, now_ms) or Code.PRODUCER_FENCED


def _is_known(txn: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Return whether the request has the current producer id, or the previous one with its epochs exhausted.

    A producer with the previous id has not received the response that replaced its id. Before the first epoch is
    assigned, any id is accepted.
    """
    metadata = txn.metadata
    return (
        metadata.producer_epoch == NO_PRODUCER_EPOCH
        or expected.id == metadata.producer_id
        or (expected.id == metadata.previous_producer_id and is_exhausted(expected.epoch))
    )


def on_add_partitions(
    txn: Transaction,
    producer: ProducerIdAndEpoch,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    client_version: int,
) -> Decision:
    """Decide on AddPartitionsToTxn and AddOffsetsToTxn; NONE if the transaction has all the partitions already."""
    # The pending transition is checked before the producer id and epoch: the producer may already use the new id and
    # epoch of that transition, and must retry until they are logged, instead of being fenced.
    if txn.pending is not None:
        return Code.CONCURRENT_TRANSACTIONS
    if (refusal := _refuse(txn, producer)) is not None:
        return refusal
    requested = frozenset(partitions)
    if txn.state is _S.ONGOING and requested <= txn.metadata.partitions:
        return Code.NONE
    return txn.add(requested, now_ms, client_version)


def on_verify_partitions(
    txn: Transaction, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, Code]:
    """Decide on AddPartitionsToTxn with ``verify_only``: return a code for each partition. If the request is valid,
    partitions that are not in the transaction get TRANSACTION_ABORTABLE.
    """
    refusal = _refuse(txn, producer)
    inside = txn.metadata.partitions
    return {
        tp: refusal if refusal is not None else Code.NONE if tp in inside else Code.TRANSACTION_ABORTABLE
        for tp in partitions
    }


def _refuse(txn: Transaction, producer: ProducerIdAndEpoch) -> Code | None:
    if txn.metadata.producer_id != producer.id:
        return Code.INVALID_PRODUCER_ID_MAPPING
    if txn.metadata.producer_epoch != producer.epoch:
        return Code.PRODUCER_FENCED
    return Code.CONCURRENT_TRANSACTIONS if txn.state in PREPARED_STATES else None


def prepare_abort_unrequested(txn: Transaction, now_ms: int, new_producer_id: NewProducerId) -> TransactionMetadata:
    """Prepare an abort that the producer has not requested; an incremented epoch fences the producer.

    As in Kafka 4.x the epoch is incremented for all clients, not only those with KIP-890. If the epochs of the producer
    id are exhausted, the abort also assigns the next producer id.
    """
    next_producer_id = new_producer_id() if txn.is_exhausted else NO_PRODUCER_ID
    txn.prepare_fence()
    return txn.end(False, EPOCH_PER_TRANSACTION, next_producer_id, now_ms)


def on_end_txn(
    txn: Transaction,
    producer: ProducerIdAndEpoch,
    commit: bool,
    now_ms: int,
    client_version: int,
    new_producer_id: NewProducerId,
) -> Decision:
    """Decide on EndTxn, by the protocol of the client's transaction.version."""
    if client_version < EPOCH_PER_TRANSACTION:
        return _end_v1(txn, producer, commit, now_ms)
    return _end_v2(txn, producer, commit, now_ms, new_producer_id)


def _end_v1(txn: Transaction, producer: ProducerIdAndEpoch, commit: bool, now_ms: int) -> Decision:
    if txn.metadata.producer_id != producer.id:
        return Code.INVALID_PRODUCER_ID_MAPPING
    if txn.metadata.producer_epoch != producer.epoch:
        return Code.PRODUCER_FENCED
    if txn.pending is not None:
        return Code.CONCURRENT_TRANSACTIONS
    if txn.state is not _S.ONGOING:
        return _V1[commit].get(txn.state, Code.INVALID_TXN_STATE)
    return txn.end(commit, 0, NO_PRODUCER_ID, now_ms)


#: Response codes to EndTxn of clients without KIP-890 while no transaction is ongoing, by whether the request is a
#: commit. In states without a code the response is INVALID_TXN_STATE.
_V1: Mapping[bool, Mapping[TransactionState, Code]] = {
    True: {_S.PREPARE_COMMIT: Code.CONCURRENT_TRANSACTIONS, _S.COMPLETE_COMMIT: Code.NONE},
    False: {_S.PREPARE_ABORT: Code.CONCURRENT_TRANSACTIONS, _S.COMPLETE_ABORT: Code.NONE},
}


def _end_v2(
    txn: Transaction, producer: ProducerIdAndEpoch, commit: bool, now_ms: int, new_producer_id: NewProducerId
) -> Decision:
    # The pending transition is checked before the producer id and epoch, as in :func:`on_add_partitions`.
    if txn.pending is not None:
        return Code.CONCURRENT_TRANSACTIONS
    metadata = txn.metadata
    is_current = producer.epoch == metadata.producer_epoch
    on_bump = metadata.producer_epoch == producer.epoch + 1
    on_overflow = metadata.producer_epoch == 0 and producer == (metadata.previous_producer_id, EPOCH_MAX - 1)
    if metadata.producer_id != producer.id and not on_overflow:
        return Code.INVALID_PRODUCER_ID_MAPPING
    is_retry = on_bump or on_overflow
    valid = on_bump if txn.state in PREPARED_STATES else is_current or (is_retry and txn.state in _COMPLETE)
    if not valid:
        return Code.PRODUCER_FENCED
    refusal = _V2[commit, is_retry].get(txn.state)
    if refusal is not None:
        return refusal
    next_producer_id = new_producer_id() if txn.is_exhausted else NO_PRODUCER_ID
    is_without_partitions = txn.state is not _S.ONGOING
    return txn.end(commit, EPOCH_PER_TRANSACTION, next_producer_id, now_ms, is_without_partitions=is_without_partitions)


_COMPLETE = IDLE_STATES - {_S.EMPTY}
_INVALID_AT_REST: Mapping[TransactionState, Code] = dict.fromkeys(IDLE_STATES, Code.INVALID_TXN_STATE)
_COMMITTING = {_S.PREPARE_COMMIT: Code.CONCURRENT_TRANSACTIONS, _S.PREPARE_ABORT: Code.INVALID_TXN_STATE}
_ABORTING = {_S.PREPARE_COMMIT: Code.INVALID_TXN_STATE, _S.PREPARE_ABORT: Code.CONCURRENT_TRANSACTIONS}

#: Response codes to EndTxn of clients with KIP-890, by whether the request is a commit, and whether it is a retry. In
#: states without a code the request is valid: it ends the ongoing transaction, or is an abort without a transaction.
_V2: Mapping[tuple[bool, bool], Mapping[TransactionState, Code]] = {
    (True, False): {**_INVALID_AT_REST, **_COMMITTING},
    (True, True): {**_INVALID_AT_REST, **_COMMITTING, _S.COMPLETE_COMMIT: Code.NONE},
    (False, False): _ABORTING,
    (False, True): {**_INVALID_AT_REST, **_ABORTING, _S.COMPLETE_ABORT: Code.NONE},
}
