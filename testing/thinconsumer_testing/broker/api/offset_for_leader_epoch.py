"""OffsetForLeaderEpoch versions 2 to 4: the end offset of a leader epoch, to detect log truncation (KIP-320).

Follows ``ReplicaManager.lastOffsetForLeaderEpoch``. Followers send version 2 and later, consumers version 3 and later;
both get the same response.
"""

from collections.abc import Collection

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized_on_cluster
from ..call import Api, ApiCall


def _handle(call: ApiCall) -> Message:
    request: OffsetForLeaderEpochRequest = call.request
    denied = _denied_topics(call)
    topics: dict[str, OffsetForLeaderTopicResult] = {}
    for topic in request.topics:
        # If a request contains a topic twice, Kafka responds to the first entry only.
        if topic.topic not in topics:
            if topic.topic in denied:
                code = int(Code.TOPIC_AUTHORIZATION_FAILED)
                answers = [EpochEndOffset(error_code=code, partition=one.partition) for one in topic.partitions]
            else:
                answers = [_partition(call, topic.topic, one) for one in topic.partitions]
            topics[topic.topic] = OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers)
    return OffsetForLeaderEpochResponse(topics=list(topics.values()))


def _refuse(request: OffsetForLeaderEpochRequest, version: int, code: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(error_code=code, partition=one.partition) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


API = Api(OffsetForLeaderEpochRequest, 2, 4, _handle, _refuse)


def _denied_topics(call: ApiCall) -> Collection[str]:
    """Return the topics that the client may not describe; followers, with CLUSTER_ACTION, may describe all topics."""
    if is_authorized_on_cluster(call, AclOperation.CLUSTER_ACTION):
        return ()
    names = (topic.topic for topic in call.request.topics)
    return denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)


def _partition(call: ApiCall, topic: str, one: OffsetForLeaderPartition) -> EpochEndOffset:
    partition, code = call.node.leader_replica(TopicPartition(topic, one.partition), one.current_leader_epoch)
    if partition is None:
        return EpochEndOffset(error_code=code, partition=one.partition)
    epoch, end = partition.log.end_of_epoch(one.leader_epoch)
    return EpochEndOffset(error_code=0, partition=one.partition, leader_epoch=epoch, end_offset=end)
