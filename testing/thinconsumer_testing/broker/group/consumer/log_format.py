"""Records of consumer groups in ``__consumer_offsets``: the group, its members, their targets and current assignments.

Keys are written like those of classic groups: the type in two bytes, then the fields. Follows the files
``ConsumerGroup*Key.json`` and ``ConsumerGroup*Value.json`` of Kafka's ``group-coordinator``, version 4.3.
"""

from collections.abc import Mapping

from thinconsumer.wire import Message
from thinconsumer.wire.schema import Struct, array, binary, int8, int32, int64, string, struct, uuid

#: Key types.
GROUP_EPOCH, PARTITION_METADATA, MEMBER_METADATA = 3, 4, 5
TARGET_EPOCH, TARGET_MEMBER, CURRENT_ASSIGNMENT = 6, 7, 8
REGULAR_EXPRESSION = 16

#: The version in which all values are written; there is no other yet.
VALUE_VERSION = 0


class ConsumerGroupMetadataKey(Message, versions=(GROUP_EPOCH, GROUP_EPOCH)):
    group_id: str = string("0+")


class ConsumerGroupMetadataValue(Message, versions=(VALUE_VERSION, VALUE_VERSION), flexible=0):
    """The epoch of a group, and a hash of the metadata of its topics."""

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0, ignorable=True)


class ConsumerGroupPartitionMetadataKey(Message, versions=(PARTITION_METADATA, PARTITION_METADATA)):
    """The key of the record that held the metadata of a group's topics before Kafka 4.1; now the group has a hash."""

    group_id: str = string("0+")


class ConsumerGroupMemberMetadataKey(Message, versions=(MEMBER_METADATA, MEMBER_METADATA)):
    group_id: str = string("0+")
    member_id: str = string("0+")


class ClassicProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, versions=(VALUE_VERSION, VALUE_VERSION), flexible=0):
    """The subscription of a member, and how its client is configured."""

    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", default=None, tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=(TARGET_EPOCH, TARGET_EPOCH)):
    group_id: str = string("0+")


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=(VALUE_VERSION, VALUE_VERSION), flexible=0):
    """The group epoch for which the target assignment was computed, and the time (KIP-1263)."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=(TARGET_MEMBER, TARGET_MEMBER)):
    group_id: str = string("0+")
    member_id: str = string("0+")


class TargetTopicPartitions(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=(VALUE_VERSION, VALUE_VERSION), flexible=0):
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=(CURRENT_ASSIGNMENT, CURRENT_ASSIGNMENT)):
    group_id: str = string("0+")
    member_id: str = string("0+")


class OwnedTopicPartitions(Struct):
    """Partitions of one topic that a member owns, and the epochs in which they were assigned (KIP-1251)."""

    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")
    assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=0, ignorable=True)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=(VALUE_VERSION, VALUE_VERSION), flexible=0):
    """The epoch of a member, the partitions that it owns, and those that it has to revoke."""

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[OwnedTopicPartitions] = array(OwnedTopicPartitions, "0+")
    partitions_pending_revocation: list[OwnedTopicPartitions] = array(OwnedTopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(Message, versions=(REGULAR_EXPRESSION, REGULAR_EXPRESSION)):
    group_id: str = string("0+")
    regular_expression: str = string("0+")


class ConsumerGroupRegularExpressionValue(Message, versions=(VALUE_VERSION, VALUE_VERSION), flexible=0):
    """The topics that match a regular expression, and the metadata version and the time of the look-up."""

    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")


#: The keys of consumer groups by their types.
CONSUMER_KEYS: Mapping[int, type[Message]] = {
    kind.VERSIONS[0]: kind
    for kind in (
        ConsumerGroupMetadataKey,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupRegularExpressionKey,
    )
}
