"""Requests carry the member's identity by its last responses; none follows a parked join or sync."""

import pytest
from lab.checkers.identity import IdentityChecker

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A = TopicPartition("t", 0)


@pytest.fixture
def ann(room):
    room.add(IdentityChecker, views=room.views)
    return room.member()


def test_correct_life_of_a_member_passes(room, ann):
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
def test_wrong_member_id_or_generation_is_a_violation(room, ann, how, stamp):
    room.owns(ann, A)
    room.beat(ann, stamp=stamp) if how == "beat" else room.commit(ann, {A: 1}, stamp=stamp)
    assert "not a member" in room.verdict() if not stamp[0] or stamp[1] < 0 else "but has" in room.verdict()


def test_join_with_a_foreign_member_id_is_a_violation(room, ann):
    room.join(ann, as_="bob-id", code=None)
    assert room.verdict() == "ann joins with member id bob-id, but its id is ''"


@pytest.mark.parametrize("code", [Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS])
def test_join_without_the_known_member_id_is_a_violation(room, ann, code):
    room.owns(ann, A)
    room.beat(ann, code)
    room.join(ann, as_="", code=None)
    assert "joins without its member id" in room.verdict()


def test_request_with_a_revoked_identity_is_a_violation(room, ann):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    room.beat(ann, stamp=("ann-id", 1))
    assert "but has '' and -1, since UNKNOWN_MEMBER_ID" in room.verdict()
    room.join(ann, as_="ann-id")
    assert "which the coordinator rejected with UNKNOWN_MEMBER_ID" in room.verdict()
