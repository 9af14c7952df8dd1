"""ConsumerGroupPositions (key 25301, not Kafka's): members of a group exchange positions through the group's
coordinator.

A member sends a request after one or more heartbeat intervals while it waits for the position of another member, or
while the previous response has asked for one of its own positions. Works for members of classic groups, with their
generation, and of consumer groups, with their member epoch (KIP-848).
"""

from .consumer_group_heartbeat import TopicPartitions
from .message import Message
from .schema import Struct, array, int16, int32, int64, string, uuid


class PartitionPosition(Struct):
    """The offset of the next record that the group consumes in a partition: all records before it are consumed. -1 if
    the coordinator has no position.
    """

    partition_index: int = int32("0+")
    position: int = int64("0+", default=-1)


class TopicPositions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[PartitionPosition] = array(PartitionPosition, "0+")


class ConsumerGroupPositionsResponse(Message, key=25_301, versions=(0, 0), flexible=0):
    """The positions that this member has asked for, and the partitions of which any member wants the position.

    ``requested`` has the position that the coordinator keeps for each of these partitions. The partition's owner sends
    its position with the next request if the coordinator has none, and later when it may be of use to other members. A
    position is dropped when the coordinator moves, or when its sender gets another generation or member epoch.
    """

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    positions: list[TopicPositions] = array(TopicPositions, "0+")
    requested: list[TopicPositions] = array(TopicPositions, "0+")


class ConsumerGroupPositionsRequest(Message, response=ConsumerGroupPositionsResponse):
    """Send positions of own partitions, and replace the list of partitions of which this member wants the position."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("0+")
    group_instance_id: str | None = string("0+", nullable="0+", default=None)
    positions: list[TopicPositions] = array(TopicPositions, "0+")
    wanted: list[TopicPartitions] = array(TopicPartitions, "0+")
