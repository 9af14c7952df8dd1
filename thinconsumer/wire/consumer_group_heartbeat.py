"""ConsumerGroupHeartbeat (key 68): the one request of the next-generation group protocol (KIP-848).

Flexible from the start. Joining, leaving, keeping alive and moving partitions are all heartbeats: the coordinator
assigns, the member acknowledges. Version 1 adds subscription by a regular expression that the broker evaluates, and
expects the member to choose its own id (KIP-1082).
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, int16, int32, string, struct, uuid


@dataclass(slots=True, kw_only=True)
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


@dataclass(slots=True, kw_only=True)
class ConsumerGroupAssignment(Struct):
    """What the member is to own; it gives up the rest first."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch, and its target assignment when that has changed."""

    API_KEY = 68
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: ConsumerGroupAssignment | None = struct(ConsumerGroupAssignment, "0+", nullable="0+", default=None)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest(Message):
    """Join (epoch 0), stay, or leave (-1, or -2 for a static member). None means unchanged since the last one."""

    API_KEY = 68
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    RESPONSE = ConsumerGroupHeartbeatResponse

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
