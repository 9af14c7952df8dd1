"""Finds OffsetForLeaderEpoch and ListOffsets responses after which readers may skip or repeat records (KIP-320)."""

from collections.abc import Iterator

from thinconsumer.types import TopicPartition
from thinconsumer.wire import Message
from thinconsumer.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
)


def never_had(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield partitions for which the leader's log never had the requested epoch: ``(partition, epoch, end_offset)``.

    ``epoch`` is the older one that the leader has returned instead, and ``end_offset`` is where it ends.
    """
    for tp, asked, data in validated(request, response):
        if 0 <= data.leader_epoch < asked.leader_epoch:
            yield tp, data.leader_epoch, data.end_offset


def too_old_to_know(request: Message, response: Message) -> Iterator[tuple[TopicPartition, int]]:
    """Yield ``(partition, requested epoch)`` if a leader of an older epoch has returned no end offset.

    If the requested epoch exists, this leader was deposed. The reader resets its position nevertheless, as Java's
    consumer does, since the leader of a topic that was deleted and created again would give the same response.
    """
    for tp, asked, data in validated(request, response):
        if data.leader_epoch < 0 and 0 <= asked.current_leader_epoch < asked.leader_epoch:
            yield tp, asked.leader_epoch


def looked_up(
    request: Message, response: Message
) -> Iterator[tuple[TopicPartition, ListOffsetsPartition, ListOffsetsPartitionResponse]]:
    """Yield each partition of a ListOffsets response without an error, with its entries in request and response."""
    if not isinstance(request, ListOffsetsRequest) or not isinstance(response, ListOffsetsResponse):
        return
    asked = {(t.name, p.partition_index): p for t in request.topics for p in t.partitions}
    for topic in response.topics:
        for data in topic.partitions:
            tp = TopicPartition(topic.name, data.partition_index)
            if data.error_code == 0 and tp in asked:
                yield tp, asked[tp], data


def validated(
    request: Message | None, response: Message
) -> Iterator[tuple[TopicPartition, OffsetForLeaderPartition, EpochEndOffset]]:
    """Yield, like :func:`looked_up`, each partition of an OffsetForLeaderEpoch response without an error."""
    if not isinstance(request, OffsetForLeaderEpochRequest) or not isinstance(response, OffsetForLeaderEpochResponse):
        return
    asked = {(t.topic, p.partition): p for t in request.topics for p in t.partitions}
    for topic in response.topics:
        for data in topic.partitions:
            tp = TopicPartition(topic.topic, data.partition)
            if data.error_code == 0 and tp in asked:
                yield tp, asked[tp], data
