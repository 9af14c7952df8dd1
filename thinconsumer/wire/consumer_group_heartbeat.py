"""ConsumerGroupHeartbeat (key 68): join a consumer group, stay in it, acknowledge revocations, and leave (KIP-848).

In version 0 the coordinator makes the member id if the request has none. Version 1 adds regular expressions that the
coordinator evaluates, and member ids are made by the client (KIP-1082).
"""

from .message import Message
from .schema import Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class HeartbeatAssignment(Struct):
    """The partitions that the member may own now, without those that other members still have to revoke."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupHeartbeatResponse(Message, key=68, versions=(0, 1), flexible=0):
    """The member's epoch, and its assignment if that has changed or the request had all fields."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: HeartbeatAssignment | None = struct(HeartbeatAssignment, "0+", nullable="0+", default=None)


class ConsumerGroupHeartbeatRequest(Message, response=ConsumerGroupHeartbeatResponse):
    """Tell the coordinator that the member is alive, and what has changed since the last heartbeat.

    ``member_epoch`` is 0 to join, -1 to leave, -2 if a static member leaves and will return. Fields that have not
    changed may be null, and ``rebalance_timeout_ms`` -1.
    """

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)
