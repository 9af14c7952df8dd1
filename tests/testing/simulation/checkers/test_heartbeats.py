"""A member's heartbeats: one at a time, with its epoch and what it owns, and all fields after a loss."""

import pytest
from lab.checkers.callbacks import CallbackChecker
from lab.checkers.consumer_views import ConsumerViews
from lab.checkers.heartbeats import BEATS_MAX, HeartbeatChecker

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    TopicPartitions,
)
from thinconsumer.wire.error_codes import Code

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Crew:
    """One member and its heartbeats."""

    def __init__(self, room):
        self.room = room
        name_of = {b"t" * 16: "t"}.__getitem__
        room.views = room.add(ConsumerViews, now=lambda: room.now, name_of=name_of)
        self.callbacks = room.add(CallbackChecker, views=room.views)
        self.checker = room.add(
            HeartbeatChecker, views=room.views, callbacks=self.callbacks, name_of=name_of, now=lambda: room.now
        )
        self.ann = self.new()

    def new(self, **more):
        self.ann = self.room.member(cooperative=True, **more)
        self.room.tell("subscribed", self.ann, ["t"])
        return self.ann

    def rows(self, numbers):
        return [TopicPartitions(topic_id=b"t" * 16, partitions=list(numbers))] if numbers else []

    def write(self, epoch, owned=None, *, full=False, line=1, who="ann-id"):
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=who, member_epoch=epoch)
        if owned is not None:
            request.topic_partitions = self.rows(owned)
        if full or epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 1000, ["t"]
            request.topic_partitions = self.rows(owned or ())
        self.room.says(self.ann, request, line)
        return request

    def read(self, request, epoch=0, *, code=0, assigned=None, line=1):
        given = None if assigned is None else HeartbeatAssignment(topic_partitions=self.rows(assigned))
        response = ConsumerGroupHeartbeatResponse(
            error_code=code, member_id="ann-id", member_epoch=epoch, assignment=given
        )
        self.room.learns(self.ann, request, response, line)

    def settle(self):
        self.read(self.write(0), 3, assigned=[0, 1])
        self.room.callback_started(self.ann, "assigned", A, B)
        self.room.now += 0.001
        self.read(self.write(3, [0, 1]), 3)


@pytest.fixture
def crew(room):
    return Crew(room)


def test_correct_life_of_a_member_passes(crew):
    room, ann = crew.room, crew.ann
    crew.settle()
    crew.read(crew.write(3), 3, assigned=[1])
    room.callback_started(ann, "revoked", A)
    crew.read(crew.write(3, [0, 1]), 3)  # commits inside the callback are not answered yet
    room.now += 1
    crew.read(crew.write(3, [1]), 4)
    crew.read(crew.write(4), code=Code.FENCED_MEMBER_EPOCH)
    room.callback_started(ann, "lost", B)
    room.now += 1
    crew.read(crew.write(0), 5)
    crew.write(-1)
    assert room.verdict() == ""


@pytest.mark.parametrize(
    ("beats", "words"),
    [
        ([(2,)], "with epoch 2, not 3"),
        ([(-1,), (3, [0, 1])], "since it has left"),
        ([(-2,)], "leaves with epoch -2, not -1"),
        ([(0, [0])], "joins again, but it is a member in epoch 3"),
        ([(3,), (3,)], "while another is unanswered"),
    ],
)
def test_wrong_heartbeat_is_a_violation(crew, beats, words):
    crew.settle()
    for beat in beats:
        crew.write(*beat)
    assert words in crew.room.verdict()


def test_another_member_id_is_a_violation(crew):
    crew.settle()
    crew.write(3, who="other")
    assert "with member id 'other', not 'ann-id'" in crew.room.verdict()


@pytest.mark.parametrize(
    ("owned", "words"),
    [([1], "has given up t-0, which it still owns"), ([0, 1, 2], "says that it owns t-2, but owns t-0 t-1")],
)
def test_acknowledging_what_is_not_so_is_a_violation(crew, owned, words):
    crew.settle()
    crew.room.now += 1
    crew.write(3, owned)
    assert words in crew.room.verdict()


def test_storm_of_heartbeats_is_a_violation(crew):
    crew.settle()
    for _ in range(BEATS_MAX):
        crew.read(crew.write(3), 3)
    assert "heartbeats within 10 s" in crew.room.verdict()


@pytest.mark.parametrize(
    ("epoch", "words"), [(0, "joins its group again"), (-1, "leaves its group"), (3, "gets epoch 4 after 3")]
)
def test_changes_without_a_cause_are_violations_when_all_is_quiet(crew, epoch, words):
    crew.settle()
    if epoch == 0:
        crew.read(crew.write(3), code=Code.UNKNOWN_MEMBER_ID)
        crew.room.callback_started(crew.ann, "lost", A, B)
    crew.checker.is_quiet = True
    crew.read(crew.write(epoch), 4)
    assert words in crew.room.verdict()


def test_joining_with_partitions_is_a_violation(crew):
    crew.settle()
    crew.read(crew.write(3), code=Code.UNKNOWN_MEMBER_ID)
    crew.write(0)
    assert "joins before its callbacks were told that it has lost t-0 t-1" in crew.room.verdict()


@pytest.mark.parametrize("closed", [True, False])
def test_next_heartbeat_needs_the_connection_of_the_last_to_be_closed(crew, closed):
    crew.settle()
    crew.write(3)
    request = crew.write(3, [0, 1], full=True, line=2)
    if closed:
        crew.room.tell("connection_closed", crew.ann, 1)
    crew.room.now += 1
    crew.read(request, 3, line=2)
    assert ("was unanswered on connection 1" in crew.room.verdict()) is not closed


@pytest.mark.parametrize("how", ["error", "closed"])
def test_fields_left_out_after_a_loss_are_a_violation(crew, how):
    crew.settle()
    request = crew.write(3)
    if how == "error":
        crew.read(request, code=Code.NOT_COORDINATOR)
    else:
        crew.room.tell("connection_closed", crew.ann, 1)
    crew.write(3)
    assert "leaves out fields" in crew.room.verdict()
