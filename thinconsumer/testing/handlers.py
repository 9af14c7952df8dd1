"""Ready-made answers for a scripted broker: Metadata, ListOffsets, OffsetForLeaderEpoch, Fetch, out of :class:`Topics`.

Each function answers as a 4.x broker does where a consumer can tell: leaders, epochs, topic ids, bounds, isolation.
Fetch sessions are in :mod:`.fetching`. Nothing here is a judge; it is scenery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..wire import Message
from ..wire.error_codes import Code
from ..wire.fetch import FetchRequest
from ..wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ..wire.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ..wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from .broker import BrokerConnection, Handler, ScriptedBroker
from .fetching import Fetching
from .topics import PartitionLog, TopicLog, Topics

EARLIEST, LATEST = -2, -1


class ClusterHandlers:
    """Answers of all brokers of one cluster. ``brokers`` is asked each time, so that it may change."""

    def __init__(self, topics: Topics, brokers: Callable[[], Iterable[ScriptedBroker]]) -> None:
        self.topics = topics
        self._brokers = brokers
        self.cluster_id = "memory"

    def for_broker(self, broker: ScriptedBroker) -> dict[type[Message], Handler]:
        """Return the table for one broker."""
        return {
            MetadataRequest: self.metadata,
            ListOffsetsRequest: self.list_offsets,
            OffsetForLeaderEpochRequest: self.offset_for_leader_epoch,
            FetchRequest: Fetching(self.topics, broker, self._brokers).fetch,
        }

    # -- Metadata

    def metadata(self, request: MetadataRequest, version: int, connection: BrokerConnection) -> Message:
        """Answer Metadata."""
        wanted = request.topics
        if wanted is None or (version == 0 and not wanted):
            topics = [self._topic(topic) for topic in self.topics]
        else:
            topics = [self._topic_asked_for(asked) for asked in wanted]
        brokers = [
            MetadataResponseBroker(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack) for b in self._brokers()
        ]
        controller = brokers[0].node_id if brokers else -1
        return MetadataResponse(brokers=brokers, topics=topics, cluster_id=self.cluster_id, controller_id=controller)

    def _topic_asked_for(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        found = self.topics.find(asked.name or "", asked.topic_id)
        if found is not None:
            return self._topic(found)
        code = Code.UNKNOWN_TOPIC_ID if any(asked.topic_id) else Code.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(error_code=int(code), name=asked.name, topic_id=asked.topic_id)

    def _topic(self, topic: TopicLog) -> MetadataResponseTopic:
        if topic.error_code:
            return MetadataResponseTopic(error_code=topic.error_code, name=topic.name)
        partitions = [
            MetadataResponsePartition(
                error_code=int(Code.LEADER_NOT_AVAILABLE if log.leader < 0 else Code.NONE),
                partition_index=log.partition,
                leader_id=log.leader,
                leader_epoch=log.epoch,
                replica_nodes=list(log.replicas),
                isr_nodes=list(log.isr),
            )
            for log in topic.partitions.values()
        ]
        return MetadataResponseTopic(
            name=topic.name, topic_id=topic.topic_id, is_internal=topic.internal, partitions=partitions
        )

    # -- ListOffsets

    def list_offsets(self, request: ListOffsetsRequest, version: int, connection: BrokerConnection) -> Message:
        """Answer ListOffsets."""
        committed = request.isolation_level == 1
        node_id = connection.broker.node_id
        topics = []
        for asked in request.topics:
            partitions = [self._offset(asked.name, p, node_id, committed=committed) for p in asked.partitions]
            topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _offset(
        self, name: str, asked: ListOffsetsPartition, node_id: int, *, committed: bool
    ) -> ListOffsetsPartitionResponse:
        log = self._log(name, asked.partition_index)
        code = error_of(log, node_id, asked.current_leader_epoch)
        if code or log is None:
            return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
        offset, timestamp = -1, -1
        if asked.timestamp == EARLIEST:
            offset = log.start_offset
        elif asked.timestamp == LATEST:
            offset = log.stable_end if committed else log.visible_end
        elif (batch := log.offset_for_time(asked.timestamp)) is not None:
            offset, timestamp = batch.base_offset, batch.max_timestamp
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            offset=offset,
            timestamp=timestamp,
            leader_epoch=log.epoch if offset >= 0 else -1,
        )

    # -- OffsetForLeaderEpoch

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, version: int, connection: BrokerConnection
    ) -> Message:
        """Answer OffsetForLeaderEpoch."""
        topics = []
        for asked in request.topics:
            partitions = []
            for p in asked.partitions:
                log = self._log(asked.topic, p.partition)
                code = error_of(log, connection.broker.node_id, p.current_leader_epoch)
                epoch, end = (-1, -1) if code or log is None else log.end_of_epoch(p.leader_epoch)
                partitions.append(
                    EpochEndOffset(error_code=code, partition=p.partition, leader_epoch=epoch, end_offset=end)
                )
            topics.append(OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _log(self, name: str, partition: int) -> PartitionLog | None:
        topic = self.topics.by_name.get(name)
        return None if topic is None else topic.partitions.get(partition)


def error_of(log: PartitionLog | None, node_id: int, current_epoch: int) -> int:
    """Return why a node cannot answer for a partition, or 0."""
    if log is None:
        return int(Code.UNKNOWN_TOPIC_OR_PARTITION)
    if log.error_code:
        return log.error_code
    if log.leader != node_id:
        return int(Code.NOT_LEADER_OR_FOLLOWER)
    if current_epoch >= 0 and current_epoch != log.epoch:
        return int(Code.FENCED_LEADER_EPOCH if current_epoch < log.epoch else Code.UNKNOWN_LEADER_EPOCH)
    return 0
