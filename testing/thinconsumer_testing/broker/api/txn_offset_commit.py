"""TxnOffsetCommit versions 0 to 5: commit offsets of a group within a transaction.

The transaction coordinator adds the group's partition of ``__consumer_offsets`` to the transaction (version 5) or
verifies that the producer has added it (0 to 4). Then the group coordinator writes the offsets, which take effect when
the transaction commits. Version 3 adds the member id and the generation (KIP-447). Follows
``KafkaApis.handleTxnOffsetCommitRequest`` and ``GroupCoordinatorService.commitTransactionalOffsets``.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized
from ..call import Api, ApiCall
from ..transaction_verification import TransactionalProducer
from ..txn.offsets import add_or_verify_offsets
from ..wire.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from .offset_commit import merged_topics, split_by_existence

#: Clients that send lower versions can crash on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296), and get
#: COORDINATOR_NOT_AVAILABLE instead.
FIRST_WITH_LOADING = 2


def _handle(call: ApiCall) -> Message | None:
    """Reject partitions that do not exist, or that the client may not read; let the group coordinator commit the
    offsets of the others.

    Before the commit, the transaction coordinator adds or verifies the group's partition of ``__consumer_offsets``.
    """
    request: TxnOffsetCommitRequest = call.request
    if not is_authorized(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _refuse(request, call.version, int(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not is_authorized(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refuse(request, call.version, int(Code.GROUP_AUTHORIZATION_FAILED))
    names = (topic.name for topic in request.topics)
    denied = denied_names(call, AclOperation.READ, ResourceType.TOPIC, names)
    existing: list[TxnOffsetCommitRequestTopic] = []
    missing: list[TxnOffsetCommitRequestTopic] = []
    unreadable: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        if topic.name in denied:
            unreadable.append(topic)
            continue
        known, unknown = split_by_existence(topic.partitions, call.node.image.topics.get(topic.name))
        if known:
            existing.append(replace(topic, partitions=known))
        missing.append(replace(topic, partitions=unknown))
    answer = _answer(missing, repeat(Code.UNKNOWN_TOPIC_OR_PARTITION))
    answer.topics += _answer(unreadable, repeat(Code.TOPIC_AUTHORIZATION_FAILED)).topics
    if not existing:
        return answer
    known_request = replace(request, topics=existing)

    def committed(codes: Iterator[int]) -> None:
        topics = merged_topics([*answer.topics, *_answer(existing, codes).topics], "name")
        call.reply(TxnOffsetCommitResponse(topics=[_for_version(topic, call.version) for topic in topics]))

    def admitted(code: int) -> None:
        if code:
            committed(repeat(code))
        else:
            call.node.group_coordinator.commit(known_request, call.version, committed)

    if not request.group_id:
        admitted(Code.INVALID_GROUP_ID)
    else:
        producer = TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch)
        add_or_verify_offsets(call.node, producer, request.group_id, call.version, admitted)
    return None


def _refuse(request: TxnOffsetCommitRequest, version: int, code: int) -> TxnOffsetCommitResponse:
    return _answer(request.topics, repeat(code))


API = Api(TxnOffsetCommitRequest, 0, 5, _handle, _refuse)


def _answer(topics: list[TxnOffsetCommitRequestTopic], codes: Iterator[int]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=int(next(codes)))
                    for p in topic.partitions
                ],
            )
            for topic in topics
            if topic.partitions
        ]
    )


def _for_version(topic: TxnOffsetCommitResponseTopic, version: int) -> TxnOffsetCommitResponseTopic:
    for partition in topic.partitions:
        if version < FIRST_WITH_LOADING and partition.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS:
            partition.error_code = int(Code.COORDINATOR_NOT_AVAILABLE)
    return topic
