"""What leaders answer who asks where an epoch or the log has ended, where it excuses what readers do then (KIP-320).

Owns the reading of OffsetForLeaderEpoch and ListOffsets on the wire. What a leader should have answered is not its
business.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....types import TopicPartition
from ....wire import Message
from ....wire.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ....wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
)


def never_had(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield partitions of whose epoch the leader has no record; the epoch it has before that, and where that ended."""
    for tp, asked, data in _answers(request, response):
        if 0 <= data.leader_epoch < asked.leader_epoch:
            yield tp, data.leader_epoch, data.end_offset


def too_old_to_know(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partitions whose leader is older than the epoch asked about, and says that it does not know it; the epoch.

    If there was such an epoch, it was deposed and has not heard of it. Who asks goes on by policy in the end, as Java's
    consumer does at once: a topic that was created again looks the same.
    """
    for tp, asked, data in _answers(request, response):
        if data.leader_epoch < 0 and 0 <= asked.current_leader_epoch < asked.leader_epoch:
            yield tp, asked.leader_epoch


def looked_up(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partitions whose offsets were looked up, and the epoch that the leader is in who has answered."""
    if not isinstance(request, ListOffsetsRequest) or not isinstance(response, ListOffsetsResponse):
        return
    asked = {(t.name, p.partition_index): p.current_leader_epoch for t in request.topics for p in t.partitions}
    for topic in response.topics:
        for data in topic.partitions:
            tp = TopicPartition(topic.name, data.partition_index)
            if data.error_code == 0 and tp in asked:
                yield tp, asked[tp]


def _answers(
    request: Message, response: Message
) -> Iterator[tuple[TopicPartition, OffsetForLeaderPartition, EpochEndOffset]]:
    if not isinstance(request, OffsetForLeaderEpochRequest) or not isinstance(response, OffsetForLeaderEpochResponse):
        return
    asked = {(t.topic, p.partition): p for t in request.topics for p in t.partitions}
    for topic in response.topics:
        for data in topic.partitions:
            tp = TopicPartition(topic.topic, data.partition)
            if data.error_code == 0 and tp in asked:
                yield tp, asked[tp], data
