"""Produce (key 0): append record batches to partitions.

Version 3 adds transactions and message format 2, version 7 zstd (KIP-110), version 8 reports the records of a batch
that caused the error (KIP-467), version 9 is flexible, version 10 reports newer leaders and their addresses (KIP-951).
From version 12 on a transactional produce adds its partitions to the transaction implicitly (KIP-890), version 13 names
topics by id (KIP-516). Brokers from 4.0 on advertise versions 0 to 2 for old librdkafka clients, but reject them. With
``acks=0`` there is no response. The tagged field of topics is the project's own.
"""

from .fetch import LeaderIdAndEpoch, NodeEndpoint
from .message import Message
from .schema import Records, Struct, array, int16, int32, int64, record_bytes, string, struct, uuid


class BatchIndexAndErrorMessage(Struct):
    """A record because of which its batch was rejected: its index in the batch, and an error message."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class PartitionProduceResponse(Struct):
    """The result for one partition: the offset that the first record of the batch got, or an error."""

    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class ProduceResponse(Message, key=0, versions=(0, 13), flexible=9):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


class PartitionProduceData(Struct):
    """The record batches for one partition; from version 3 on exactly one batch."""

    index: int = int32("0+")
    records: Records | None = record_bytes("0+", nullable="0+")


class TopicProduceData(Struct):
    """The batches for one topic, named by ``name`` up to version 12 and by ``topic_id`` after.

    ``undeleted_partition_count`` is the count by which the producer chose partitions of a counted topic; -1 if it did
    not choose them, and for other topics, see :mod:`.extensions`.
    """

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")
    undeleted_partition_count: int = int32("9+", default=-1, tag=25_301, ignorable=True)


class ProduceRequest(Message, response=ProduceResponse):
    """Append batches; ``acks`` is 0 (no response), 1 (leader only) or -1 (all in-sync replicas)."""

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")
