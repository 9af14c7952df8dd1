"""OffsetDelete version 0: delete some committed offsets of a group (KIP-496). Follows
``KafkaApis.handleOffsetDeleteRequest``.
"""

from dataclasses import replace

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestTopic, OffsetDeleteResponse

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import denied_names, is_authorized
from ..call import Api, ApiCall, error_code_in
from ..group.committing import deletion_results
from .offset_commit import merged_topics, split_by_existence

_refuse = error_code_in(OffsetDeleteResponse)


def _handle(call: ApiCall) -> Message | None:
    """Reject partitions that do not exist, or that the client may not read; let the group coordinator delete the
    offsets of the others.

    Kafka asks the coordinator also if no partition is left, so that the group's errors are returned.
    """
    request: OffsetDeleteRequest = call.request
    if not is_authorized(call, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return _refuse(request, call.version, int(Code.GROUP_AUTHORIZATION_FAILED))
    denied = denied_names(call, AclOperation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    refused = OffsetDeleteResponse()
    existing: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        if topic.name in denied:
            refused.topics.append(deletion_results(topic, Code.TOPIC_AUTHORIZATION_FAILED))
            continue
        known, unknown = split_by_existence(topic.partitions, call.node.image.topics.get(topic.name))
        if unknown:
            missing = replace(topic, partitions=unknown)
            refused.topics.append(deletion_results(missing, Code.UNKNOWN_TOPIC_OR_PARTITION))
        if known:
            existing.append(replace(topic, partitions=known))

    def reply(found: OffsetDeleteResponse) -> None:
        if not found.error_code:
            found.topics = merged_topics([*refused.topics, *found.topics], "name")
        call.reply(found)

    call.node.group_coordinator.delete_offsets(replace(request, topics=existing), reply)
    return None


API = Api(OffsetDeleteRequest, 0, 0, _handle, _refuse)
