"""The epoch and assignment of a member, by the heartbeat responses that it has read."""

import pytest
from lab.checkers.consumer_views import FENCINGS, ConsumerViews

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    TopicPartitions,
)
from thinconsumer.wire.error_codes import Code

ID = b"t" * 16
A = TopicPartition("t", 0)


@pytest.fixture
def ann(room):
    room.views = room.add(ConsumerViews, now=lambda: room.now, name_of=lambda topic_id: "t")
    return room.member()


def beat(room, member, epoch, *, gets=0, code=0, tps=None, line=1, read_on=None):
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="ann-id", member_epoch=epoch)
    room.says(member, request, line)
    rows = None if tps is None else HeartbeatAssignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=tps)])
    response = ConsumerGroupHeartbeatResponse(
        error_code=code,
        member_id=None if code else "ann-id",
        member_epoch=gets,
        heartbeat_interval_ms=5000,
        assignment=rows,
    )
    room.learns(member, request, response, read_on or line)
    return room.views.of[member]


def test_a_response_gives_the_epoch_and_perhaps_an_assignment(room, ann):
    view = beat(room, ann, 0, gets=3, tps=[0])
    assert (view.member_id, view.generation, view.share) == ("ann-id", 3, {A})
    view = beat(room, ann, 3, gets=4)
    assert (view.generation, view.share, view.before) == (4, {A}, ("ann-id", 3))


@pytest.mark.parametrize("code", sorted(FENCINGS))
def test_a_fenced_member_owns_nothing(room, ann, code):
    beat(room, ann, 0, gets=3, tps=[0])
    view = beat(room, ann, 3, code=code)
    assert (view.generation, view.share, view.expelled) == (-1, frozenset(), Code(code).name)


def away(room, ann, gap):
    """Let the member make no call for a while; return whether it has to wait for a confirmation then."""
    room.tell("call_ended", ann)
    room.now += gap
    room.tell("call_began", ann, True)
    return room.views.of[ann].is_doubted


@pytest.mark.parametrize(
    ("between", "is_trusted"),
    [
        ("nothing", True),
        ("an error", False),
        ("a lost connection", False),
        ("a second heartbeat", False),
        ("a join", False),
        ("a response", False),
    ],
)
def test_a_gap_that_the_membership_has_survived_before_needs_no_confirmation(room, ann, between, is_trusted):
    """The session timeout is 10 s; after a failed heartbeat, the coordinator may be another one.

    The member has not read a response between two gaps, or could have waited for its confirmation.
    """
    beat(room, ann, 0, gets=3, tps=[0])
    room.now += 20
    if between == "an error":
        beat(room, ann, 3, code=Code.NOT_COORDINATOR)
    elif between in ("a lost connection", "a second heartbeat"):
        room.says(ann, ConsumerGroupHeartbeatRequest(group_id="g", member_id="ann-id", member_epoch=3))
        if between == "a lost connection":
            room.tell("connection_closed", ann, 1)
    beat(room, ann, 3, gets=3, line=2)
    if between == "a join":
        beat(room, ann, 0, gets=3, tps=[0])
    away(room, ann, 8)
    if between == "a response":
        beat(room, ann, 3, gets=3, line=2)
    assert away(room, ann, 15) is not is_trusted
    if is_trusted:
        assert away(room, ann, 25)
