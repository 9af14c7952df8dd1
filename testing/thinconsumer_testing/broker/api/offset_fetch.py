"""OffsetFetch versions 1 to 10: a group's committed offsets.

From version 2 on a request with null topics gets all offsets of the group, and the response has an error code for the
group. Version 7 adds require_stable: partitions with offsets of an ongoing transaction get UNSTABLE_OFFSET_COMMIT
(KIP-447). Version 8 adds several groups (KIP-709), version 10 topic ids. Follows ``KafkaApis.handleOffsetFetchRequest``
and ``OffsetFetchResponse``.
"""

from collections.abc import Callable
from dataclasses import replace

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from thinconsumer.wire.schema import ZERO_UUID

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized
from ..call import Api, ApiCall
from ..image import ClusterImage

GROUP_ERRORS_FROM = 2
MANY_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10


def _handle(call: ApiCall) -> Message | None:
    request: OffsetFetchRequest = call.request
    groups = _groups(request, call.version)
    answers: dict[int, OffsetFetchResponseGroup] = {}

    def collect(number: int, answer: OffsetFetchResponseGroup) -> None:
        answers[number] = answer
        if len(answers) == len(groups):
            call.reply(_response([answers[n] for n in range(len(groups))], call.version))

    for number, group in enumerate(groups):
        _ask(call, group, lambda answer, number=number: collect(number, answer))  # type: ignore[misc]
    return None if groups else OffsetFetchResponse()


def _refuse(request: OffsetFetchRequest, version: int, code: int) -> OffsetFetchResponse:
    return _response([_group_error(group, version, code) for group in _groups(request, version)], version)


API = Api(OffsetFetchRequest, 1, 10, _handle, _refuse)


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= MANY_GROUPS_FROM:
        return request.groups
    topics = request.topics
    named = None
    if topics is not None:
        named = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=named)]


def _ask(call: ApiCall, group: OffsetFetchRequestGroup, reply: Callable[[OffsetFetchResponseGroup], None]) -> None:
    image = call.node.image
    by_id = call.version >= TOPIC_IDS_FROM
    if not is_authorized(call, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        reply(_group_error(group, call.version, int(Code.GROUP_AUTHORIZATION_FAILED)))
        return
    known, refused = _translated(image, group) if by_id else (group, [])
    known = _without_denied(call, known, refused)

    def answer(code: int, topics: list[OffsetFetchResponseTopics]) -> None:
        if code:
            reply(_group_error(group, call.version, code))
            return
        if group.topics is None:
            hidden = denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in topics))
            topics = [topic for topic in topics if topic.name not in hidden]
        if by_id and group.topics is None:
            topics = _with_ids(image, topics)
        reply(OffsetFetchResponseGroup(group_id=group.group_id, topics=[*topics, *refused]))

    call.node.group_coordinator.fetch_offsets(known, call.request.require_stable, answer)


def _translated(
    image: ClusterImage, group: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """Return the group's request with names in place of topic ids, and error entries for the unknown topic ids."""
    if group.topics is None:
        return group, []
    known: list[OffsetFetchRequestTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in group.topics:
        name = image.names_by_id.get(topic.topic_id)
        if name is not None:
            known.append(replace(topic, name=name))
        else:
            unknown.append(_topic_error(topic, int(Code.UNKNOWN_TOPIC_ID)))
    return replace(group, topics=known), unknown


def _without_denied(
    call: ApiCall, group: OffsetFetchRequestGroup, refused: list[OffsetFetchResponseTopics]
) -> OffsetFetchRequestGroup:
    """Return the group's request without the topics that the client may not describe; add error entries for these."""
    if group.topics is None:
        return group
    names = (topic.name for topic in group.topics)
    denied = denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    if not denied:
        return group
    code = int(Code.TOPIC_AUTHORIZATION_FAILED)
    refused += [_topic_error(topic, code) for topic in group.topics if topic.name in denied]
    return replace(group, topics=[topic for topic in group.topics if topic.name not in denied])


def _with_ids(image: ClusterImage, topics: list[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
    """Set the topic ids of the response; omit topics without a known id, because version 10 has no topic names."""
    found = []
    for topic in topics:
        known = image.topics.get(topic.name)
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID or known is None else known.topic_id
        if topic_id != ZERO_UUID:
            found.append(replace(topic, topic_id=topic_id))
    return found


def _topic_error(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _group_error(group: OffsetFetchRequestGroup, version: int, code: int) -> OffsetFetchResponseGroup:
    if version >= GROUP_ERRORS_FROM:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=[_topic_error(topic, code) for topic in group.topics or []]
    )


def _response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= MANY_GROUPS_FROM:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[OffsetFetchResponseTopic(name=topic.name, partitions=topic.partitions) for topic in group.topics],
    )
