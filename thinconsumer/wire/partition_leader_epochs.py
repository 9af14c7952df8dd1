"""PartitionLeaderEpochsForPartitions (key 25300, not Kafka's): the leader epochs before a partition was created, and
before it was marked for deletion. Any broker answers, from its copy of the cluster's metadata.

Records of these epochs were written with the earlier number of partitions. OffsetForLeaderEpoch returns the offset at
which they end in a partition's log.
"""

from .consumer_group_heartbeat import TopicPartitions
from .message import Message
from .schema import Struct, array, int16, int32, uuid


class PartitionLeaderEpochs(Struct):
    """Two lists of leader epochs. Element p of a list is the last leader epoch that partition p had before this
    partition was created, or marked for deletion.

    ``leader_epochs_after_creation`` has an element for each partition that existed when this one was created, and is
    empty for partitions that the topic began with. ``leader_epochs_before_deletion`` has an element for each partition
    that was left when this one was marked for deletion, and is empty for partitions that are not marked.
    """

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_epochs_after_creation: list[int] = array(int32, "0+")
    leader_epochs_before_deletion: list[int] = array(int32, "0+")


class PartitionLeaderEpochsTopicResult(Struct):
    """The leader epochs of the requested partitions of one topic, and the topic's three numbers in this broker's
    metadata (see :mod:`.extensions`), which may be older than the client's. After an error there are no partitions, and
    the numbers are -1.
    """

    topic_id: bytes = uuid("0+")
    error_code: int = int16("0+")
    initial_partition_count: int = int32("0+", default=-1)
    undeleted_partition_count: int = int32("0+", default=-1)
    partition_count_epoch: int = int32("0+", default=-1)
    partitions: list[PartitionLeaderEpochs] = array(PartitionLeaderEpochs, "0+")


class PartitionLeaderEpochsForPartitionsResponse(Message, key=25_300, versions=(0, 0), flexible=0):
    """The leader epochs by topic and partition. To limit its size, a response may lack some: request these again."""

    throttle_time_ms: int = int32("0+")
    topics: list[PartitionLeaderEpochsTopicResult] = array(PartitionLeaderEpochsTopicResult, "0+")


class PartitionLeaderEpochsForPartitionsRequest(Message, response=PartitionLeaderEpochsForPartitionsResponse):
    topics: list[TopicPartitions] = array(TopicPartitions, "0+")
