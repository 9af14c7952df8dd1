"""OffsetCommit (key 8): commit a group's offsets.

Version 1 stores offsets in Kafka instead of ZooKeeper, and adds member id and generation; only version 1 has a
timestamp per partition. Version 2 takes a retention time, which version 5 removes. Version 6 adds leader epochs
(KIP-320), version 7 the group instance id (KIP-345), version 8 is flexible, version 9 accepts members of KIP-848 groups
(``generation_id_or_member_epoch``), version 10 names topics by id. Brokers from 4.0 on support version 2 and above.
"""

from .message import Message
from .schema import Struct, array, int16, int32, int64, string, uuid


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")


class OffsetCommitResponse(Message, key=8, versions=(0, 10), flexible=8):
    """The outcome for each partition; an error that concerns the whole group is repeated in all of them."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")


class OffsetCommitRequestPartition(Struct):
    """The committed offset of one partition (the offset of the *next* record to read), and its metadata string."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")


class OffsetCommitRequest(Message, response=OffsetCommitResponse):
    """Commit offsets of a group, as a member with its member id and generation. A client that is not a member sends
    neither of them, and can only commit while the group has no members.
    """

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")
