"""ListOffsets versions 1 to 11: find offsets by timestamp, and the first and last offsets of a log.

Follows ``ReplicaManager.fetchOffset``, ``Partition.fetchOffsetForTimestamp`` and ``UnifiedLog.fetchOffsetByTimestamp``.
Version 2 adds the isolation level, 4 leader epochs, 5 OFFSET_NOT_AVAILABLE (KIP-207), 7 the highest timestamp
(KIP-734), 8 the local log start, 9 the last tiered offset, 11 the first offset not yet uploaded; this broker has no
tiered storage. ``replica_id`` is -1 for consumers, which see committed records only. Two other kinds of requests see
all records: those of followers, which send their broker id, and those with -2, which any replica may answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names
from ..call import Api, ApiCall
from ..partition import PartitionReplica

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
#: The first request version that supports each special (negative) timestamp.
SINCE: Mapping[int, int] = {
    LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip
CONSUMER, ANY_REPLICA = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FIRST_WITH_EPOCHS = 4
FIRST_WITH_NOT_AVAILABLE = 5


class _OffsetResult(NamedTuple):
    offset: int
    timestamp: int = -1
    epoch: int = -1


class _LookupFailed(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


def _handle(call: ApiCall) -> Message:
    request: ListOffsetsRequest = call.request
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        # Kafka's broker fails with an unexpected exception on an unknown isolation level, and responds with this code.
        return _refuse(request, call.version, int(Code.UNKNOWN_SERVER_ERROR))
    counts = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    names = (topic.name for topic in request.topics)
    denied = denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        rows = answers.setdefault(topic.name, {})
        for one in topic.partitions:
            if topic.name in denied:
                rows[one.partition_index] = _failed(one, int(Code.TOPIC_AUTHORIZATION_FAILED))
            elif counts[topic.name, one.partition_index] > 1:
                rows[one.partition_index] = _failed(one, int(Code.INVALID_REQUEST))
            else:
                rows[one.partition_index] = _partition(call, topic.name, one)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=name, partitions=list(rows.values())) for name, rows in answers.items()]
    )


def _refuse(request: ListOffsetsRequest, version: int, code: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=[_failed(one, code) for one in topic.partitions])
            for topic in request.topics
        ]
    )


API = Api(ListOffsetsRequest, 1, 11, _handle, _refuse)


def _partition(call: ApiCall, topic: str, one: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    if one.timestamp < 0 and call.version < SINCE.get(one.timestamp, call.version + 1):
        return _failed(one, int(Code.UNSUPPORTED_VERSION))
    try:
        partition = _replica(call, TopicPartition(topic, one.partition_index), one.current_leader_epoch)
        found = _look_up(call, partition, one.timestamp)
    except _LookupFailed as failure:
        return _failed(one, failure.code)
    answer = _failed(one, 0)
    answer.offset, answer.timestamp = found.offset, found.timestamp
    if call.version >= FIRST_WITH_EPOCHS:
        answer.leader_epoch = found.epoch
    return answer


def _replica(call: ApiCall, tp: TopicPartition, epoch: int) -> PartitionReplica:
    partition, code = call.node.leader_replica(tp, epoch)
    if call.request.replica_id == ANY_REPLICA and code == Code.NOT_LEADER_OR_FOLLOWER:
        partition = call.node.partitions.get(tp)
    if partition is None:
        raise _LookupFailed(code)
    return partition


def _look_up(call: ApiCall, partition: PartitionReplica, timestamp: int) -> _OffsetResult:
    request = call.request
    is_consumer = request.replica_id == CONSUMER
    end = partition.log.end_offset
    if is_consumer:
        committed = request.isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if committed else partition.high_watermark
    # Until a new leader's high watermark has reached the start of the new leader epoch, it may be below the previous
    # leader's. Returned as the latest offset, this high watermark would reset consumers to an earlier offset.
    is_behind = is_consumer and partition.is_leader and partition.epoch_start > partition.high_watermark
    if timestamp == LATEST and not is_behind:
        return _OffsetResult(end, epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _log_start(partition)
    found = _find(partition, timestamp)
    if is_behind and not 0 <= found.offset < end:
        supported = call.version >= FIRST_WITH_NOT_AVAILABLE
        raise _LookupFailed(int(Code.OFFSET_NOT_AVAILABLE if supported else Code.LEADER_NOT_AVAILABLE))
    return found if found.offset < end else _NOTHING


_NOTHING = _OffsetResult(-1)


def _log_start(partition: PartitionReplica) -> _OffsetResult:
    log = partition.log
    first = log.epochs[0] if log.epochs else (-1, 0)
    return _OffsetResult(log.start_offset, epoch=first[0] if first[1] <= log.start_offset else -1)


def _find(partition: PartitionReplica, timestamp: int) -> _OffsetResult:
    log, found = partition.log, None
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp(log.end_offset)
    elif timestamp not in (LATEST, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        found = log.offset_for_timestamp(timestamp, log.end_offset)
    return _NOTHING if found is None else _OffsetResult(*found)


def _failed(one: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=code)
