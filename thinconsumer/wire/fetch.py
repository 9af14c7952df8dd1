"""Fetch (key 1): read record batches from the partitions that a broker leads or follows.

Version 3 bounds the whole response, version 4 brings isolation levels and record batches v2, version 5 the log's start.
Version 7 adds sessions (KIP-227), version 9 leader epochs (KIP-320), version 10 zstd, version 11 reading from the
replica nearest to the client's rack (KIP-392). Version 12 is flexible and tells of a diverging log or a newer leader in
the answer; version 13 names topics by id (KIP-516); version 15 folds what followers say of themselves into one struct
(KIP-903); version 16 adds where new leaders live (KIP-951). Versions 0 to 3 are gone from 4.0 brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

from .current_leader import LeaderIdAndEpoch, NodeEndpoint
from .message import Message
from .schema import Records, Struct, array, int8, int16, int32, int64, record_bytes, string, struct, uuid


@dataclass(slots=True, kw_only=True)
class FetchEpochEndOffset(Struct):
    """Where the log parted from what the reader holds: everything after it in that epoch is another history."""

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@dataclass(slots=True, kw_only=True)
class SnapshotId(Struct):
    """Where a follower of the metadata log has to load a snapshot from; of no concern to consumers."""

    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


@dataclass(slots=True, kw_only=True)
class AbortedTransaction(Struct):
    """A transaction that was rolled back: its producer and its first offset. They come in no particular order."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


@dataclass(slots=True, kw_only=True)
class PartitionData(Struct):
    """What one partition had to give: an error, or batches, up to a cut-off one at the end."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: FetchEpochEndOffset = struct(FetchEpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = record_bytes("0+", nullable="0+")


@dataclass(slots=True, kw_only=True)
class FetchableTopicResponse(Struct):
    """The partitions of one topic, named by ``topic`` up to version 12 and by ``topic_id`` after."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+")


@dataclass(slots=True, kw_only=True)
class FetchResponse(Message):
    """Batches for the partitions that have any; in a session, unchanged partitions are left out."""

    API_KEY = 1
    VERSIONS = (0, 18)
    FLEXIBLE = 12

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


@dataclass(slots=True, kw_only=True)
class ReplicaState(Struct):
    """Who is asking when it is a follower; consumers leave the defaults."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@dataclass(slots=True, kw_only=True)
class FetchPartition(Struct):
    """From where to read one partition, and what is known of its leader and of the last batch read."""

    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", default=2**63 - 1, tag=1, ignorable=True)


@dataclass(slots=True, kw_only=True)
class FetchTopic(Struct):
    """The partitions to read of one topic, named by ``topic`` up to version 12 and by ``topic_id`` after."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


@dataclass(slots=True, kw_only=True)
class ForgottenTopic(Struct):
    """Partitions to drop from the session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32, "7+")


@dataclass(slots=True, kw_only=True)
class FetchRequest(Message):
    """Read some partitions. In a session this holds only what is new, changed or wanted again."""

    API_KEY = 1
    VERSIONS = (0, 18)
    FLEXIBLE = 12
    RESPONSE = FetchResponse

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=2**31 - 1, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)
