"""Fetch (key 1): read record batches from the partitions of which a broker is leader or follower.

Version 3 limits the size of the whole response, version 4 adds isolation levels and message format 2, version 5 the log
start offset. Version 7 adds fetch sessions (KIP-227), version 9 leader epochs (KIP-320), version 10 zstd, version 11
the client's rack for fetching from the closest replica (KIP-392). Version 12 is flexible and reports diverging epochs
and newer leaders; version 13 names topics by id (KIP-516); version 15 moves the follower's identity into one struct
(KIP-903); version 16 adds the addresses of new leaders (KIP-951). Brokers from 4.0 on support version 4 and above.
"""

from .message import Message
from .schema import Records, Struct, array, int8, int16, int32, int64, record_bytes, string, struct, uuid


class LeaderIdAndEpoch(Struct):
    """The partition's current leader and its epoch; -1 when the broker does not report them."""

    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)


class NodeEndpoint(Struct):
    """The address of a broker that the same response names as the leader of a partition."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


class FetchEpochEndOffset(Struct):
    """The end of an epoch in the leader's log, if the client's records diverge from this log; else both fields are -1.

    ``epoch`` is the highest epoch in the leader's log that is not above the request's ``last_fetched_epoch``, and
    ``end_offset`` the offset at which ``epoch`` ends in the leader's log.
    """

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class SnapshotId(Struct):
    """The metadata snapshot that a KRaft follower has to load; unused by consumers."""

    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    """An aborted transaction: its producer id and first offset. Transactions come in no particular order."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Struct):
    """The outcome for one partition: an error, or record batches, of which the last may be incomplete."""

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


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+")


class FetchResponse(Message, key=1, versions=(0, 18), flexible=12):
    """Record batches by partition; in an incremental fetch session, unchanged partitions are left out."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


class ReplicaState(Struct):
    """The identity of a follower that fetches; consumers send the defaults."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    """The fetch offset in one partition, the leader epoch known to the client, and the epoch of the last batch read.

    ``undeleted_partition_count`` is the count in the consumer's metadata of a counted topic; -1 for other topics, see
    :mod:`.extensions`.
    """

    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", default=2**63 - 1, tag=1, ignorable=True)
    undeleted_partition_count: int = int32("12+", default=-1, tag=25_301, ignorable=True)


class FetchTopic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32, "7+")


class FetchRequest(Message, response=FetchResponse):
    """Fetch partitions. In an incremental fetch session the request holds only new and changed partitions."""

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
