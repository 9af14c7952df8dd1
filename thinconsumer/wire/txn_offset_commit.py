"""TxnOffsetCommit (key 28): commit a group's offsets inside a transaction (KIP-98).

Version 2 adds leader epochs, version 3 is flexible and adds member id and generation (KIP-447), version 5 adds the
offsets to the transaction implicitly (KIP-890), version 6 names topics by id and accepts members of KIP-848 groups
(KIP-1319, new in 4.4 brokers).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int16, int32, int64, string, uuid


class TxnOffsetCommitResponsePartition(Struct):
    """The result for one partition: error code 0 if its offset is now part of the transaction."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """The results for the partitions of one topic, named by ``name`` up to version 5 and by ``topic_id`` after."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")


class TxnOffsetCommitResponse(Message):
    """The outcome for each partition."""

    API_KEY = 28
    VERSIONS = (0, 6)
    FLEXIBLE = 3

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")


class TxnOffsetCommitRequestPartition(Struct):
    """The committed offset of one partition (the offset of the *next* record to read), and its metadata string."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """The offsets to commit for one topic, named by ``name`` up to version 5 and by ``topic_id`` after."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Message):
    """Commit offsets that take effect with the transaction's commit; sent to the group's coordinator."""

    RESPONSE = TxnOffsetCommitResponse

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")
