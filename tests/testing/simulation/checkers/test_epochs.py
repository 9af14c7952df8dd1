"""Responses about leader epochs are classified."""

import pytest

from thinconsumer.testing.simulation.checkers import epochs
from thinconsumer.types import TopicPartition
from thinconsumer.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

TP = TopicPartition("t", 0)


def talk(asked, leader, answer, *, error=0, partition=0):
    """Return an OffsetForLeaderEpoch request and its response."""
    question = OffsetForLeaderPartition(partition=0, current_leader_epoch=leader, leader_epoch=asked)
    end = EpochEndOffset(partition=partition, error_code=error, leader_epoch=answer[0], end_offset=answer[1])
    return (
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[question])]),
        OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])]),
    )


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"answer": (1, 9)}, [(TP, 1, 9)]),
        ({"answer": (2, 9)}, []),
        ({"answer": (-1, -1)}, []),
        ({"answer": (1, 9), "error": 6}, []),
        ({"answer": (1, 9), "partition": 5}, []),
    ],
)
def test_never_had_yields_answers_with_an_older_epoch(more, found):
    assert list(epochs.never_had(*talk(2, 3, **more))) == found


@pytest.mark.parametrize(
    ("asked", "leader", "answer", "error", "found"),
    [
        (2, 1, (-1, -1), 0, [(TP, 2)]),
        (2, 2, (-1, -1), 0, []),
        (2, 3, (-1, -1), 0, []),
        (2, -1, (-1, -1), 0, []),
        (2, 1, (1, 9), 0, []),
        (2, 1, (-1, -1), 74, []),
    ],
)
def test_too_old_to_know_yields_answers_of_older_leaders(asked, leader, answer, error, found):
    assert list(epochs.too_old_to_know(*talk(asked, leader, answer, error=error))) == found


def test_other_messages_yield_nothing():
    assert list(epochs.never_had(MetadataRequest(), MetadataResponse())) == []
    assert list(epochs.too_old_to_know(MetadataRequest(), MetadataResponse())) == []


@pytest.mark.parametrize(("error", "found"), [(0, [TP]), (6, [])])
def test_looked_up_yields_partitions_without_an_error(error, found):
    question = ListOffsetsPartition(partition_index=0, current_leader_epoch=4, timestamp=-2)
    answer = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=0)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[question])])
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])
    assert [
        tp for tp, asked, data in epochs.looked_up(request, response) if (asked, data) == (question, answer)
    ] == found
    assert list(epochs.looked_up(*talk(2, 3, (1, 9)))) == []
