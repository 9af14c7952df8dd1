"""CreatePartitions versions 0 to 3: increase the partition counts of topics (KIP-195). The counts of topics with
ordered delivery may also be decreased (KIP-253).

Follows ``ControllerApis.createPartitions`` and ``ReplicationControlManager.createPartitions``.
"""

from collections import Counter

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names
from ..call import Api, ApiCall
from ..controller import ControllerError
from ..forwarding import to_controller
from .create_topics import RECORDS_MAX


def _handle(call: ApiCall) -> Message:
    request: CreatePartitionsRequest = call.request
    counts = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(
            name=name, error_code=int(Code.INVALID_REQUEST), error_message="Duplicate topic name."
        )
        for name, count in counts.items()
        if count > 1
    ]
    names = (name for name, count in counts.items() if count == 1)
    denied = denied_names(call, AclOperation.ALTER, ResourceType.TOPIC, names)
    code = int(Code.TOPIC_AUTHORIZATION_FAILED)
    results += [CreatePartitionsTopicResult(name=name, error_code=code) for name in denied]
    results += [_grow(call, topic) for topic in request.topics if counts[topic.name] == 1 and topic.name not in denied]
    return CreatePartitionsResponse(results=results)


def _refuse(request: CreatePartitionsRequest, version: int, code: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    )


API = Api(CreatePartitionsRequest, 0, 3, to_controller(_handle, _refuse), _refuse)


def _grow(call: ApiCall, topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    controller = call.node.cluster.controller
    known = controller.image.topics.get(topic.name)
    if known is not None and topic.count - len(known.partitions) > RECORDS_MAX:
        # Kafka's controller fails with an unexpected exception if a topic gets more than RECORDS_MAX new partitions,
        # and responds with UNKNOWN_SERVER_ERROR.
        return CreatePartitionsTopicResult(name=topic.name, error_code=int(Code.UNKNOWN_SERVER_ERROR))
    assignment = None if topic.assignments is None else [list(one.broker_ids) for one in topic.assignments]
    try:
        if assignment is not None:
            controller.create_partitions(topic.name, topic.count, assignment, validate_only=True)
            _check_sizes(assignment, len(controller.image.topics[topic.name].partitions[0].replicas))
        controller.create_partitions(topic.name, topic.count, assignment, validate_only=call.request.validate_only)
    except ControllerError as error:
        # Kafka's CreatePartitions response has no error message for UNKNOWN_TOPIC_OR_PARTITION.
        message = None if error.code == Code.UNKNOWN_TOPIC_OR_PARTITION else error.message
        return CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=message)
    return CreatePartitionsTopicResult(name=topic.name, error_code=0)


def _check_sizes(assignment: list[list[int]], replicas: int) -> None:
    for one in assignment:
        if len(one) != replicas:
            raise ControllerError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"An assignment has {len(one)} replica(s), but the topic's partitions have {replicas}.",
            )
