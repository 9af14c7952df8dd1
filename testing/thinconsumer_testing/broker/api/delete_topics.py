"""DeleteTopics versions 1 to 6: delete topics by name, from version 6 on also by id.

Follows ``ControllerApis.deleteTopics``: a topic that the request contains twice (by name, by id, or once by each) is
not deleted.
"""

from collections import Counter
from collections.abc import Collection

from thinconsumer.wire import ZERO_UUID, Message
from thinconsumer.wire.error_codes import BY_CODE, Code
from thinconsumer.wire.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized_on_cluster
from ..call import Api, ApiCall
from ..controller import Controller, ControllerError
from ..forwarding import to_controller

FIRST_WITH_IDS = 6


def _handle(call: ApiCall) -> Message:
    request: DeleteTopicsRequest = call.request
    controller = call.node.cluster.controller
    results: list[DeletableTopicResult] = []
    names, ids = _count(request, results)
    hidden, undeletable = _denied_topics(call, names, ids)
    to_delete: dict[bytes, str] = {}
    for topic_id, count in ids.items():
        name = controller.image.names_by_id.get(topic_id)
        if count > 1:
            results.append(_failed(None, topic_id, Code.INVALID_REQUEST, "Duplicate topic id."))
        elif name is None:
            results.append(_failed(None, topic_id, Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."))
        elif name in undeletable:
            results.append(_unauthorized(None if name in hidden else name, topic_id))
        else:
            to_delete[topic_id] = name
    for name, count in names.items():
        topic = controller.image.topics.get(name)
        if count > 1:
            results.append(_failed(name, ZERO_UUID, Code.INVALID_REQUEST, "Duplicate topic name."))
        elif name in hidden:
            results.append(_unauthorized(name, ZERO_UUID))
        elif topic is None:
            results.append(_failed(name, ZERO_UUID, Code.UNKNOWN_TOPIC_OR_PARTITION, "There is no such topic."))
        elif name in undeletable:
            results.append(_unauthorized(name, ZERO_UUID))
        elif ids[topic.topic_id]:
            to_delete.pop(topic.topic_id, None)
            results.append(
                _failed(name, topic.topic_id, Code.INVALID_REQUEST, "The topic was also specified by its id.")
            )
        else:
            to_delete[topic.topic_id] = name
    results += [_delete(controller, name, topic_id) for topic_id, name in to_delete.items()]
    return DeleteTopicsResponse(responses=results)


def _refuse(request: DeleteTopicsRequest, version: int, code: int) -> DeleteTopicsResponse:
    topics = _states(request, version)
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=code) for one in topics]
    )


API = Api(DeleteTopicsRequest, 1, 6, to_controller(_handle, _refuse), _refuse)


def _states(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    if version >= FIRST_WITH_IDS:
        return request.topics
    return [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]


def _count(request: DeleteTopicsRequest, results: list[DeletableTopicResult]) -> tuple[Counter[str], Counter[bytes]]:
    """Return how often the request contains each topic name and each topic id. An entry with neither name nor id, or
    with both, adds INVALID_REQUEST to ``results``.
    """
    names = Counter(request.topic_names)
    ids: Counter[bytes] = Counter()
    for topic in request.topics:
        if topic.name is None:
            if topic.topic_id == ZERO_UUID:
                results.append(
                    _failed(None, ZERO_UUID, Code.INVALID_REQUEST, "Neither topic name nor id were specified.")
                )
            else:
                ids[topic.topic_id] += 1
        elif topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        else:
            results.append(
                _failed(topic.name, topic.topic_id, Code.INVALID_REQUEST, "Both topic name and id were specified.")
            )
    return names, ids


def _denied_topics(call: ApiCall, names: Counter[str], ids: Counter[bytes]) -> tuple[Collection[str], Collection[str]]:
    """Return the requested topics that the client may not describe, and those that it may not delete."""
    if is_authorized_on_cluster(call, AclOperation.DELETE):
        return (), ()
    names_by_id = call.node.cluster.controller.image.names_by_id
    requested = {*names, *(names_by_id[topic_id] for topic_id in ids if topic_id in names_by_id)}
    return (
        denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, requested),
        denied_names(call, AclOperation.DELETE, ResourceType.TOPIC, requested),
    )


def _unauthorized(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    code = Code.TOPIC_AUTHORIZATION_FAILED
    return _failed(name, topic_id, code, BY_CODE[code].text)


def _delete(controller: Controller, name: str, topic_id: bytes) -> DeletableTopicResult:
    try:
        controller.delete_topic(name)
    except ControllerError as error:
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=0)


def _failed(name: str | None, topic_id: bytes, code: Code, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=int(code), error_message=message)
