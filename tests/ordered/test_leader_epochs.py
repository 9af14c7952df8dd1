"""Requests for the leader epochs at a topic's changes."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import KafkaError, TopicAuthorizationFailedError
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import ANY_NODE, Answer
from thinconsumer.ordered.leader_epochs import LeaderEpochRequests
from thinconsumer.ordered.topics import GatedTopic, Shape
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.partition_leader_epochs import (
    PartitionLeaderEpochs,
    PartitionLeaderEpochsForPartitionsRequest,
    PartitionLeaderEpochsForPartitionsResponse,
    PartitionLeaderEpochsTopicResult,
)

ID = b"t" * 16


class World:
    def __init__(self):
        config = ConsumerConfig.from_options(group_id="g")
        self.metadata = Metadata(config, random.Random(1), Agenda())
        self.agenda = Agenda()  # of these requests only
        self.epochs = LeaderEpochRequests("ordered", config, self.metadata, random.Random(1), self.agenda)
        self.topic = GatedTopic("t", Shape(ID, PartitionCounts(1, 3), frozenset(range(3)), 4))
        self.now = 10.0

    def send(self, *numbers):
        self.requests = self.epochs.step(self.now, [(self.topic, number) for number in numbers])
        if not self.requests:
            return None
        data = self.requests[0].build(0).encode(0)
        message = PartitionLeaderEpochsForPartitionsRequest.decode(memoryview(data), 0)
        return {topic.topic_id: list(topic.partitions) for topic in message.topics}

    def answer(self, *numbers, counts=(1, 3), count_epoch=4, code=0, row_code=0, error=None):
        rows = [
            PartitionLeaderEpochs(partition_index=n, error_code=int(row_code), leader_epochs_after_creation=[4])
            for n in numbers
        ]
        topic = PartitionLeaderEpochsTopicResult(
            topic_id=ID,
            error_code=int(code),
            initial_partition_count=counts[0],
            undeleted_partition_count=counts[1],
            partition_count_epoch=count_epoch,
            partitions=rows,
        )
        response = None if error else PartitionLeaderEpochsForPartitionsResponse(topics=[topic])
        self.epochs.handle(Answer(self.requests[0], 1, 0, response, error), self.now)

    @property
    def refreshes(self):
        self.metadata.want(["t"])
        return self.metadata.refresh_reason


@pytest.fixture
def world():
    return World()


def test_any_broker_is_asked_for_what_is_missing(world):
    assert world.send() is None
    assert world.send(2, 1) == {ID: [1, 2]}
    assert world.requests[0].target == ANY_NODE
    assert world.requests[0].deadline == world.now + 30, "request_timeout_ms"
    assert world.epochs.step(world.now, [(world.topic, 1)]) == [], "one request at a time"
    assert world.agenda.next() == NEVER
    world.answer(1, 2)
    assert world.topic.missing_epochs(1) == world.topic.missing_epochs(2) == frozenset()


def test_partitions_that_a_response_lacks_are_asked_for_again_at_once(world):
    world.send(1, 2)
    world.answer(1)
    assert world.send(2) == {ID: [2]}


@pytest.mark.parametrize(
    "about",
    [
        {"counts": (1, 2)},
        {"count_epoch": 2},
        {"count_epoch": 6},
        {"counts": (-1, -1)},
        {"code": Code.UNKNOWN_TOPIC_ID},
        {"row_code": Code.UNKNOWN_TOPIC_OR_PARTITION},
        {"error": KafkaError("connection lost")},
    ],
)
def test_an_unusable_answer_is_asked_again_after_a_backoff(world, about):
    world.send(1)
    world.answer(1, **about)
    assert world.topic.missing_epochs(1) == {1} and world.epochs.error is None
    assert world.send(1) is None
    assert world.now < world.agenda.next() < world.now + 2
    world.now = world.agenda.next()
    assert world.send(1) == {ID: [1]}


@pytest.mark.parametrize("about", [{"counts": (1, 2)}, {"code": Code.UNKNOWN_TOPIC_ID}])
def test_an_answer_that_contradicts_the_metadata_refreshes_them(world, about):
    world.send(1)
    world.answer(1, **about)
    assert world.refreshes is not None


def test_an_answer_without_any_partition_is_not_repeated_in_a_tight_loop(world):
    world.send(1)
    world.answer()
    assert world.send(1) is None


def test_a_missing_permission_is_an_error_until_it_is_granted(world):
    world.send(1)
    world.answer(code=Code.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(world.epochs.error, TopicAuthorizationFailedError)
    world.now += 10
    world.send(1)
    world.answer(1)
    assert world.epochs.error is None


def test_an_error_is_forgotten_when_nothing_is_missing_any_more(world):
    world.send(1)
    world.answer(code=Code.TOPIC_AUTHORIZATION_FAILED)
    world.send()
    assert world.epochs.error is None


def test_a_late_answer_is_dropped_after_a_restart(world):
    world.send(1)
    world.epochs.restart()
    world.answer(1)
    assert world.topic.missing_epochs(1) == {1}
    assert world.send(1) == {ID: [1]}


def test_a_missing_permission_for_a_partition_is_an_error_too(world):
    world.send(1)
    world.answer(1, row_code=Code.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(world.epochs.error, TopicAuthorizationFailedError)
