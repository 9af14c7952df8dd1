"""Produce (key 0): append record batches to partitions.

Version 3 brings transactions and record batches v2, version 7 zstd (KIP-110), version 8 says which records of a batch
were at fault (KIP-467), version 9 is flexible, version 10 tells of newer leaders and where they live (KIP-951). From
version 12 on a transactional produce adds its partitions to the transaction by itself (KIP-890), version 13 names
topics by id (KIP-516). 4.0 brokers list versions 0 to 2 for the sake of old librdkafka clients, but refuse them. With
``acks=0`` there is no response.
"""

from __future__ import annotations

from dataclasses import dataclass

from .current_leader import LeaderIdAndEpoch, NodeEndpoint
from .message import Message
from .schema import Records, Struct, array, int16, int32, int64, record_bytes, string, struct, uuid


@dataclass(slots=True, kw_only=True)
class BatchIndexAndErrorMessage(Struct):
    """A record that was at fault, by its place in the batch."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@dataclass(slots=True, kw_only=True)
class PartitionProduceResponse(Struct):
    """The offset that the first record got, or why nothing was written."""

    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


@dataclass(slots=True, kw_only=True)
class TopicProduceResponse(Struct):
    """The answers for one topic, named by ``name`` up to version 12 and by ``topic_id`` after."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


@dataclass(slots=True, kw_only=True)
class ProduceResponse(Message):
    """One answer for each partition written to."""

    API_KEY = 0
    VERSIONS = (0, 13)
    FLEXIBLE = 9

    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


@dataclass(slots=True, kw_only=True)
class PartitionProduceData(Struct):
    """The batches for one partition; from version 3 on exactly one."""

    index: int = int32("0+")
    records: Records | None = record_bytes("0+", nullable="0+")


@dataclass(slots=True, kw_only=True)
class TopicProduceData(Struct):
    """The batches for one topic, named by ``name`` up to version 12 and by ``topic_id`` after."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


@dataclass(slots=True, kw_only=True)
class ProduceRequest(Message):
    """Write; ``acks`` is 0 (no answer), 1 (the leader has it) or -1 (all replicas in sync have it)."""

    API_KEY = 0
    VERSIONS = (0, 13)
    FLEXIBLE = 9
    RESPONSE = ProduceResponse

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")
