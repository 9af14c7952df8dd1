"""Where positions come from, and which of its own a member sends."""

import random

import pytest

from thinconsumer.config import ConsumerConfig
from thinconsumer.group.coordinator import Coordinator
from thinconsumer.group.identity import Identity
from thinconsumer.group.offsets.commit_identity import CommitIdentity
from thinconsumer.linear_hashing import PartitionCounts
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.request import Answer
from thinconsumer.ordered.holds import NOTHING, Hold, HoldState
from thinconsumer.ordered.known_positions import QUIET_PACE, QUIET_RESPONSES, SILENT_RESPONSES, KnownPositions
from thinconsumer.ordered.topics import GatedTopic, Shape
from thinconsumer.positions.partitions import Partitions
from thinconsumer.positions.states import PositionEvent
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.calls import Call
from thinconsumer.types import Node, OffsetAndMetadata, TopicPartition
from thinconsumer.wire.consumer_group_positions import (
    ConsumerGroupPositionsRequest,
    ConsumerGroupPositionsResponse,
    PartitionPosition,
    TopicPositions,
)

ID = b"t" * 16
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CHILD = (ID, 1)


class Group:
    """The parts of a group that positions depend on; also its subscription and its committed offsets."""

    def __init__(self, config, source):
        agenda = Agenda()
        self.coordinator = Coordinator(config, "g", Metadata(config, source, agenda), source, agenda)
        self.coordinator._found(Node(1, "b1", 9092), 0.0)
        self.subscription = self
        self.committed = self
        self.member = self
        self.heartbeat_interval = 1.0
        self.is_subscribed = True
        self.generation = 4
        self.calls = []

    def commit_identity(self):
        return CommitIdentity(Identity("g", self.generation, "m"), is_subscribed=self.is_subscribed)

    def ask(self, tps):
        self.calls.append((list(tps), Call("committed")))
        return self.calls[-1][1]


class World:
    """Positions of a consumer that owns partition 1, in a topic that began with partition 0."""

    def __init__(self, *, group=True, **options):
        config = ConsumerConfig.from_options(group_id="g", heartbeat_interval_ms=1000, **options)
        source = random.Random(3)
        agenda = Agenda()
        self.group = Group(config, source) if group else None
        self.partitions = Partitions(agenda)
        self.partitions.assign([P1])
        self.own = self.partitions.require(P1)
        self.own.place(PositionEvent.SEEK, 7)
        self.topic = GatedTopic("t", Shape(ID, PartitionCounts(1, 2), frozenset(range(2))))
        self.topic.holds[self.own] = Hold(self.own, agenda, HoldState.FREE)
        self.positions = KnownPositions(config, self.partitions, source, self.group, {"t": self.topic})
        self.now = 100.0

    def step(self, *awaited):
        """Return what the request that is due sends, as (positions, wanted); None without a request."""
        self.positions.follow()
        self.requests = self.positions.step(self.now, {(ID, tp.partition): tp for tp in awaited})
        if not self.requests:
            return None
        data = self.requests[0].build(0).encode(0)
        message = ConsumerGroupPositionsRequest.decode(memoryview(data), 0)
        sent = [(row.partition_index, row.position) for topic in message.positions for row in topic.partitions]
        return sent, [number for topic in message.wanted for number in topic.partitions]

    def answer(self, positions=(), requested=()):
        def rows(found):
            parts = [PartitionPosition(partition_index=number, position=at) for number, at in found]
            return [TopicPositions(topic_id=ID, partitions=parts)]

        response = ConsumerGroupPositionsResponse(error_code=0, positions=rows(positions), requested=rows(requested))
        self.positions.handle(Answer(self.requests[0], 1, 0, response), self.now)
        self.now += 1


@pytest.fixture
def world():
    return World()


def test_an_own_position_is_its_own(world):
    assert world.positions.of(world.topic, 1) == 7
    world.own.delivery_end = NOTHING
    assert world.positions.of(world.topic, 1) is None, "held before its first record"
    world.own.delivery_end = 7
    assert world.positions.of(world.topic, 1) == 7, "held at a later gate"


def test_a_requested_position_waits_for_a_poll_but_not_for_ever(world):
    world.step()
    world.answer(requested=[(1, -1)])
    assert world.step() is None
    assert set(world.positions.due_reports()) == {CHILD}
    world.now += 0.5
    assert world.step() == ([], [])


