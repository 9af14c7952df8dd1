"""CreateTopics versions 2 to 7: create topics through the controller.

Follows ``ControllerApis.createTopics`` and ``ReplicationControlManager.createTopics``: all names and configs are
validated first, then each topic is created independently. Version 5 adds the configs to the response (KIP-525), version
7 the topic id.
"""

from collections import Counter
from collections.abc import Collection

from thinconsumer.errors import IllegalArgumentError
from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized, is_authorized_on_cluster
from ..call import Api, ApiCall
from ..controller import ControllerError
from ..forwarding import to_controller
from ..naming import CLUSTER_METADATA_TOPIC
from ..topic_configs import describe_topic_configs, validate_topic_configs

#: Maximum number of metadata records that a request may need: one for each topic, partition and config.
RECORDS_MAX = 10_000
BY_DEFAULT = -1


def _handle(call: ApiCall) -> Message:
    request: CreateTopicsRequest = call.request
    counts = Counter(topic.name for topic in request.topics)
    candidates = [one for one in request.topics if counts[one.name] == 1 and one.name != CLUSTER_METADATA_TOPIC]
    denied: Collection[str] = ()
    if not is_authorized_on_cluster(call, AclOperation.CREATE):
        names = (topic.name for topic in candidates)
        denied = denied_names(call, AclOperation.CREATE, ResourceType.TOPIC, names)
        candidates = [topic for topic in candidates if topic.name not in denied]
    if sum(_records(topic) for topic in candidates) > RECORDS_MAX:
        excess = ControllerError(Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        return CreateTopicsResponse(topics=[_failed(topic.name, excess) for topic in request.topics])
    errors = {topic.name: error for topic in candidates if (error := _name_or_config_error(call, topic)) is not None}
    results = [
        _failed(topic.name, errors[topic.name]) if topic.name in errors else _create(call, topic)
        for topic in candidates
    ]
    refusal = ControllerError(Code.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    results += [_failed(name, refusal) for name in denied]
    for name, count in counts.items():
        if count > 1:
            results.append(_failed(name, ControllerError(Code.INVALID_REQUEST, "Duplicate topic name.")))
    if counts[CLUSTER_METADATA_TOPIC] == 1:
        error = ControllerError(Code.INVALID_REQUEST, f"Creating {CLUSTER_METADATA_TOPIC} is prohibited.")
        results.append(_failed(CLUSTER_METADATA_TOPIC, error))
    return CreateTopicsResponse(topics=results)


def _refuse(request: CreateTopicsRequest, version: int, code: int) -> CreateTopicsResponse:
    error = ControllerError(Code(code), BY_CODE[code].text)
    return CreateTopicsResponse(topics=[_failed(topic.name, error) for topic in request.topics])


API = Api(CreateTopicsRequest, 2, 7, to_controller(_handle, _refuse), _refuse)


def _records(topic: CreatableTopic) -> int:
    return 1 + max(1, topic.num_partitions, len(topic.assignments)) + len(topic.configs)


def _name_or_config_error(call: ApiCall, topic: CreatableTopic) -> ControllerError | None:
    """Return the error in a topic's name or configs, None if both are valid."""
    try:
        call.node.cluster.controller.validate_topic_name(topic.name)
        configs = {config.name: config.value for config in topic.configs}
        for name, value in configs.items():
            if value is None:
                raise IllegalArgumentError(f"Null value not supported for topic configs: {name}")
        validate_topic_configs({name: value for name, value in configs.items() if value is not None})
    except ControllerError as error:
        return error
    except IllegalArgumentError as error:
        return ControllerError(Code.INVALID_CONFIG, str(error))
    return None


def _create(call: ApiCall, topic: CreatableTopic) -> CreatableTopicResult:
    node = call.node
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        created = node.cluster.controller.create_topic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            configs,
            _assignment(topic),
            validate_only=call.request.validate_only,
        )
    except ControllerError as error:
        return _failed(topic.name, error)
    if not is_authorized(call, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        # As in Kafka the response then has neither configs nor counts.
        return CreatableTopicResult(
            name=topic.name,
            topic_id=created.topic_id,
            error_code=0,
            error_message=None,
            topic_config_error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
            configs=[],
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=created.topic_id,
        error_code=0,
        error_message=None,
        num_partitions=len(created.partitions),
        replication_factor=len(created.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.setting.name,
                value=entry.value,
                read_only=False,
                config_source=int(entry.source),
                is_sensitive=False,
            )
            for entry in describe_topic_configs(configs, node.config)
        ],
    )


def _assignment(topic: CreatableTopic) -> dict[int, list[int]] | None:
    if not topic.assignments:
        return None
    for name in ("replication_factor", "num_partitions"):
        if getattr(topic, name) != BY_DEFAULT:
            raise ControllerError(
                Code.INVALID_REQUEST, f"{name} is {getattr(topic, name)}, but must be -1 with manual assignments."
            )
    assignment = {one.partition_index: list(one.broker_ids) for one in topic.assignments}
    if len(assignment) < len(topic.assignments):
        raise ControllerError(Code.INVALID_REPLICA_ASSIGNMENT, "A partition has more than one manual assignment.")
    if set(assignment) != set(range(len(assignment))):
        raise ControllerError(
            Code.INVALID_REPLICA_ASSIGNMENT, "The assigned partitions must be 0, 1, 2, ... without gaps."
        )
    return assignment


def _failed(name: str, error: ControllerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])
