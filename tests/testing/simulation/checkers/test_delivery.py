"""Members get records of owned partitions only."""

import pytest
from lab.checkers.delivery import DeliveryChecker

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def ann(room):
    room.add(DeliveryChecker, views=room.views)
    return room.member()


def deliver(room, member, *tps):
    room.tell("delivered", member, dict.fromkeys(tps, ()), 10)
    return room.verdict()


def test_records_of_owned_partitions_pass(room, ann):
    room.owns(ann, A, B)
    assert deliver(room, ann, A, B) == ""


def test_records_before_the_assigned_callback_returns_are_a_violation(room, ann):
    room.join(ann)
    room.sync(ann, A)
    assert "for which on_partitions_assigned has not returned" in deliver(room, ann, A)
    room.callback_started(ann, "assigned", A, error=ValueError())
    assert "for which on_partitions_assigned has not returned" in deliver(room, ann, A)


@pytest.mark.parametrize("is_own", [True, False], ids=["its id", "its id of before"])
def test_records_after_a_request_to_leave_that_names_the_member_are_a_violation(room, ann, is_own):
    room.owns(ann, A)
    named = room.views.of[ann].member_id if is_own else "before"
    room.says(ann, LeaveGroupRequest(group_id=ann.group, members=[MemberIdentity(member_id=named)]), line=4)
    assert ("it has left" in deliver(room, ann, A)) is is_own


@pytest.mark.parametrize("what", ["revoked", "lost"])
def test_records_after_a_revocation_are_a_violation(room, ann, what):
    room.owns(ann, A, B)
    room.tell("callback_started", ann, what, {A})
    assert "for which on_partitions_assigned has not returned" in deliver(room, ann, A)
    assert deliver(room, ann, B) == ""


def test_records_of_a_partition_missing_in_the_last_sync_are_a_violation(room, ann):
    room.owns(ann, A, B)
    room.join(ann, 2)
    assert deliver(room, ann, A, B) == "", "kept in a cooperative rebalance"
    room.sync(ann, B)
    assert "t-0, which its last SyncGroup response did not assign" in deliver(room, ann, A)
    assert deliver(room, ann, B) == ""


def test_records_after_an_expulsion_are_a_violation(room, ann):
    room.owns(ann, A)
    room.beat(ann, Code.UNKNOWN_MEMBER_ID)
    assert "after its membership ended: UNKNOWN_MEMBER_ID" in deliver(room, ann, A)
