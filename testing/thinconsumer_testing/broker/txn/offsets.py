"""Verification of TxnOffsetCommit on the group coordinator's broker.

For clients with KIP-890, the broker adds the group's partition of ``__consumer_offsets`` to the transaction; for older
ones, it verifies that the client has added the partition. For Produce, the leader of the written partition does the
same. Follows Kafka's ``CoordinatorPartitionWriter.maybeStartTransactionVerification``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

from ..group.append_errors import APPEND_ERRORS
from ..group.coordinator import partition_of_group
from ..transaction_verification import TransactionalProducer, add_or_verify

if TYPE_CHECKING:
    from ..node import BrokerNode

FIRST_WITH_ABORTABLE = 4  #: First TxnOffsetCommit version that may return TRANSACTION_ABORTABLE.
FIRST_TO_ADD_PARTITIONS = 5

#: Error codes in TxnOffsetCommit responses, by the code that the append or the transaction coordinator returned. Old
#: clients do not expect NETWORK_EXCEPTION, but retry after COORDINATOR_LOAD_IN_PROGRESS.
_FOR_CLIENTS: Mapping[int, Code] = {
    **APPEND_ERRORS,
    Code.NETWORK_EXCEPTION: Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
}


def add_or_verify_offsets(
    node: BrokerNode, producer: TransactionalProducer, group_id: str, version: int, done: Callable[[int], None]
) -> None:
    """Add the group's partition of the offsets topic to the transaction, or verify that it was added. Do neither if the
    partition's log already has offsets of the transaction.

    ``version`` is that of the TxnOffsetCommit request; ``done`` is called once, with the client's error code or 0.
    """
    tp = partition_of_group(node, group_id)

    def answered(codes: Mapping[TopicPartition, int]) -> None:
        code = codes.get(tp, 0)
        if code == Code.TRANSACTION_ABORTABLE and version < FIRST_WITH_ABORTABLE:
            code = Code.INVALID_TXN_STATE
        done(int(_FOR_CLIENTS.get(code, code)))

    partition, code = node.leader_replica(tp)
    if partition is None:
        answered({tp: code})
    elif not partition.log.producers.would_begin_transaction(producer.producer_id, producer.producer_epoch):
        answered({})
    else:
        add_or_verify(node, producer, [tp], add=version >= FIRST_TO_ADD_PARTITIONS, done=answered)
