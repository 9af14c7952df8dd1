"""A member's state by the responses that it has read and that still count."""

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer_testing.simulation.client_tap import SentRequest

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


def test_member_id_required_sets_the_member_id(room, ann, view):
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
def test_errors_of_heartbeats_and_commits_expel_the_member(room, ann, view, how, code, left):
    room.owns(ann, A)
    room.beat(ann, code) if how == "beat" else room.commit(ann, {A: 1}, code)
    assert (view.member_id, view.generation, view.share) == left
    assert view.expelled == (code.name if left[1] < 0 else "")
    assert view.unknown == ({"ann-id"} if code == Code.UNKNOWN_MEMBER_ID else set())


def test_commit_error_during_a_rebalance_expels_no_member(room, ann, view):
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
def test_commit_error_of_a_former_coordinator_expels_no_member(room, ann, view, named, when, believed):
    """Only if FindCoordinator named another one since: else the receiver is the coordinator."""
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


def test_commit_error_of_the_new_coordinator_expels_the_member(room, ann, view):
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


def test_heartbeat_error_is_ignored_while_a_join_is_parked(room, ann, view):
    room.owns(ann, A)
    room.join(ann, code=None)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    assert view.member_id == "ann-id"
    room.tell("connection_closed", ann, 1)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    assert view.member_id == ""


def test_responses_for_a_former_identity_are_ignored(room, ann, view):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID, stamp=("ann-id", 0))
    room.commit(ann, {A: 1}, Code.UNKNOWN_MEMBER_ID, stamp=("other", 1))
    assert view.member_id == "ann-id"


def test_join_response_of_an_abandoned_connection_is_ignored(room, ann, view):
    room.join(ann, code=None, line=1)
    room.join(ann, code=None, line=2)
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    answer = JoinGroupResponse(generation_id=7, member_id="old", leader="", members=[], protocol_name="range")
    room.tell("response_read", ann, 1, SentRequest(request.API_KEY, 0, request), answer)
    assert view.generation == -1
    room.tell("response_read", ann, 2, SentRequest(request.API_KEY, 0, request), answer)
    assert view.generation == 7


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


def test_leaving_clears_the_identity(room, ann, view):
    room.owns(ann, A)
    room.leave(ann)
    assert (view.member_id, view.generation, view.share) == ("", -1, frozenset())


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


def test_response_to_a_request_before_the_absence_confirms_nothing(room, ann, view):
    room.owns(ann, A)
    room.tell("call_ended", ann)
    asked = room.now
    room.now += 11
    room.tell("call_began", ann, True)
    view.asked_at = asked
    room.views._proven(view)
    assert view.doubted_since is not None


def test_member_beyond_max_poll_interval_may_leave(room, ann, view):
    room.tell("call_began", ann, True)
    room.owns(ann, A)
    room.now += 31
    room.tell("call_began", ann, False)
    assert view.may_forget


def test_events_of_closed_members_are_ignored(room, ann):
    room.owns(ann, A)
    room.tell("ended", ann)
    room.tell("call_ended", ann)
    room.tell("connection_closed", ann, 1)
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    room.says(ann, request)
    assert ann not in room.views.of
