"""Verification of transactional writes (KIP-890): the leader asks the transaction coordinator before it appends.

Owns the request from the leader's broker to the coordinator's, and the mapping of its error codes for producers.
Follows ``AddPartitionsToTxnManager`` and ``ReplicaManager.handleProduceAppend``. Without verification, a write that
arrives after its transaction has ended would open another one that never ends (a hanging transaction), which blocks
read_committed consumers for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from .txn.transaction import EPOCH_PER_TRANSACTION
from .txn.transitions import ProducerIdAndEpoch

if TYPE_CHECKING:
    from .node import BrokerNode

TRANSACTION = 1  #: Key type of transactional ids in FindCoordinator.
FIRST_WITH_ABORTABLE = 11  #: First Produce version whose clients handle TRANSACTION_ABORTABLE.
#: From this version on a transactional Produce request adds its partitions to the transaction. With an older version
#: the producer must have added the partitions before, with AddPartitionsToTxn, and the leader only verifies this.
FIRST_TO_ADD_PARTITIONS = 12
TIMEOUT_S = 30.0
#: How long, and how often, the leader tries again to add partitions after CONCURRENT_TRANSACTIONS: the producer's
#: previous transaction is still completing, which is common right after a commit. If the leader returned that error
#: instead, the producer would have to send the records again.
RETRY_FOR_S = 0.1
RETRY_AFTER_S = 0.02

Codes = Mapping[TopicPartition, int]
Done = Callable[[Codes], None]

#: Errors of the coordinator for which the producer gets NOT_ENOUGH_REPLICAS instead. Producers of every version retry
#: NOT_ENOUGH_REPLICAS, and do so without refreshing their metadata, since the partition's leader has not changed.
_RETRIED_AS_NOT_ENOUGH_REPLICAS = (
    Code.NETWORK_EXCEPTION, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR,
)  # fmt: skip


class TransactionalProducer(NamedTuple):
    """The producer of a transactional write, as the request identifies it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def add_or_verify_for_produce(
    node: BrokerNode, producer: TransactionalProducer, tps: Sequence[TopicPartition], *, version: int, done: Done
) -> None:
    """Add the partitions of a Produce request to its transaction or, for older versions, verify that they are in it.

    ``done`` is called once with the error codes of rejected partitions, mapped to codes that a producer with this
    version of Produce can handle.
    """
    adds = version >= FIRST_TO_ADD_PARTITIONS
    give_up_at = node.schedule.now + RETRY_FOR_S

    def answered(codes: Codes) -> None:
        if adds and Code.CONCURRENT_TRANSACTIONS in codes.values() and node.schedule.now < give_up_at:
            node.call_later(RETRY_AFTER_S, ask)
        else:
            done({tp: produce_error_code(code, version) for tp, code in codes.items() if code})

    def ask() -> None:
        add_or_verify(node, producer, tps, add=adds, done=answered)

    ask()


def add_or_verify(
    node: BrokerNode, producer: TransactionalProducer, tps: Sequence[TopicPartition], *, add: bool, done: Done
) -> None:
    """Ask the coordinator to add partitions to the producer's transaction, or only to verify that they are in it.

    ``done`` is called once with the error codes of rejected partitions: those of the coordinator; or for all partitions
    COORDINATOR_NOT_AVAILABLE if no coordinator is known, NETWORK_EXCEPTION if it is unreachable or does not respond
    within 30 s. There is no retry. Kafka's brokers send AddPartitionsToTxn for this; here the coordinator is called
    directly.
    """
    code, broker = node.coordinator_for(TRANSACTION, producer.transactional_id)
    if broker is None:
        done(dict.fromkeys(tps, code))
        return
    unreachable = dict.fromkeys(tps, int(Code.NETWORK_EXCEPTION))
    coordinator = node.cluster.nodes.get(broker.node_id)
    if (
        coordinator is None
        or not coordinator.is_running
        or not node.cluster.reachable(node.node_id, coordinator.node_id)
    ):
        done(unreachable)
        return
    # A coordinator that is paused while it handles the request may respond only after it has resumed.
    timer = node.call_later(TIMEOUT_S, lambda: done(unreachable))

    def answered(codes: Codes) -> None:
        if timer.is_pending:
            timer.cancel()
            done({tp: code for tp, code in codes.items() if code})

    coordinator.transaction_coordinator.add_or_verify(
        producer.transactional_id,
        ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch),
        tps,
        answered,
        client_version=EPOCH_PER_TRANSACTION,
        verify_only=not add,
    )


def produce_error_code(code: int, version: int) -> int:
    """Map the coordinator's error code to one that a producer with this version of Produce can handle."""
    if code in _RETRIED_AS_NOT_ENOUGH_REPLICAS or (
        code == Code.CONCURRENT_TRANSACTIONS and version < FIRST_TO_ADD_PARTITIONS
    ):
        return int(Code.NOT_ENOUGH_REPLICAS)
    if code == Code.PRODUCER_FENCED:
        return int(Code.INVALID_PRODUCER_EPOCH)
    if code == Code.TRANSACTION_ABORTABLE and version < FIRST_WITH_ABORTABLE:
        return int(Code.INVALID_TXN_STATE)
    return code
