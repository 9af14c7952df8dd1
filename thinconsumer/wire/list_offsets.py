"""ListOffsets (key 2): find an offset by timestamp, or the start or end offset of a partition.

``timestamp`` is in milliseconds, or -1 (the end offset; under read_committed the last stable offset), -2 (the log start
offset), -3 (the record with the highest timestamp, version 7, KIP-734), -4 (the first offset on local disk, version 8,
KIP-405), -5 (the last tiered offset, version 9, KIP-1005) or -6 (the first offset not yet tiered, version 11,
KIP-1023). Version 0 returns a list of segment base offsets; brokers from 4.0 on support version 1 and above. Version 4
adds leader epochs, version 10 a time limit for lookups in remote storage (KIP-1075).
"""

from .message import Message
from .schema import Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartitionResponse(Struct):
    """The offset found in one partition, or -1 if no record has the requested timestamp or a later one."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    old_style_offsets: list[int] = array(int64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Message, key=2, versions=(0, 11), flexible=6):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")


class ListOffsetsPartition(Struct):
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64("0+")
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Message, response=ListOffsetsResponse):
    """Look up offsets; sent to the leader of the partitions. Consumers send ``replica_id=-1``."""

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)
