"""DeleteRecords versions 0 to 2: advance the log start offsets of partitions.

Follows ``Partition.deleteRecordsOnLeader`` and ``DelayedDeleteRecords``: the response waits until the log start offset
of every live replica has advanced, or the request's timeout is over. The response has the lowest of these log start
offsets, the low watermark.
"""

from __future__ import annotations

from typing import NamedTuple

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names
from ..call import Api, ApiCall
from ..naming import is_internal
from ..partition import PartitionReplica
from ..wire.administration import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK = -1
NO_WATERMARK = -1
CHECK_S = 0.01


class _LowWatermarkTarget(NamedTuple):
    """One partition of the request: an error code, or the log start offset that all live replicas must reach."""

    tp: TopicPartition
    code: int = 0
    offset: int = 0


def _handle(call: ApiCall) -> Message | None:
    """Advance the log start offsets of the partitions; respond when all live followers have advanced theirs, too, or
    when the request's timeout is over.
    """
    request: DeleteRecordsRequest = call.request
    last = {TopicPartition(t.name, p.partition_index): p.offset for t in request.topics for p in t.partitions}
    names = (topic.name for topic in request.topics)
    denied = denied_names(call, AclOperation.DELETE, ResourceType.TOPIC, names)
    targets = [
        _LowWatermarkTarget(tp, int(Code.TOPIC_AUTHORIZATION_FAILED))
        if tp.topic in denied
        else _advance_start(call, tp, offset)
        for tp, offset in last.items()
    ]
    deadline = call.node.schedule.now + request.timeout_ms / 1000

    def check_followers() -> None:
        answer = _answer(call, targets, is_over=call.node.schedule.now >= deadline)
        if answer is not None:
            call.reply(answer)
        elif call.is_open:
            call.node.call_later(CHECK_S, check_followers)

    check_followers()
    return None


def _refuse(request: DeleteRecordsRequest, version: int, code: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_row(one.partition_index, code) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


API = Api(DeleteRecordsRequest, 0, 2, _handle, _refuse)


def _advance_start(call: ApiCall, tp: TopicPartition, offset: int) -> _LowWatermarkTarget:
    partition, code = call.node.leader_replica(tp)
    if code != Code.UNKNOWN_TOPIC_OR_PARTITION and is_internal(tp.topic):
        return _LowWatermarkTarget(tp, int(Code.INVALID_TOPIC_EXCEPTION))
    if partition is None:
        return _LowWatermarkTarget(tp, code)
    config = partition.config
    if config.compact and not config.delete:
        return _LowWatermarkTarget(tp, int(Code.POLICY_VIOLATION))
    if offset == TO_HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        return _LowWatermarkTarget(tp, int(Code.OFFSET_OUT_OF_RANGE))
    if offset > partition.log.start_offset:
        partition.delete_before(offset)
    return _LowWatermarkTarget(tp, offset=offset)


def _answer(call: ApiCall, targets: list[_LowWatermarkTarget], *, is_over: bool) -> DeleteRecordsResponse | None:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for one in targets:
        code, low = one.code, NO_WATERMARK
        if not code:
            partition, code = call.node.leader_replica(one.tp)
            if partition is not None:
                low = _low_watermark(partition)
                if low < one.offset:
                    if not is_over:
                        return None
                    code = int(Code.REQUEST_TIMED_OUT)
        topic = topics.setdefault(one.tp.topic, DeleteRecordsTopicResult(name=one.tp.topic))
        topic.partitions.append(_row(one.tp.partition, code, low))
    return DeleteRecordsResponse(topics=list(topics.values()))


def _low_watermark(partition: PartitionReplica) -> int:
    """Return the lowest log start offset among the replicas on live brokers (according to the leader's metadata)."""
    node = partition.node
    lowest: int = partition.log.start_offset
    for replica in partition.image.replicas:
        if replica != node.node_id and replica in node.image.brokers:
            follower = node.cluster.nodes[replica].partitions.get(partition.tp)
            lowest = min(lowest, 0 if follower is None else follower.log.start_offset)
    return lowest


def _row(partition: int, code: int, low: int = NO_WATERMARK) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=low, error_code=code)
