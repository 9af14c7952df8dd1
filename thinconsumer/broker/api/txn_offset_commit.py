"""TxnOffsetCommit 0 to 5: commit offsets of a group within a transaction.

Sent to the group coordinator, which adds its partition to the transaction (version 5) or verifies it (0 to 4), and then
writes the offsets, pending until the transaction ends. Version 3 adds the member (KIP-447). Follows
``KafkaApis.handleTxnOffsetCommitRequest`` and ``GroupCoordinatorService.commitTransactionalOffsets``.
"""

from __future__ import annotations

from dataclasses import replace

from ...wire import Message
from ...wire.error_codes import Code
from ...wire.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ..call import Api, ApiCall
from ..transaction_verification import TransactionalProducer
from ..txn.offsets import add_or_verify_offsets

#: Clients below version 2 can crash on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
FIRST_WITH_LOADING = 2


def handle(call: ApiCall) -> Message | None:
    """Reject unknown partitions; pass the others to the group coordinator once the transaction is verified."""
    request: TxnOffsetCommitRequest = call.request
    existing, missing = _split_by_existence(call, request)
    answer = _refused(missing, Code.UNKNOWN_TOPIC_OR_PARTITION)
    if not existing:
        return answer
    known_request = replace(request, topics=existing)

    def committed(response: TxnOffsetCommitResponse) -> None:
        call.reply(_for_version(_merge(answer, response), call.version))

    def admitted(code: int) -> None:
        if code:
            committed(_refused(existing, code))
        else:
            call.node.group_coordinator.txn_commit(known_request, call.version, committed)

    if not request.group_id:
        admitted(Code.INVALID_GROUP_ID)
    else:
        producer = TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch)
        add_or_verify_offsets(call.node, producer, request.group_id, call.version, admitted)
    return None


def refuse(request: TxnOffsetCommitRequest, version: int, code: int) -> TxnOffsetCommitResponse:
    """Return the response with an error code for every partition."""
    return _refused(request.topics, code)


API = Api(TxnOffsetCommitRequest, 0, 5, handle, refuse)


def _split_by_existence(
    call: ApiCall, request: TxnOffsetCommitRequest
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitRequestTopic]]:
    """Return the topics with existing partitions, and those with unknown ones."""
    existing: list[TxnOffsetCommitRequestTopic] = []
    missing: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = [p for p in topic.partitions if call.node.image.partition(topic.name, p.partition_index) is not None]
        unknown = [p for p in topic.partitions if call.node.image.partition(topic.name, p.partition_index) is None]
        if found:
            existing.append(replace(topic, partitions=found))
        if unknown or not found:
            missing.append(replace(topic, partitions=unknown))
    return existing, missing


def _refused(topics: list[TxnOffsetCommitRequestTopic], code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=int(code))
                    for p in topic.partitions
                ],
            )
            for topic in topics
            if topic.partitions
        ]
    )


def _merge(first: TxnOffsetCommitResponse, second: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """Add the second response's partitions to the first."""
    topics = {topic.name: topic for topic in first.topics}
    for topic in second.topics:
        if topic.name in topics:
            topics[topic.name].partitions.extend(topic.partitions)
        else:
            topics[topic.name] = topic
    return TxnOffsetCommitResponse(topics=list(topics.values()))


def _for_version(response: TxnOffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    if version < FIRST_WITH_LOADING:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = int(Code.COORDINATOR_NOT_AVAILABLE)
    return response
