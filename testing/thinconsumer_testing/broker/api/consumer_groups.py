"""The APIs of consumer groups (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe, versions 0 and 1.

Follows ``KafkaApis.handleConsumerGroupHeartbeat`` and ``handleConsumerGroupDescribe``.
"""

from __future__ import annotations

from thinconsumer.wire import Message
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedConsumerGroup

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import authorized_operations, denied_names, is_authorized
from ..call import Api, ApiCall, error_code_in
from ..group.consumer.heartbeat import HeartbeatCall


def consumer_group_heartbeat(call: ApiCall) -> Message | None:
    """ConsumerGroupHeartbeat: join a consumer group, stay in it, acknowledge revocations, and leave.

    Clients may subscribe only to topics that they may describe. A regular expression matches no other topics.
    """
    request: ConsumerGroupHeartbeatRequest = call.request
    if not is_authorized(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=int(Code.GROUP_AUTHORIZATION_FAILED))
    names = request.subscribed_topic_names or []
    if denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return ConsumerGroupHeartbeatResponse(error_code=int(Code.TOPIC_AUTHORIZATION_FAILED))
    heartbeat = HeartbeatCall(
        request,
        call.client_id,
        call.client_host,
        lambda topics: denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, topics),
    )
    call.node.group_coordinator.consumer_heartbeat(heartbeat, call.version, call.reply)
    return None


def consumer_group_describe(call: ApiCall) -> Message:
    """ConsumerGroupDescribe: the state, the epochs, and the members of consumer groups with their assignments."""
    request: ConsumerGroupDescribeRequest = call.request
    denied = denied_names(call, AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    requested = [name for name in request.group_ids if name not in denied]
    code = int(Code.GROUP_AUTHORIZATION_FAILED)
    groups = [DescribedConsumerGroup(group_id=name, error_code=code) for name in request.group_ids if name in denied]
    for group in call.node.group_coordinator.describe_consumer_groups(requested):
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group.group_id)
        groups.append(_without_hidden_topics(call, group))
    return ConsumerGroupDescribeResponse(groups=groups)


def _without_hidden_topics(call: ApiCall, group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    """Return the group, or an error in its place if a member has partitions of a topic hidden from the client."""
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not denied_names(call, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return group
    return DescribedConsumerGroup(
        group_id=group.group_id,
        error_code=int(Code.TOPIC_AUTHORIZATION_FAILED),
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )


def _refuse_describe(request: ConsumerGroupDescribeRequest, version: int, code: int) -> Message:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(group_id=name, error_code=code) for name in request.group_ids]
    )


APIS = (
    Api(ConsumerGroupHeartbeatRequest, 0, 1, consumer_group_heartbeat, error_code_in(ConsumerGroupHeartbeatResponse)),
    Api(ConsumerGroupDescribeRequest, 0, 1, consumer_group_describe, _refuse_describe),
)
