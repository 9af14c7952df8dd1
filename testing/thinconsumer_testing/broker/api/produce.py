"""Produce versions 0 to 13: append the batches of producers, one batch per partition.

This module makes the checks that need no log, has transactions verified by their coordinator, waits for all partitions
of the request, and responds. ``log`` validates the batches; ``partition`` waits for the replicas.
Follows ``KafkaApis.handleProduceRequest``, ``ProduceRequest.validateRecords`` and
``ReplicaManager.handleProduceAppend``. ApiVersions lists versions 0 to 2, since old librdkafka clients look for them,
but a request of these versions closes the connection, as in Kafka 4. From version 12 on a transactional write adds its
partition to the transaction (KIP-890); in older versions AddPartitionsToTxn must have added it. Version 13 uses topic
ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from thinconsumer.records.compression import Codec
from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import NodeEndpoint
from thinconsumer.wire.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized
from ..call import Api, ApiCall
from ..log.log import AppendInfo, AppendRefused, StoredBatch
from ..log.validation import parse_batch
from ..partition import UNKNOWN_COUNT
from ..transaction_verification import FIRST_TO_ADD_PARTITIONS, TransactionalProducer, add_or_verify_for_produce
from .fetch import add_current_leader

if TYPE_CHECKING:
    from ..partition import PartitionReplica

FIRST_ACCEPTED = 3
FIRST_WITH_ZSTD = 7
FIRST_WITH_LEADERS = 10
FIRST_WITH_IDS = 13
ADMIN_CLIENT_ID = "__admin_client"  #: Clients with this id may write to internal topics.

#: Errors with which Kafka's Produce response has no log start offset.
_WITHOUT_LOG_START = (
    Code.UNKNOWN_TOPIC_OR_PARTITION, Code.NOT_LEADER_OR_FOLLOWER, Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE,
    Code.CORRUPT_MESSAGE, Code.KAFKA_STORAGE_ERROR,
)  # fmt: skip


def _handle(call: ApiCall) -> Message | None:
    """Append the batches; respond once each is rejected or acknowledged. With ``acks=0`` there is no response."""
    request: ProduceRequest = call.request
    if call.version < FIRST_ACCEPTED:
        call.close_connection()
        return None
    producing = _ProduceRequest(call)
    code = producing.parse()
    if code and request.acks:
        return _refuse(request, call.version, code)
    if code:
        call.close_connection()
    else:
        producing.start()
    return None


def _refuse(request: ProduceRequest, version: int, code: int) -> ProduceResponse:
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[_failed(one.index, code) for one in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


API = Api(ProduceRequest, 0, 13, _handle, _refuse)


#: Error messages for batches that cannot be parsed, and for transactions that cannot be verified. As in Kafka, other
#: codes of these checks have no message.
_BATCH_ERROR_MESSAGES = {int(Code.CORRUPT_MESSAGE): "The data does not begin with a valid batch."}
_TRANSACTION_ERROR_MESSAGES = {
    int(Code.INVALID_TXN_STATE): "The partition was not added to the transaction.",
    int(Code.NOT_ENOUGH_REPLICAS): "The transaction coordinator could not be reached.",
}


def _count_code(partition: PartitionReplica, batch: StoredBatch) -> Code:
    """Return the error code for a batch with a partition count that the leader does not accept, and that its log lacks.

    INVALID_PARTITION_METADATA tells the producer that the batch was not written, so that it may move the records to
    other partitions. But an earlier leader may have the batch, and may be elected again before it has followed this
    leader. Until all in-sync replicas have followed this leader, an idempotent producer has to repeat the batch.
    """
    is_final = batch.producer_id < 0 or partition.is_followed
    return Code.INVALID_PARTITION_METADATA if is_final else Code.NOT_ENOUGH_REPLICAS


@dataclass(slots=True)
class _PartitionProduce:
    """The batch for one partition of a Produce request, and the partition's entry in the response."""

    name: str
    topic_id: bytes
    response: PartitionProduceResponse
    count: int = UNKNOWN_COUNT  #: The topic's partition count in the request.
    batch: StoredBatch | None = None  #: None once the batch is rejected or appended.

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.name, self.response.index)

    def refuse(self, code: int, message: str | None = None) -> None:
        self.batch = None
        self.response.error_code = int(code)
        self.response.error_message = message


