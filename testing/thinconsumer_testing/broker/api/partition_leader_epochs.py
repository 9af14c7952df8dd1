"""PartitionLeaderEpochsForPartitions version 0 (not Kafka's): for each requested partition, the last leader epochs of
its topic's other partitions before the requested one was created, and before it was marked for deletion (KIP-253).

They are taken from this broker's copy of the cluster metadata, which may be outdated.
"""

from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import TopicPartitions
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.partition_leader_epochs import (
    PartitionLeaderEpochs,
    PartitionLeaderEpochsForPartitionsRequest,
    PartitionLeaderEpochsForPartitionsResponse,
    PartitionLeaderEpochsTopicResult,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names
from ..call import Api, ApiCall
from ..image import TopicImage

#: A response ends with the partition that brings it to this many leader epochs: each partition has up to two for each
#: other partition of its topic. The client repeats the request for the partitions that the response lacks.
EPOCHS_MAX = 500_000


def _handle(call: ApiCall) -> Message:
    request: PartitionLeaderEpochsForPartitionsRequest = call.request
    image = call.node.image
    names = [image.names_by_id.get(topic.topic_id) for topic in request.topics]
    denied = denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, (name for name in names if name is not None))
    results: dict[bytes, PartitionLeaderEpochsTopicResult] = {}
    left = EPOCHS_MAX
    for topic, name in zip(request.topics, names, strict=True):
        if topic.topic_id in results or left <= 0:
            continue
        if name is None:
            result = _failed(topic, Code.UNKNOWN_TOPIC_ID)
        elif name in denied:
            result = _failed(topic, Code.TOPIC_AUTHORIZATION_FAILED)
        else:
            result = _describe(topic, image.topics[name], left)
            left -= sum(
                len(one.leader_epochs_after_creation) + len(one.leader_epochs_before_deletion)
                for one in result.partitions
            )
        results[topic.topic_id] = result
    return PartitionLeaderEpochsForPartitionsResponse(topics=list(results.values()))


def _refuse(
    request: PartitionLeaderEpochsForPartitionsRequest, version: int, code: int
) -> PartitionLeaderEpochsForPartitionsResponse:
    return PartitionLeaderEpochsForPartitionsResponse(topics=[_failed(topic, code) for topic in request.topics])


API = Api(PartitionLeaderEpochsForPartitionsRequest, 0, 0, _handle, _refuse)


def _failed(topic: TopicPartitions, code: int) -> PartitionLeaderEpochsTopicResult:
    return PartitionLeaderEpochsTopicResult(topic_id=topic.topic_id, error_code=int(code))


def _describe(requested: TopicPartitions, topic: TopicImage, limit: int) -> PartitionLeaderEpochsTopicResult:
    result = PartitionLeaderEpochsTopicResult(topic_id=topic.topic_id, error_code=0)
    if topic.ordered is not None:
        result.initial_partition_count = topic.ordered.initial_partition_count
        result.undeleted_partition_count = topic.ordered.undeleted_partition_count
        result.partition_count_epoch = topic.ordered.partition_count_epoch
    for number in dict.fromkeys(requested.partitions):
        if limit <= 0:
            break
        if not 0 <= number < len(topic.partitions):
            code = int(Code.UNKNOWN_TOPIC_OR_PARTITION)
            result.partitions.append(PartitionLeaderEpochs(partition_index=number, error_code=code))
            continue
        row = topic.partitions[number]
        created, deleted = row.leader_epochs_after_creation, row.leader_epochs_before_deletion
        limit -= len(created) + len(deleted)
        result.partitions.append(
            PartitionLeaderEpochs(
                partition_index=number,
                error_code=0,
                leader_epochs_after_creation=list(created),
                leader_epochs_before_deletion=list(deleted),
            )
        )
    return result
