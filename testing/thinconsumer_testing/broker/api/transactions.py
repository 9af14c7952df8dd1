"""The APIs of idempotent and transactional producers: the transaction coordinator responds once a change is logged.

Follows ``KafkaApis``. In old versions of these APIs, INVALID_PRODUCER_EPOCH replaces PRODUCER_FENCED, which their
clients do not expect.
"""

from collections.abc import Collection, Iterable, Mapping

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized, is_authorized_for_any, is_authorized_on_cluster
from ..call import Api, ApiCall, error_code_in
from ..group.coordinator import partition_of_group
from ..naming import is_internal
from ..txn.transaction import EPOCH_PER_TRANSACTION, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ..txn.transitions import ProducerIdAndEpoch
from ..wire.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
)

#: First versions that may return PRODUCER_FENCED: of InitProducerId, and of the other transactional APIs.
INIT_WITH_FENCED = 4
FIRST_WITH_FENCED = 2
FIRST_WITH_EPOCH = 5
FIRST_OF_BROKERS = 4


def _for_version(code: int, version: int, first_with_fenced: int = FIRST_WITH_FENCED) -> int:
    is_too_new = code == Code.PRODUCER_FENCED and version < first_with_fenced
    return int(Code.INVALID_PRODUCER_EPOCH if is_too_new else code)


def init_producer_id(call: ApiCall) -> Message | None:
    """InitProducerId versions 0 to 5: assign a producer id and epoch.

    If the request has a transactional id, its transaction coordinator assigns both, else any broker. From version 3 on
    a producer may send its current id and epoch, to get the next epoch after an error (KIP-360). Version 6 is unstable
    in Kafka, and not supported.
    """
    request: InitProducerIdRequest = call.request
    if denied := _init_denied(call):
        return _refuse_init(request, call.version, denied)
    has_identity = (request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH)
    if any(has_identity) and not all(has_identity):
        return _refuse_init(request, call.version, Code.INVALID_REQUEST)

    def done(code: int, producer_id: int, producer_epoch: int) -> None:
        code = _for_version(code, call.version, INIT_WITH_FENCED)
        call.reply(InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch))

    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if all(has_identity) else None
    call.node.transaction_coordinator.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected, done
    )
    return None


