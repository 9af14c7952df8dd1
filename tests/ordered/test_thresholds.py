"""The ends of leader epochs: which leader is asked, and which answers count."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.network.metadata import Metadata, TopicMetadata
from thinconsumer.network.request import Answer
from thinconsumer.ordered.gates import END, Requirement
from thinconsumer.ordered.leader_epochs import Thresholds
from thinconsumer.ordered.topics import EpochEnds, Threshold
from thinconsumer.support.agenda import Agenda
from thinconsumer.types import Node, PartitionInfo
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

PARENT = Requirement(0, 5)


class World:
    def __init__(self):
        config = ConsumerConfig.from_options(group_id="g")
        self.metadata = Metadata(config, random.Random(1), Agenda())
        self.thresholds = Thresholds(config, self.metadata, random.Random(1), Agenda(), "ordered")
        self.metadata.nodes = {1: Node(1, "h", 9092)}
        self.metadata.topics["t"] = TopicMetadata("t")
        self.now = 10.0

    def leads(self, epoch):
        """Let metadata have this leader epoch of t-0."""
        topic = self.metadata.topics["t"]
        topic.partitions[0] = PartitionInfo("t", 0, 1, epoch, (1,), (1,), ())
        topic.epochs[0] = epoch
        self.metadata.version += 1

    def sent(self):
        """Return the epochs of the query that is due: the requested one, and the current one."""
        self.requests = self.thresholds.step(self.now)
        if not self.requests:
            return None
        [row] = self.requests[0].build(4).topics[0].partitions
        return row.leader_epoch, row.current_leader_epoch

    def answer(self, end, code=0):
        row = EpochEndOffset(partition=0, end_offset=end, leader_epoch=0, error_code=code)
        response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[row])])
        self.thresholds.handle(Answer(self.requests[0], 1, 4, response), self.now)
        self.now += 60


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ends():
    return EpochEnds("t")


def test_the_end_of_an_epoch_is_asked_of_a_leader_with_a_later_one_only(world, ends):
    """A leader with epoch 5 may still get records of epoch 5."""
    world.leads(5)
    world.thresholds.ask(ends, PARENT)
    assert world.sent() is None
    world.now += 1000
    assert world.sent() is None, "not even after long"
    world.leads(6)
    assert world.sent() == (5, 6)
    world.answer(40)
    assert ends.thresholds[PARENT].offset == 40


def test_nothing_is_asked_twice_or_without_any_known_epoch(world, ends):
    world.thresholds.ask(ends, PARENT)
    assert ends.asked == {}
    world.leads(6)
    world.thresholds.ask(ends, PARENT)
    world.thresholds.ask(ends, PARENT)
    assert world.sent() == (5, 6)
    assert world.sent() is None


def test_an_undefined_end_is_asked_again(world, ends):
    world.leads(6)
    world.thresholds.ask(ends, PARENT)
    world.sent()
    world.answer(-1)
    assert ends.thresholds == {}
    assert world.sent() == (5, 6)
    world.answer(0)
    assert ends.thresholds == {PARENT: Threshold(0, 6)}


@pytest.mark.parametrize("code", [Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER])
def test_errors_are_retried(world, ends, code):
    world.leads(6)
    world.thresholds.ask(ends, PARENT)
    world.sent()
    world.answer(-1, int(code))
    assert world.thresholds.last_error is not None
    assert world.sent() == (5, 6)
    world.answer(3)
    assert world.thresholds.last_error is None


def test_an_answer_is_outdated_after_a_leader_change_also_one_while_it_was_asked(world, ends):
    world.leads(6)
    world.thresholds.ask(ends, PARENT)
    world.sent()
    world.leads(7)
    world.answer(40)
    assert not world.thresholds.is_current(ends, PARENT)
    world.thresholds.ask(ends, PARENT)
    assert world.sent() == (5, 7)
    world.answer(35)
    assert world.thresholds.is_current(ends, PARENT) and ends.thresholds[PARENT].offset == 35


def test_answers_to_dropped_queries_do_not_count(world, ends):
    world.leads(6)
    world.thresholds.ask(ends, PARENT)
    world.sent()
    ends.clear()
    world.answer(40)
    assert ends.thresholds == {}


@pytest.mark.parametrize(("second", "kept"), [(35, 35), (50, 40)])
def test_the_end_of_a_barrier_only_becomes_lower(world, second, kept):
    ends, one = EpochEnds("t", keeps_lowest=True), Requirement(0, END)
    for epoch, end in ((6, 40), (7, second)):
        world.leads(epoch)
        world.thresholds.ask(ends, one)
        world.sent()
        world.answer(end)
    assert ends.thresholds[one] == Threshold(kept, 7)
