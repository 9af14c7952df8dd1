"""Queries for the end of a leader epoch, apart from the validation of positions."""

import pytest

from thinconsumer.connection.request import Answer
from thinconsumer.fetch.epoch_ends import EpochEndQueries
from thinconsumer.fetch.leader_queries import LeaderQuery
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


class Thresholds(EpochEndQueries):
    asker = "thresholds"
    purpose = "look up thresholds"


@pytest.fixture
def asked(world, kit):
    """Return queries for epochs 3 and 5 of two partitions on one leader, and what they have found."""
    world.cluster({kit.tp(0): (1, 7), kit.tp(1): (1, 8)})
    queries, found = Thresholds(world.config, world.metadata, world.random), {}
    for number, epoch in ((0, 3), (1, 5)):

        def take(data, now, number=number):
            found[number] = data.end_offset

        queries.add(LeaderQuery(kit.tp(number), epoch, lambda: True, take, lambda error, final: None))
    return queries, found


def answer(queries, request, now, ends):
    parts = [EpochEndOffset(partition=n, end_offset=end, error_code=code) for n, (end, code) in ends.items()]
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=parts)])
    queries.handle(Answer(request, 1, 4, response), now)


def test_one_request_to_a_leader_has_all_epochs_and_the_current_ones(asked, world):
    queries, found = asked
    [request] = queries.step(world.now)
    message = request.build(4)
    rows = [(p.partition, p.current_leader_epoch, p.leader_epoch) for p in message.topics[0].partitions]
    assert (request.asker, request.min_version, message.replica_id) == ("thresholds", 3, -1)
    assert rows == [(0, 7, 3), (1, 8, 5)]
    answer(queries, request, world.now, {0: (40, 0), 1: (0, 0)})
    assert found == {0: 40, 1: 0} and queries.step(world.now) == []


def test_a_leader_that_has_changed_is_asked_again_after_a_metadata_refresh(asked, world):
    queries, found = asked
    [request] = queries.step(world.now)
    answer(queries, request, world.now, {0: (-1, int(Code.FENCED_LEADER_EPOCH)), 1: (6, 0)})
    assert found == {1: 6}
    assert world.metadata.wake_at(world.now) <= world.now + 1
    world.now = queries.wake_at(world.now)
    assert [p.partition for p in queries.step(world.now)[0].build(4).topics[0].partitions] == [0]
