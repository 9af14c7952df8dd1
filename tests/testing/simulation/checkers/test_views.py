"""A member's state by the responses that it has read and that still count."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def ann(room):
    return room.member()


@pytest.fixture
def view(room, ann):
    return room.views.of[ann]


def test_join_and_sync_set_identity_and_share(room, ann, view):
    room.join(ann, 3)
    assert (view.member_id, view.generation, view.share, view.rebalancing) == ("ann-id", 3, frozenset(), True)
    room.sync(ann, A, B)
    assert (view.share, view.shared_in, view.rebalancing) == ({A, B}, 3, False)
    room.tell("ended", ann)
    assert ann not in room.views.of


@pytest.mark.parametrize(
    ("code", "left"),
    [
        (Code.UNKNOWN_MEMBER_ID, ("", -1, frozenset())),
        (Code.ILLEGAL_GENERATION, ("ann-id", -1, frozenset())),
        (Code.FENCED_INSTANCE_ID, ("", -1, frozenset())),
        (Code.REBALANCE_IN_PROGRESS, ("ann-id", 1, frozenset({A}))),
        (Code.NOT_COORDINATOR, ("ann-id", 1, frozenset({A}))),
    ],
)
@pytest.mark.parametrize("how", ["beat", "commit"])
def test_errors_of_heartbeats_and_commits_expel_the_member(room, ann, view, how, code, left):
    room.owns(ann, A)
    room.beat(ann, code) if how == "beat" else room.commit(ann, {A: 1}, code)
    assert (view.member_id, view.generation, view.share) == left
    assert view.expelled == (code.name if left[1] < 0 else "")
    assert view.unknown == ({"ann-id"} if code == Code.UNKNOWN_MEMBER_ID else set())


def test_missed_generation_is_noted_until_the_next_callback(room, ann, view):
    room.owns(ann, A, generation=3)
    room.join(ann, 4)
    assert not view.missed
    room.join(ann, 6)
    room.join(ann, 7)
    assert view.missed
    room.callback_started(ann, "revoked", A)
    assert view.missed
    room.callback_started(ann, "assigned")
    assert not view.missed


def test_membership_is_in_doubt_after_a_long_absence_until_confirmed(room, ann, view):
    room.tell("call_began", ann, True)
    room.owns(ann, A)
    room.tell("call_ended", ann)
    room.now += 9.9
    room.tell("call_began", ann, True)
    assert view.doubted_since is None
    room.tell("call_ended", ann)
    room.now += 10.1
    room.tell("call_began", ann, False)
    assert view.doubted_since == room.now
    room.commit(ann, {A: 1})
    assert view.doubted_since is not None, "offsets may be committed by who is no member"
    room.beat(ann, Code.REBALANCE_IN_PROGRESS)
    assert view.doubted_since is None
