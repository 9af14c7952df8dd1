"""Ask partition leaders for the offsets at which leader epochs end, with OffsetForLeaderEpoch (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import ConsumerConfig
from ..metadata import Metadata
from ..timers import Random
from ..types import TopicPartition
from ..wire import Message
from ..wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from .leader_queries import Group, LeaderQueries

#: First version that consumers with READ on the topic may send (KIP-320); older ones require ClusterAction.
CONSUMERS_SINCE = 3


class EpochEndQueries(LeaderQueries):
    """Sends queries for the end offset of a leader epoch; their results are :class:`EpochEndOffset`.

    A leader with another epoch than metadata rejects a query, so an answer is never older than the metadata.
    """

    api = OffsetForLeaderEpochRequest

    def __init__(self, settings: ConsumerConfig, metadata: Metadata, random: Random) -> None:
        super().__init__(settings, metadata, random)
        self._min_version = CONSUMERS_SINCE

    def _message(self, group: Group) -> Message:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for tp, query in group.items():
            part = OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=self._current_epoch(tp), leader_epoch=query.argument
            )
            topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic)).partitions.append(part)
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values()))

    def _rows(self, response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, EpochEndOffset]]:
        for topic in response.topics:
            for data in topic.partitions:
                yield TopicPartition(topic.topic, data.partition), data
