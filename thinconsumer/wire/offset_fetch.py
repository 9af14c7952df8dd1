"""OffsetFetch (key 9): read a group's committed offsets.

Version 0 reads offsets from ZooKeeper. From version 2 on ``topics=None`` requests all topics, and the response has an
error code for the group. Version 5 adds leader epochs (KIP-320), version 6 is flexible, version 7 adds
``require_stable``: offsets with an open transaction get UNSTABLE_OFFSET_COMMIT (KIP-447). Version 8 takes several
groups, each a struct of its own (KIP-709), version 9 accepts members of KIP-848 groups, version 10 names topics by id.
Brokers from 4.0 on support version 1 and above.
"""

from .message import Message
from .schema import Struct, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchResponsePartition(Struct):
    """The committed offset of one partition; -1 if there is none."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("5+", default=-1, ignorable=True)
    metadata: str | None = string("0+", nullable="0+")
    error_code: int = int16("0+")


class OffsetFetchResponseTopic(Struct):
    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponseTopics(Struct):
    """The committed offsets of one topic, in versions from 8 on; ``topic_id`` names the topic from version 10 on."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


class OffsetFetchResponse(Message, key=9, versions=(0, 10), flexible=6):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")


class OffsetFetchRequestTopic(Struct):
    name: str = string("0-7")
    partition_indexes: list[int] = array(int32, "0-7")


class OffsetFetchRequestTopics(Struct):
    """The requested partitions of one topic, in versions from 8 on; ``topic_id`` names the topic from version 10 on."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partition_indexes: list[int] = array(int32, "8+")


class OffsetFetchRequestGroup(Struct):
    """One group and the requested topics (all if None). Only members of KIP-848 groups send member id and epoch."""

    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


class OffsetFetchRequest(Message, response=OffsetFetchResponse):
    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")
