"""AddPartitionsToTxn 0 to 5: add partitions to transactions, or verify them.

Up to version 3 it is sent by clients, for one transaction; from 4 on by brokers, for several, to add or to verify
(KIP-890). Version 2 adds PRODUCER_FENCED. One unknown partition rejects all of its transaction. Follows
``KafkaApis.handleAddPartitionsToTxnRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...types import TopicPartition
from ...wire import Message
from ...wire.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...wire.error_codes import Code
from ..call import Api, ApiCall
from ..txn.transaction import EPOCH_PER_TRANSACTION
from ..txn.transitions import ProducerIdAndEpoch

FIRST_WITH_FENCED = 2
FIRST_OF_BROKERS = 4


def handle(call: ApiCall) -> Message | None:
    """Ask the coordinator about each transaction; respond when all results are there."""
    request: AddPartitionsToTxnRequest = call.request
    transactions = request.transactions if call.version >= FIRST_OF_BROKERS else [_of_client(request)]
    results: list[AddPartitionsToTxnResult] = []
    if not transactions:
        return _answer(call.version, results)

    def done(transaction: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, int]) -> None:
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, codes, call.version),
            )
        )
        if len(results) == len(transactions):
            call.reply(_answer(call.version, results))

    for transaction in transactions:
        call.node.transaction_coordinator.add_or_verify(
            transaction.transactional_id,
            ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
            [TopicPartition(topic.name, number) for topic in transaction.topics for number in topic.partitions],
            lambda codes, transaction=transaction: done(transaction, codes),  # type: ignore[misc]
            client_version=EPOCH_PER_TRANSACTION if call.version >= FIRST_OF_BROKERS else 0,
            verify_only=transaction.verify_only,
        )
    return None


def refuse(request: AddPartitionsToTxnRequest, version: int, code: int) -> AddPartitionsToTxnResponse:
    """Return the error response: the code in every partition, from version 4 on a code of its own."""
    if version >= FIRST_OF_BROKERS:
        return AddPartitionsToTxnResponse(error_code=int(code))
    topics = request.v3_and_below_topics
    codes = {TopicPartition(topic.name, number): int(code) for topic in topics for number in topic.partitions}
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes, FIRST_WITH_FENCED))


API = Api(AddPartitionsToTxnRequest, 0, 5, handle, refuse)


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _answer(version: int, results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    if version >= FIRST_OF_BROKERS:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, int], version: int
) -> list[AddPartitionsToTxnTopicResult]:
    if version < FIRST_WITH_FENCED:
        fenced, older = Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH
        codes = {tp: older if code == fenced else code for tp, code in codes.items()}
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number, partition_error_code=int(codes[TopicPartition(topic.name, number)])
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