def sent_without_a_poll(world):
    """Let a request be sent without positions, since only ``drive`` was called; then let a poll add them."""
    world.step()
    world.answer(requested=[(1, -1)])
    world.step()
    world.now += 0.5
    assert world.step() == ([], [])
    world.positions.report(world.positions.due_reports())
    assert world.positions.due_reports() is None
    world.answer(requested=[(1, -1)])


def test_a_position_that_has_moved_back_before_it_is_sent_is_not_sent(world):
    sent_without_a_poll(world)
    world.own.place(PositionEvent.SEEK, 3)
    assert world.step() == ([], [])


def test_with_the_consumer_protocol_the_broker_may_name_a_longer_interval(world):
    assert world.positions.interval == 1.0
    world.group.heartbeat_interval = 5.0
    world.step(P0)
    world.answer(positions=[(0, 3)])
    world.now += 3.9
    assert world.step(P0) is None
    world.now += 0.1
    assert world.step(P0) is not None


def test_committed_offsets_of_a_topic_that_was_deleted_are_forgotten(world):
    world.group.is_subscribed = False
    world.step(P0)
    world.group.calls[0][1].succeed({P0: OffsetAndMetadata(9)})
    world.positions.follow()
    world.now += 1
    world.step(P0)
    world.positions.topic_forgotten()
    assert world.positions.of(world.topic, 0) is None
    world.group.calls[1][1].succeed({P0: OffsetAndMetadata(9)})
    world.positions.follow()
    assert world.positions.of(world.topic, 0) is None


def polled(world):
    """Let a poll take part in the next request; return the positions that are sent."""
    world.step()
    reports = world.positions.due_reports()
    world.positions.report(reports)
    sent, _ = world.step()
    world.answer(requested=[(1, 7)])
    return sent


def test_a_position_that_cannot_move_on_is_sent(world):
    world.step()
    world.answer(requested=[(1, -1)])
    assert polled(world) == [(1, 7)]
    world.own.cursor.offset = 8
    assert polled(world) == [], "it will move on"
    assert polled(world) == [(1, 8)], "it has not moved for an interval"
    for offset, attribute, value in ((9, "paused", True), (10, "high_watermark", 10), (11, "delivery_end", 11)):
        world.own.cursor.offset = offset
        setattr(world.own, attribute, value)
        assert polled(world) == [(1, offset)], attribute


def test_a_partition_that_is_held_before_its_first_record_is_not_sent(world):
    world.own.delivery_end = NOTHING
    world.step()
    world.answer(requested=[(1, -1)])
    assert world.step() == ([], [])


def test_nothing_is_sent_for_topics_that_have_not_changed(world):
    world.topic.shape = Shape(ID, PartitionCounts(2, 2), frozenset(range(2)))
    assert world.step() is None


@pytest.mark.parametrize("change", ["topic", "generation"])
def test_requests_become_rare_while_no_member_waits_and_frequent_after_a_change(world, change):
    for _ in range(QUIET_RESPONSES):
        assert world.step() is not None
        world.answer()
    for _ in range(QUIET_PACE - 1):
        assert world.step() is None
        world.now += 1
    assert world.step() is not None
    world.answer()
    if change == "topic":
        world.positions.topic_changed()
    else:
        world.group.generation += 1
    assert world.step() is not None


def test_committed_offsets_count_for_a_silent_owner_and_take_turns_with_positions(world):
    kinds = []
    for _ in range(SILENT_RESPONSES + 6):
        if world.step(P0) is not None:
            kinds.append("positions")
            world.answer(positions=[(0, -1)])
        else:
            kinds.append("committed")
            assert world.group.calls[-1][0] == [P0]
            world.group.calls[-1][1].succeed({P0: OffsetAndMetadata(9)})
            world.now += 1
    assert kinds[: SILENT_RESPONSES + 1] == ["positions"] * SILENT_RESPONSES + ["committed"]
    assert kinds[SILENT_RESPONSES:].count("committed") == 3
    assert world.positions.of(world.topic, 0) == 9
    while world.step(P0) is None:
        world.now += 1
    world.answer(positions=[(0, 11)])
    assert world.positions.of(world.topic, 0) == 11
