"""Records come of what is the member's, and of nothing else."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import DeliveryChecker
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def ann(room):
    room.add(DeliveryChecker, views=room.views)
    return room.member()


def deliver(room, member, *tps):
    room.tell("delivered", member, dict.fromkeys(tps, ()), 10)
    return room.verdict()


def test_what_was_given_and_told_may_come(room, ann):
    room.owns(ann, A, B)
    assert deliver(room, ann, A, B) == ""


def test_before_the_callback_is_through_nothing_comes(room, ann):
    room.join(ann)
    room.sync(ann, A)
    assert "which its listener does not have" in deliver(room, ann, A)
    room.callback_started(ann, "assigned", A, error=ValueError())
    assert "which its listener does not have" in deliver(room, ann, A)


@pytest.mark.parametrize("what", ["revoked", "lost"])
def test_nothing_comes_once_it_goes(room, ann, what):
    room.owns(ann, A, B)
    room.tell("callback_started", ann, what, {A})
    assert "which its listener does not have" in deliver(room, ann, A)
    assert deliver(room, ann, B) == ""


def test_what_the_last_sync_lacks_does_not_come_though_nobody_was_told_yet(room, ann):
    room.owns(ann, A, B)
    room.join(ann, 2)
    assert deliver(room, ann, A, B) == "", "kept in a cooperative rebalance"
    room.sync(ann, B)
    assert "t-0, which is not in the share" in deliver(room, ann, A)
    assert deliver(room, ann, B) == ""


def test_who_was_expelled_delivers_nothing(room, ann):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    assert "after it was told UNKNOWN_MEMBER_ID" in deliver(room, ann, A)


def test_after_a_long_absence_nothing_comes_before_somebody_has_answered(room, ann):
    room.owns(ann, A)
    room.tell("call_ended", ann)
    room.now += 11
    room.tell("call_began", ann, True)
    assert "nobody has told it that it is still a member" in deliver(room, ann, A)
    room.beat(ann)
    assert deliver(room, ann, A) == ""


def test_nothing_is_said_of_who_is_gone(room, ann):
    room.tell("ended", ann)
    assert deliver(room, ann, A) == ""
