"""What a member was told: by answers that are in its hands, and that still matter."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.client_tap import SentRequest
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def ann(room):
    return room.member()


@pytest.fixture
def view(room, ann):
    return room.views.of[ann]


def test_a_join_and_a_sync_say_who_it_is_and_what_it_has(room, ann, view):
    room.join(ann, 3)
    assert (view.member_id, view.generation, view.share, view.rebalancing) == ("ann-id", 3, frozenset(), True)
    room.sync(ann, A, B)
    assert (view.share, view.shared_in, view.rebalancing) == ({A, B}, 3, False)
    room.tell("ended", ann)
    assert ann not in room.views.of


def test_an_id_is_given_before_it_is_a_member(room, ann, view):
    room.join(ann, code=Code.MEMBER_ID_REQUIRED, gets="named")
    assert (view.member_id, view.generation) == ("named", -1)


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
def test_what_a_heartbeat_or_a_commit_is_told_counts(room, ann, view, how, code, left):
    room.owns(ann, A)
    room.beat(ann, code) if how == "beat" else room.commit(ann, {A: 1}, code)
    assert (view.member_id, view.generation, view.share) == left
    assert view.expelled == (code.name if left[1] < 0 else "")
    assert view.unknown == ({"ann-id"} if code == Code.UNKNOWN_MEMBER_ID else set())


def test_in_a_rebalance_a_commits_word_need_not_be_believed(room, ann, view):
    room.owns(ann, A)
    room.beat(ann, Code.REBALANCE_IN_PROGRESS)
    room.commit(ann, {A: 1}, Code.UNKNOWN_MEMBER_ID)
    assert (view.member_id, view.may_forget) == ("ann-id", True)
    room.join(ann, 2)
    assert not view.may_forget


@pytest.mark.parametrize(
    ("named", "when", "believed"),
    [
        (("b", 9092), "after", False),
        (("a", 9093), "after", False),
        (("a", 9092), "after", True),
        (("b", 9092), "before", True),
        (None, "after", True),
    ],
)
def test_a_deposed_coordinators_word_on_a_commit_need_not_be_believed(room, ann, view, named, when, believed):
    """Only if another one was named since it was sent: else whoever is sent it has to know."""
    room.tell("connection_opened", ann, 3, "a", 9092)
    room.owns(ann, A)
    if when == "before":
        room.find(ann, named)
    request, response = room.commit_messages(ann, {A: 1}, Code.UNKNOWN_MEMBER_ID)
    room.says(ann, request, line=3)
    if when == "after":
        room.find(ann, named)
    room.learns(ann, request, response, line=3)
    assert (view.member_id, view.may_forget) == (("", False) if believed else ("ann-id", True))


def test_what_the_next_coordinator_says_has_to_be_believed(room, ann, view):
    room.tell("connection_opened", ann, 3, "a", 9092)
    room.owns(ann, A)
    request, response = room.commit_messages(ann, {A: 1}, Code.UNKNOWN_MEMBER_ID)
    room.says(ann, request, line=3)
    room.find(ann, ("b", 9092))
    room.learns(ann, request, response, line=3)
    room.tell("connection_opened", ann, 4, "b", 9092)
    room.says(ann, request, line=4)
    room.learns(ann, request, response, line=4)
    assert view.member_id == "" and view.expelled == "UNKNOWN_MEMBER_ID"


def test_a_heartbeats_word_does_not_count_while_a_join_is_parked(room, ann, view):
    room.owns(ann, A)
    room.join(ann, code=None)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    assert view.member_id == "ann-id"
    room.tell("connection_closed", ann, 1)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    assert view.member_id == ""


def test_what_is_said_of_somebody_it_was_before_does_not_count(room, ann, view):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID, stamp=("ann-id", 0))
    room.commit(ann, {A: 1}, Code.UNKNOWN_MEMBER_ID, stamp=("other", 1))
    assert view.member_id == "ann-id"


def test_a_joins_answer_that_comes_after_another_was_sent_elsewhere_does_not_count(room, ann, view):
    room.join(ann, code=None, line=1)
    room.join(ann, code=None, line=2)
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    answer = JoinGroupResponse(generation_id=7, member_id="old", leader="", members=[], protocol_name="range")
    room.tell("response_read", ann, 1, SentRequest(request.API_KEY, 0, request), answer)
    assert view.generation == -1
    room.tell("response_read", ann, 2, SentRequest(request.API_KEY, 0, request), answer)
    assert view.generation == 7


def test_a_generation_without_it_is_noted_until_it_hears_what_is_left(room, ann, view):
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


def test_who_leaves_is_nobody(room, ann, view):
    room.owns(ann, A)
    room.leave(ann)
    assert (view.member_id, view.generation, view.share) == ("", -1, frozenset())


def test_after_a_long_absence_it_is_in_doubt_until_it_is_told(room, ann, view):
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


def test_what_was_asked_before_an_absence_proves_nothing(room, ann, view):
    room.owns(ann, A)
    room.tell("call_ended", ann)
    asked = room.now
    room.now += 11
    room.tell("call_began", ann, True)
    view.asked_at = asked
    room.views._proven(view)
    assert view.doubted_since is not None


def test_who_did_not_poll_for_too_long_may_give_itself_up(room, ann, view):
    room.tell("call_began", ann, True)
    room.owns(ann, A)
    room.now += 31
    room.tell("call_began", ann, False)
    assert view.may_forget


def test_nothing_is_noted_of_who_is_gone(room, ann):
    room.owns(ann, A)
    room.tell("ended", ann)
    room.tell("call_ended", ann)
    room.tell("connection_closed", ann, 1)
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    room.says(ann, request)
    assert ann not in room.views.of