def _may_write(call: ApiCall, transactional_id: str) -> bool:
    return is_authorized(call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _init_denied(call: ApiCall) -> int:
    """Return the code that rejects InitProducerId, or 0. A producer without transactional id needs IDEMPOTENT_WRITE on
    the cluster, or WRITE on at least one topic (KIP-679).
    """
    transactional_id = call.request.transactional_id
    if transactional_id is not None:
        return 0 if _may_write(call, transactional_id) else int(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if is_authorized_on_cluster(call, AclOperation.IDEMPOTENT_WRITE):
        return 0
    is_writer = is_authorized_for_any(call, AclOperation.WRITE, ResourceType.TOPIC)
    return 0 if is_writer else int(Code.CLUSTER_AUTHORIZATION_FAILED)


def _refuse_init(request: InitProducerIdRequest, version: int, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(code), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def add_offsets_to_txn(call: ApiCall) -> Message | None:
    """AddOffsetsToTxn versions 0 to 4: add the group's partition of ``__consumer_offsets`` to a transaction.

    Clients with KIP-890 do not send AddOffsetsToTxn: TxnOffsetCommit adds the partition.
    """
    request: AddOffsetsToTxnRequest = call.request
    if not _may_write(call, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=int(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not is_authorized(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=int(Code.GROUP_AUTHORIZATION_FAILED))
    call.node.transaction_coordinator.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        [partition_of_group(call.node, request.group_id)],
        lambda code: call.reply(AddOffsetsToTxnResponse(error_code=_for_version(code, call.version))),
    )
    return None


def end_txn(call: ApiCall) -> Message | None:
    """EndTxn versions 0 to 5: commit or abort a transaction; its markers are written after the response. Version 5
    returns the producer id and epoch for the next transaction (KIP-890).
    """
    request: EndTxnRequest = call.request
    if not _may_write(call, request.transactional_id):
        return EndTxnResponse(error_code=int(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))

    def done(code: int, producer_id: int, producer_epoch: int) -> None:
        code = _for_version(code, call.version)
        call.reply(EndTxnResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch))

    call.node.transaction_coordinator.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        request.committed,
        done,
        client_version=EPOCH_PER_TRANSACTION if call.version >= FIRST_WITH_EPOCH else 0,
    )
    return None


def add_partitions_to_txn(call: ApiCall) -> Message | None:
    """AddPartitionsToTxn versions 0 to 5: add partitions to transactions, or verify that they were added.

    Clients send versions up to 3, for one transaction. Brokers send version 4 and later, for several transactions, to
    add or verify partitions (KIP-890). If one partition does not exist, no partition of its transaction is added.
    """
    request: AddPartitionsToTxnRequest = call.request
    if call.version >= FIRST_OF_BROKERS and not is_authorized_on_cluster(call, AclOperation.CLUSTER_ACTION):
        return _refuse_partitions(request, call.version, Code.CLUSTER_AUTHORIZATION_FAILED)
    if call.version < FIRST_OF_BROKERS and not _may_write(call, request.v3_and_below_transactional_id):
        return _refuse_partitions(request, call.version, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    transactions = request.transactions if call.version >= FIRST_OF_BROKERS else [_of_client(request)]
    results: list[AddPartitionsToTxnResult] = []
    if not transactions:
        return _partitions_response(call.version, results)

    def done(transaction: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, int]) -> None:
        rows = _topic_results(transaction.topics, codes, call.version)
        results.append(AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=rows))
        if len(results) == len(transactions):
            call.reply(_partitions_response(call.version, results))

    for transaction in transactions:
        unauthorized = _unauthorized_topics(call, transaction)
        if unauthorized:
            done(transaction, _unauthorized_codes(call, transaction, unauthorized))
            continue
        call.node.transaction_coordinator.add_or_verify(
            transaction.transactional_id,
            ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
            _partitions(transaction.topics),
            lambda codes, transaction=transaction: done(transaction, codes),  # type: ignore[misc]
            client_version=EPOCH_PER_TRANSACTION if call.version >= FIRST_OF_BROKERS else 0,
            verify_only=transaction.verify_only,
        )
    return None


def _unauthorized_topics(call: ApiCall, transaction: AddPartitionsToTxnTransaction) -> Collection[str]:
    """Return the topics that the client may not write to; other brokers may write to all of them."""
    if call.version >= FIRST_OF_BROKERS:
        return ()
    names = {topic.name for topic in transaction.topics}
    internal = {name for name in names if is_internal(name)}
    return {*internal, *denied_names(call, AclOperation.WRITE, ResourceType.TOPIC, names - internal)}


def _unauthorized_codes(
    call: ApiCall, transaction: AddPartitionsToTxnTransaction, unauthorized: Collection[str]
) -> dict[TopicPartition, int]:
    """Return the codes of a request that fails because of unauthorized topics: no partition is added."""
    codes = {}
    for tp in _partitions(transaction.topics):
        if tp.topic in unauthorized:
            codes[tp] = int(Code.TOPIC_AUTHORIZATION_FAILED)
        elif call.node.image.partition(*tp) is None:
            codes[tp] = int(Code.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            codes[tp] = int(Code.OPERATION_NOT_ATTEMPTED)
    return codes


def _refuse_partitions(request: AddPartitionsToTxnRequest, version: int, code: int) -> AddPartitionsToTxnResponse:
    """Return a response with an error code: up to version 3 for every partition, from 4 on only at the top level."""
    if version >= FIRST_OF_BROKERS:
        return AddPartitionsToTxnResponse(error_code=int(code))
    topics = request.v3_and_below_topics
    rows = _topic_results(topics, dict.fromkeys(_partitions(topics), code), FIRST_WITH_FENCED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _partitions_response(version: int, results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    if version >= FIRST_OF_BROKERS:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _topic_results(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, int], version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=_for_version(codes[TopicPartition(topic.name, number)], version),
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


APIS = (
    Api(InitProducerIdRequest, 0, 5, init_producer_id, _refuse_init),
    Api(AddPartitionsToTxnRequest, 0, 5, add_partitions_to_txn, _refuse_partitions),
    Api(AddOffsetsToTxnRequest, 0, 4, add_offsets_to_txn, error_code_in(AddOffsetsToTxnResponse)),
    Api(EndTxnRequest, 0, 5, end_txn, error_code_in(EndTxnResponse)),
)
