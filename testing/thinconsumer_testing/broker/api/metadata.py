"""Metadata versions 0 to 13: brokers and topics from this broker's copy of the cluster metadata, which may be outdated.

Follows ``KafkaApis.handleTopicMetadataRequest`` and ``KRaftMetadataCache``. Version 0 requests all topics by an empty
list and omits offline replicas; version 4 adds allow_auto_topic_creation, 5 offline replicas, 7 leader epochs, 10 topic
ids, 12 requests by topic id. The controller id is that of any live broker, because clients cannot connect to a KRaft
controller (KIP-590). A missing topic is created in the background, if that is allowed: the response has
UNKNOWN_TOPIC_OR_PARTITION, and the response to a later request has the topic.
"""

from collections.abc import Collection

from thinconsumer.wire import ZERO_UUID, Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import authorized_operations, cluster_operations, denied_names, is_authorized_on_cluster
from ..call import Api, ApiCall
from ..controller import CONTROLLER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ControllerError
from ..image import ClusterImage, PartitionImage
from ..naming import is_internal, topic_name_error

FIRST_WITH_IDS = 12


def _handle(call: ApiCall) -> Message:
    request, version, node = call.request, call.version, call.node
    image = node.image
    code = _check(request, version)
    if code:
        return _refuse(request, version, code)
    response = MetadataResponse(
        cluster_id=image.cluster_id,
        controller_id=any_broker(call),
        brokers=[
            MetadataResponseBroker(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in image.brokers.values()
        ],
    )
    for topic_id in _unknown_ids(request, image):
        response.topics.append(
            MetadataResponseTopic(error_code=int(Code.UNKNOWN_TOPIC_ID), name=None, topic_id=topic_id)
        )
    names = _names(request, version, image)
    hidden = denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    uncreatable = _uncreatable(call, [name for name in names if name not in hidden])
    prepared = [_describe(call, name) for name in names if name not in hidden and name not in uncreatable]
    if request.include_topic_authorized_operations:
        for topic in prepared:
            topic.topic_authorized_operations = authorized_operations(call, ResourceType.TOPIC, topic.name or "")
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call)
    denied = int(Code.TOPIC_AUTHORIZATION_FAILED)
    response.topics += prepared
    response.topics += [
        MetadataResponseTopic(error_code=denied, name=name, is_internal=is_internal(name)) for name in uncreatable
    ]
    if not _requests_all(request, version):
        response.topics += [_hidden(request, name, image) for name in hidden]
    return response


def _refuse(request: MetadataRequest, version: int, code: int) -> MetadataResponse:
    """Return a response with an error code for every requested topic and, in version 13, at the top level."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


API = Api(MetadataRequest, 0, 13, _handle, _refuse)


def any_broker(call: ApiCall) -> int:
    """Return the id of a random live broker, to be sent as the controller id; -1 if no broker is live."""
    alive = sorted(call.node.image.brokers)
    return alive[call.node.random.randrange(len(alive))] if alive else -1


def _check(request: MetadataRequest, version: int) -> int:
    for topic in request.topics or ():
        if version < FIRST_WITH_IDS and (topic.name is None or topic.topic_id != ZERO_UUID):
            return int(Code.INVALID_REQUEST)
        if topic.name is None and topic.topic_id == ZERO_UUID:
            # Kafka fails with an unexpected exception on a topic with neither name nor id, and responds with this code.
            return int(Code.UNKNOWN_SERVER_ERROR)
    return 0


def _requests_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _has_ids(request: MetadataRequest) -> bool:
    return any(topic.topic_id != ZERO_UUID for topic in request.topics or ())


def _names(request: MetadataRequest, version: int, image: ClusterImage) -> list[str]:
    if request.topics is None or _requests_all(request, version):
        return list(image.topics)
    if _has_ids(request):
        # If at least one entry of the request has a topic id, Kafka ignores the entries with only a name.
        found = (image.names_by_id.get(topic.topic_id) for topic in request.topics)
        return list(dict.fromkeys(name for name in found if name is not None))
    return list(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None))


def _unknown_ids(request: MetadataRequest, image: ClusterImage) -> list[bytes]:
    requested_ids = dict.fromkeys(topic.topic_id for topic in request.topics or ())
    return [topic_id for topic_id in requested_ids if topic_id != ZERO_UUID and topic_id not in image.names_by_id]


def _uncreatable(call: ApiCall, names: list[str]) -> Collection[str]:
    """Return the missing topics that this request would create, but that the client may not create."""
    if not (call.request.allow_auto_topic_creation and call.node.config.auto_create_topics_enable):
        return ()
    missing = [name for name in names if name not in call.node.image.topics]
    if not missing or is_authorized_on_cluster(call, AclOperation.CREATE):
        return ()
    return denied_names(call, AclOperation.CREATE, ResourceType.TOPIC, missing)


def _hidden(request: MetadataRequest, name: str, image: ClusterImage) -> MetadataResponseTopic:
    """Return the entry of a topic that the client may not describe. It has only the name or the id of the request. An
    entry with a name is the same whether the topic exists or not; unknown ids get UNKNOWN_TOPIC_ID instead.
    """
    code = int(Code.TOPIC_AUTHORIZATION_FAILED)
    if _has_ids(request):
        return MetadataResponseTopic(error_code=code, name=None, topic_id=image.topics[name].topic_id)
    return MetadataResponseTopic(error_code=code, name=name)


def _describe(call: ApiCall, name: str) -> MetadataResponseTopic:
    image = call.node.image
    topic = image.topics.get(name)
    if topic is not None:
        described = MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=topic.topic_id,
            is_internal=is_internal(name),
            partitions=[_partition(row, image, call.version) for row in topic.partitions],
        )
        if topic.ordered is not None:
            described.initial_partition_count = topic.ordered.initial_partition_count
            described.undeleted_partition_count = topic.ordered.undeleted_partition_count
            described.partition_count_epoch = topic.ordered.partition_count_epoch
        return described
    if topic_name_error(name) is not None:
        code = Code.INVALID_TOPIC_EXCEPTION
    else:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION
        if call.request.allow_auto_topic_creation and call.node.config.auto_create_topics_enable:
            _create(call, name)
    return MetadataResponseTopic(error_code=int(code), name=name, is_internal=is_internal(name))


def _create(call: ApiCall, name: str) -> None:
    cluster = call.node.cluster
    if not cluster.reachable(call.node.node_id, CONTROLLER):
        return
    try:
        if name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            cluster.controller.ensure_internal_topic(name)
        else:
            cluster.controller.create_topic(name)
    except ControllerError:
        pass  # the response has UNKNOWN_TOPIC_OR_PARTITION in any case; Kafka only logs why the creation failed


def _partition(row: PartitionImage, image: ClusterImage, version: int) -> MetadataResponsePartition:
    alive = image.brokers
    offline = [node for node in row.replicas if node not in alive]
    code = 0
    if row.leader not in alive:
        code = int(Code.LEADER_NOT_AVAILABLE)
    elif version == 0 and offline:
        code = int(Code.REPLICA_NOT_AVAILABLE)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=row.partition,
        leader_id=row.leader if row.leader in alive else -1,
        leader_epoch=row.leader_epoch,
        replica_nodes=[node for node in row.replicas if version > 0 or node in alive],
        isr_nodes=[node for node in row.isr if version > 0 or node in alive],
        offline_replicas=offline,
    )
