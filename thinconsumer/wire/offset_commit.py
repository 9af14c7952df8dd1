"""OffsetCommit (key 8): write down how far a group has read.

Version 1 ties a commit to a member and its generation, version 2 moves offsets into Kafka and lets the client choose
their retention, version 5 takes that back, version 6 adds leader epochs (KIP-320), version 7 static members (KIP-345),
version 8 is flexible, version 9 admits members of KIP-848 groups (``generation_id_or_member_epoch``), version 10 names
topics by id. Version 1 alone had a timestamp per partition. 4.0 brokers begin at version 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, int16, int32, int64, string, uuid


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponsePartition(Struct):
    """Whether one partition's offset was written."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponseTopic(Struct):
    """The answers for one topic, named by ``name`` up to version 9 and by ``topic_id`` after."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponse(Message):
    """One answer for each partition; an error of the whole group is repeated in all of them."""

    API_KEY = 8
    VERSIONS = (0, 10)
    FLEXIBLE = 8

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestPartition(Struct):
    """The *next* offset to read in one partition, and a note to keep with it."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestTopic(Struct):
    """The offsets of one topic, named by ``name`` up to version 9 and by ``topic_id`` after."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequest(Message):
    """Commit for a member of a group, or, without member and generation, for a group that has no members."""

    API_KEY = 8
    VERSIONS = (0, 10)
    FLEXIBLE = 8
    RESPONSE = OffsetCommitResponse

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")
