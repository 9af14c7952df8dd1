"""ConsumerGroupDescribe (key 69): the state, the epochs and the members of consumer groups (KIP-848).

Version 1 tells whether a member uses the classic or the consumer group protocol (KIP-1099).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, boolean, int8, int16, int32, string, struct, uuid


class DescribedTopicPartitions(Struct):
    """Some partitions of a topic."""

    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class DescribedAssignment(Struct):
    """Partitions that a member owns, or that are assigned to it."""

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
    """The state, the epochs and the members of one group, or an error."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[DescribedConsumerMember] = array(DescribedConsumerMember, "0+")
    authorized_operations: int = int32("0+", default=-(2**31))


class ConsumerGroupDescribeResponse(Message):
    """The description of each group."""

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: int = int32("0+")
    groups: list[DescribedConsumerGroup] = array(DescribedConsumerGroup, "0+")


class ConsumerGroupDescribeRequest(Message):
    """Request descriptions of groups; sent to the broker that is the coordinator of all of them."""

    RESPONSE = ConsumerGroupDescribeResponse

    group_ids: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("0+")
