"""Members say who they are, as they were told; nothing follows what is parked."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import IdentityChecker
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

A = TopicPartition("t", 0)


@pytest.fixture
def ann(room):
    room.add(IdentityChecker, views=room.views)
    return room.member()


def test_a_life_in_order_is_fine(room, ann):
    room.join(ann, code=Code.MEMBER_ID_REQUIRED, gets="ann-id")
    room.owns(ann, A)
    room.beat(ann)
    room.commit(ann, {A: 1})
    room.beat(ann, Code.ILLEGAL_GENERATION)
    room.owns(ann, A, generation=3)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    room.join(ann, as_="", generation=5, gets="ann-id2")
    room.leave(ann)
    room.join(ann, as_="", generation=6)
    assert room.verdict() == ""


@pytest.mark.parametrize("how", ["beat", "commit"])
@pytest.mark.parametrize("stamp", [("", 1), ("ann-id", -1), ("", -1), ("ann-id", 0), ("bob-id", 1)])
def test_a_wrong_stamp_is_found(room, ann, how, stamp):
    room.owns(ann, A)
    room.beat(ann, stamp=stamp) if how == "beat" else room.commit(ann, {A: 1}, stamp=stamp)
    assert "without an identity" in room.verdict() if not stamp[0] or stamp[1] < 0 else "and is" in room.verdict()


def test_a_commit_of_nothing_says_nothing(room, ann):
    room.commit(ann, {}, stamp=("", -1))
    assert room.verdict() == ""


def test_a_sync_under_an_old_generation_is_found(room, ann):
    room.owns(ann, A)
    room.says(ann, SyncGroupRequest(group_id="g", generation_id=0, member_id="ann-id", assignments=[]))
    assert "sends a SyncGroup as ann-id of generation 0" in room.verdict()


def test_an_identity_that_was_taken_away_is_found(room, ann):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    room.beat(ann, stamp=("ann-id", 1))
    assert "and is nobody of generation -1 (UNKNOWN_MEMBER_ID)" in room.verdict()
    room.join(ann, as_="ann-id")
    assert "the coordinator said that it does not know it" in room.verdict()


def test_what_is_written_in_the_step_in_which_it_was_told_may_be_older(room, ann):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    room.now = room.views.of[ann].changed_at - 0.001  # says() lets so much time pass
    room.beat(ann, stamp=("ann-id", 1))
    assert room.verdict() == ""
    room.now = room.views.of[ann].changed_at - 0.001
    room.join(ann, as_="ann-id", code=None)
    assert room.verdict() == ""


def test_an_id_that_is_not_its_own_is_found(room, ann):
    room.join(ann, as_="bob-id", code=None)
    assert room.verdict() == "ann joins as bob-id, and was told that it is nobody"


@pytest.mark.parametrize("code", [Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS])
def test_an_id_that_is_dropped_is_found(room, ann, code):
    room.owns(ann, A)
    room.beat(ann, code)
    room.join(ann, as_="", code=None)
    assert "leaves a ghost behind" in room.verdict()


def test_an_id_that_was_given_and_not_used_is_found(room, ann):
    room.join(ann, code=Code.MEMBER_ID_REQUIRED, gets="named")
    room.join(ann, as_="", code=None)
    assert "leaves a ghost behind" in room.verdict()


def test_who_was_away_for_too_long_may_drop_its_id(room, ann):
    room.owns(ann, A)
    room.now += 31
    room.join(ann, as_="", code=None)
    assert room.verdict() == ""


@pytest.mark.parametrize("parked", [JoinGroupRequest, SyncGroupRequest])
def test_nothing_follows_what_is_parked(room, ann, parked):
    room.owns(ann, A)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="ann-id")
    room.says(ann, beat, before=[FetchRequest.API_KEY])
    assert room.verdict() == ""
    room.says(ann, beat, before=[parked.API_KEY])
    assert f"HeartbeatRequest behind a {parked.__name__.removesuffix('Request')}" in room.verdict()
