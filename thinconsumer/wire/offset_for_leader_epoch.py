"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch, to detect log truncation (KIP-320).

Version 2 adds fencing by the current leader epoch. Clients use version 3 and above: earlier ones are for followers.
Version 4 is flexible. Brokers from 4.0 on support version 2 and above.
"""

from .message import Message
from .schema import Struct, array, int16, int32, int64, string


class EpochEndOffset(Struct):
    """The end offset of the requested epoch, or of the highest epoch below it if the log lacks the requested one.
    ``leader_epoch`` and ``end_offset`` are -1 if the log has no such epoch.
    """

    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Message, key=23, versions=(0, 4), flexible=4):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+")


class OffsetForLeaderPartition(Struct):
    """A request for the end offset of ``leader_epoch``: to detect truncation, that of the last record read."""

    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32("0+")


class OffsetForLeaderTopic(Struct):
    topic: str = string("0+")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Message, response=OffsetForLeaderEpochResponse):
    """Request end offsets of epochs; sent to the partitions' leader. Consumers send ``replica_id=-1``."""

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")
