"""DeleteRecords (key 21): raise log start offsets, which deletes older records (KIP-107). Version 2 is flexible."""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int16, int32, int64, string


class DeleteRecordsPartitionResult(Struct):
    """The result for one partition: its new log start offset (``low_watermark``), or an error."""

    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


class DeleteRecordsTopicResult(Struct):
    """The results for the partitions of one topic."""

    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Message):
    """The outcome for each partition."""

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")


class DeleteRecordsPartition(Struct):
    """The offset before which the records of one partition are to be deleted; -1 stands for its high watermark."""

    partition_index: int = int32("0+")
    offset: int = int64("0+")


class DeleteRecordsTopic(Struct):
    """The partitions of one topic from which records are to be deleted."""

    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Message):
    """Delete the records before the given offsets; sent to the leader of the partitions."""

    RESPONSE = DeleteRecordsResponse

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")
