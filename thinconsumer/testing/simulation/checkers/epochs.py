"""Answers of leaders about the ends of epochs and logs that excuse what readers do next (KIP-320).

Reads OffsetForLeaderEpoch and ListOffsets on the wire, and does not judge the answers.
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
    """Yield partitions with an epoch that the leader's log never had, the epoch before it there, and that one's end."""
    for tp, asked, data in _answers(request, response):
        if 0 <= data.leader_epoch < asked.leader_epoch:
            yield tp, data.leader_epoch, data.end_offset


def too_old_to_know(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partitions whose leader is older than the requested epoch and answers that it is unknown; the epoch.

    If that epoch exists, the leader is deposed without knowledge of it. The reader resets by policy, as Java's
    consumer does at once: a topic that was deleted and created again looks the same.
    """
    for tp, asked, data in _answers(request, response):
        if data.leader_epoch < 0 and 0 <= asked.current_leader_epoch < asked.leader_epoch:
            yield tp, asked.leader_epoch


def looked_up(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partitions of a ListOffsets answer, and the epoch of the leader that answered."""
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
