"""The APIs that describe, list and delete groups.

DescribeGroups (key 15): the state and the members of classic groups. Version 3 can include the operations that the
client is authorized for (KIP-430), version 4 adds group instance ids (KIP-345), version 5 is flexible, version 6
answers GROUP_ID_NOT_FOUND instead of a group in state Dead (KIP-1043).

ConsumerGroupDescribe (key 69): the state, the epochs and the members of consumer groups (KIP-848). Version 1 tells
whether a member uses the classic or the consumer group protocol (KIP-1099).

ListGroups (key 16): the groups that a broker coordinates. Version 3 is flexible, version 4 filters by state (KIP-518),
version 5 by type (KIP-848).

DeleteGroups (key 42): delete empty groups and their committed offsets (KIP-229). Version 2 is flexible, version 3 adds
error messages (new in 4.4 brokers).
"""

from .message import Message
from .schema import Struct, array, binary, boolean, int8, int16, int32, string, struct, uuid


class DescribedGroupMember(Struct):
    """One member of the group; its metadata and assignment are empty unless the group is in state Stable."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-(2**31))


class DescribeGroupsResponse(Message, key=15, versions=(0, 6), flexible=5):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class DescribeGroupsRequest(Message, response=DescribeGroupsResponse):
    """Request descriptions of groups; sent to the broker that is the coordinator of all of them."""

    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribedTopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class DescribedAssignment(Struct):
    topic_partitions: list[DescribedTopicPartitions] = array(DescribedTopicPartitions, "0+")


class DescribedConsumerMember(Struct):
    """One member; ``member_type`` is 0 for the classic protocol, 1 for the consumer protocol, -1 if unknown."""

    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: DescribedAssignment = struct(DescribedAssignment, "0+")
    target_assignment: DescribedAssignment = struct(DescribedAssignment, "0+")
    member_type: int = int8("1+", default=-1, ignorable=True)


class DescribedConsumerGroup(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[DescribedConsumerMember] = array(DescribedConsumerMember, "0+")
    authorized_operations: int = int32("0+", default=-(2**31))


class ConsumerGroupDescribeResponse(Message, key=69, versions=(0, 1), flexible=0):
    throttle_time_ms: int = int32("0+")
    groups: list[DescribedConsumerGroup] = array(DescribedConsumerGroup, "0+")


class ConsumerGroupDescribeRequest(Message, response=ConsumerGroupDescribeResponse):
    """Request descriptions of groups; sent to the broker that is the coordinator of all of them."""

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")


class ListedGroup(Struct):
    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Message, key=16, versions=(0, 5), flexible=3):
    """The groups that the broker coordinates. For the groups of the whole cluster, ask every broker."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")


class ListGroupsRequest(Message, response=ListGroupsResponse):
    """Request the groups that the broker coordinates; an empty filter (states, types) selects all groups."""

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(Message, key=42, versions=(0, 3), flexible=2):
    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")


class DeleteGroupsRequest(Message, response=DeleteGroupsResponse):
    """Delete groups; sent to their coordinator, which rejects groups of other coordinators with NOT_COORDINATOR."""

    groups_names: list[str] = array(string, "0+")