class _ProduceRequest:
    """One Produce request in progress: responds once the batch of each partition is rejected or acknowledged."""

    __slots__ = ("_call", "_entries", "_pending", "_request")

    def __init__(self, call: ApiCall) -> None:
        self._call = call
        self._request: ProduceRequest = call.request
        self._entries: dict[tuple[str | bytes, int], _PartitionProduce] = {}
        self._pending = 0

    def parse(self) -> int:
        """Parse the batches of all partitions; return an error code if the whole request is rejected, else 0."""
        call, image = self._call, self._call.node.image
        by_id = call.version >= FIRST_WITH_IDS
        denied = self._denied(by_id)
        is_transactional = False
        for topic in self._request.topic_data:
            name = image.names_by_id.get(topic.topic_id) if by_id else topic.name
            for data in topic.partition_data:
                count = topic.undeleted_partition_count
                entry = _PartitionProduce(name or "", topic.topic_id, _failed(data.index, 0), count)
                self._entries[topic.topic_id if by_id else topic.name, data.index] = entry
                if data.records is None:
                    return int(Code.UNKNOWN_SERVER_ERROR)
                batch: StoredBatch | None = None
                try:
                    batch = parse_batch(data.records)
                    if batch.codec == Codec.ZSTD and call.version < FIRST_WITH_ZSTD:
                        batch = None
                        entry.refuse(Code.UNSUPPORTED_COMPRESSION_TYPE)
                except AppendRefused as error:
                    entry.refuse(error.code, _BATCH_ERROR_MESSAGES.get(error.code))
                if name is None:
                    entry.refuse(Code.UNKNOWN_TOPIC_ID)
                elif name in denied:
                    entry.refuse(Code.TOPIC_AUTHORIZATION_FAILED)
                elif image.partition(name, data.index) is None:
                    entry.refuse(Code.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    entry.batch = batch
                is_transactional = is_transactional or (batch is not None and batch.is_transactional)
        if is_transactional and not self._may_write_transactions():
            return int(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if len({(b.producer_id, b.producer_epoch) for _, b in self._transactional()}) > 1:
            return int(Code.INVALID_PRODUCER_ID_MAPPING)
        return 0

    def _denied(self, by_id: bool) -> Collection[str]:
        names_by_id, topics = self._call.node.image.names_by_id, self._request.topic_data
        names = (names_by_id.get(topic.topic_id) if by_id else topic.name for topic in topics)
        return denied_names(
            self._call, AclOperation.WRITE, ResourceType.TOPIC, (name for name in names if name is not None)
        )

    def _may_write_transactions(self) -> bool:
        name = self._request.transactional_id
        return name is not None and is_authorized(self._call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)

    def start(self) -> None:
        """Append the batches. If a batch would begin a transaction in its partition, the transaction coordinator adds
        or verifies the partition first (KIP-890).
        """
        call = self._call
        to_verify: list[_PartitionProduce] = []
        for entry, batch in self._transactional():
            partition = call.node.partitions.get(entry.tp)
            if partition is None or not partition.is_leader:
                continue  # not the leader of the partition: the append will reject the batch
            if partition.log.producers.would_begin_transaction(batch.producer_id, batch.producer_epoch):
                to_verify.append(entry)
                partition.log.producers.start_verification(
                    batch.producer_id,
                    batch.producer_epoch,
                    batch.base_sequence,
                    is_strict=call.version >= FIRST_TO_ADD_PARTITIONS,
                    now_ms=call.node.schedule.wall_ms(),
                )
        if not to_verify:
            self._append()
            return
        first = to_verify[0].batch
        assert first is not None and self._request.transactional_id is not None
        add_or_verify_for_produce(
            self._call.node,
            TransactionalProducer(self._request.transactional_id, first.producer_id, first.producer_epoch),
            [entry.tp for entry in to_verify],
            version=self._call.version,
            done=lambda codes: self._on_verified(to_verify, codes),
        )

    def _on_verified(self, to_verify: list[_PartitionProduce], codes: Mapping[TopicPartition, int]) -> None:
        for entry in to_verify:
            if code := codes.get(entry.tp, 0):
                entry.refuse(code, _TRANSACTION_ERROR_MESSAGES.get(code))
        self._append()

    def _transactional(self) -> Iterable[tuple[_PartitionProduce, StoredBatch]]:
        for entry in self._entries.values():
            batch = entry.batch
            if batch is not None and batch.is_transactional and batch.producer_id >= 0:
                yield entry, batch

    def _append(self) -> None:
        call, acks = self._call, self._request.acks
        timeout_s = max(0, self._request.timeout_ms) / 1000
        todo = [entry for entry in self._entries.values() if entry.batch is not None]
        self._pending = 1 + len(todo)
        for entry in todo:
            topic = call.node.image.topics.get(entry.name)
            partition = call.node.partitions.get(entry.tp)
            if acks not in (-1, 0, 1):
                entry.refuse(Code.INVALID_REQUIRED_ACKS)
            elif topic is not None and topic.internal and call.client_id != ADMIN_CLIENT_ID:
                entry.refuse(Code.INVALID_TOPIC_EXCEPTION)
            elif partition is None:
                entry.refuse(Code.NOT_LEADER_OR_FOLLOWER)
            else:
                assert entry.batch is not None
                done = partial(self._appended, entry, partition)
                if partition.is_leader and not partition.accepts_count(entry.count):
                    if not partition.acknowledge_repeated(entry.batch, acks, done, timeout_s):
                        done(_count_code(partition, entry.batch), None)
                    continue
                on_refused = partial(_add_record_errors, entry.response)
                partition.append(entry.batch.data, acks, done, timeout_s=timeout_s, on_refused=on_refused)
                continue
            self._partition_done()
        self._partition_done()

    def _appended(
        self, entry: _PartitionProduce, partition: PartitionReplica, code: int, appended: AppendInfo | None
    ) -> None:
        response = entry.response
        response.error_code = code
        if appended is not None:
            response.base_offset = appended.base_offset
            response.log_append_time_ms = appended.log_append_time_ms
        if code not in _WITHOUT_LOG_START:
            response.log_start_offset = partition.log.start_offset
        # Release the batch's memory now, as the response may still wait for the replicas of other partitions.
        entry.batch = None
        self._partition_done()

    def _partition_done(self) -> None:
        self._pending -= 1
        if self._pending:
            return
        call = self._call
        if self._request.acks:
            call.reply(self._answer())
        elif any(entry.response.error_code for entry in self._entries.values()):
            # With acks=0 no response can carry the error; a closed connection makes the producer refresh its metadata.
            call.close_connection()
        else:
            call.reply(None)

    def _answer(self) -> ProduceResponse:
        topics: dict[str | bytes, TopicProduceResponse] = {}
        leaders: dict[int, NodeEndpoint] = {}
        for (name, _), entry in self._entries.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceResponse(name=entry.name, topic_id=entry.topic_id)
            topic.partition_responses.append(entry.response)
            is_elsewhere = entry.response.error_code == Code.NOT_LEADER_OR_FOLLOWER
            if is_elsewhere and self._call.version >= FIRST_WITH_LEADERS:
                add_current_leader(self._call, entry.tp, entry.response, leaders)
        return ProduceResponse(responses=list(topics.values()), node_endpoints=list(leaders.values()))


def _add_record_errors(response: PartitionProduceResponse, refusal: AppendRefused) -> None:
    """Copy the errors of single records with the rejection's message; without such errors Kafka sends no message."""
    if refusal.record_errors:
        response.error_message = refusal.message
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in refusal.record_errors
        ]


def _failed(index: int, code: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
