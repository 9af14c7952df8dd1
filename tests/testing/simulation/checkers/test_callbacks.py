"""Callbacks name changes of the owned partitions, in the order of the protocol (KIP-429)."""

import pytest
from lab.checkers.callbacks import CallbackChecker

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B, C = (TopicPartition("t", n) for n in range(3))


@pytest.fixture
def checker(room):
    return room.add(CallbackChecker, views=room.views)


@pytest.fixture
def eager(room, checker):
    return room.member()


@pytest.fixture
def coop(room, checker):
    member = room.member("bob", cooperative=True)
    room.tell("subscribed", member, ["t"])
    return member


def test_eager_rebalance_in_order_passes(room, checker, eager):
    room.owns(eager, A, B)
    room.callback_started(eager, "revoked", A, B)
    room.join(eager, 2)
    room.sync(eager, B, C)
    room.callback_started(eager, "assigned", B, C)
    assert (room.verdict(), checker.owned(eager)) == ("", {B, C})
    assert checker.counts == {"assigned": 2, "revoked": 1}


def test_cooperative_rebalance_in_order_passes(room, checker, coop):
    room.owns(coop, A, B)
    room.join(coop, 2)
    room.sync(coop, B)
    room.callback_started(coop, "revoked", A)
    room.callback_started(coop, "assigned")
    room.join(coop, 3)
    room.sync(coop, B, C)
    room.callback_started(coop, "assigned", C)
    room.tell("finish")
    assert (room.verdict(), checker.owned(coop)) == ("", {B, C})


def test_member_that_missed_a_generation_loses_all_partitions(room, checker, coop):
    room.owns(coop, A, B)
    room.join(coop, 3)
    room.sync(coop, B)
    room.callback_started(coop, "lost", A, B)
    room.callback_started(coop, "assigned", B)
    assert (room.verdict(), checker.owned(coop)) == ("", {B})
    room.callback_started(coop, "lost", B)
    assert "no response has ended its membership" in room.verdict(), "once"


@pytest.mark.parametrize(("away", "is_lost"), [(29.0, False), (31.0, True)])
def test_member_may_leave_that_reads_a_join_response_after_the_poll_interval(room, checker, coop, away, is_lost):
    room.owns(coop, A, B)
    room.tell("call_began", coop, True)
    room.join(coop, 2, away=away)
    room.callback_started(coop, "lost", A, B)
    assert ("no response has ended its membership" in room.verdict()) != is_lost


def test_revocation_after_a_missed_generation_is_a_violation(room, checker, coop):
    """Another member may have committed beyond the offset that a revocation would commit."""
    room.owns(coop, A, B)
    room.join(coop, 3)
    room.sync(coop, B)
    room.callback_started(coop, "revoked", A)
    assert "missed a generation" in room.verdict()


def test_assigned_partitions_must_be_new_and_in_the_share(room, checker, coop):
    room.owns(coop, A)
    room.callback_started(coop, "assigned", A)
    assert room.verdict().startswith("bob.on_partitions_assigned got t-0, which it already owns")
    room.callback_started(coop, "assigned", C)
    assert "got t-2, but was assigned t-0" in room.verdict()


def test_revoked_partitions_must_be_owned(room, checker, eager):
    room.owns(eager, A)
    room.callback_started(eager, "revoked", A, B)
    assert "got t-0 t-1, but it owns only t-0" in room.verdict()


def test_empty_revocation_of_a_cooperative_member_is_a_violation(room, checker, coop):
    room.owns(coop, A)
    room.callback_started(coop, "revoked")
    assert "got no partition" in room.verdict()


def test_revoked_is_called_before_assigned(room, checker, coop):
    room.owns(coop, A)
    room.join(coop, 2)
    room.sync(coop, B)
    room.callback_started(coop, "assigned", B)
    assert "before it revoked t-0" in room.verdict()


def test_lost_names_all_owned_partitions_and_has_a_reason(room, checker, eager):
    room.owns(eager, A, B)
    room.callback_started(eager, "lost", A, B)
    assert "no response has ended its membership" in room.verdict()
    room.owns(eager, A, B, generation=2)
    room.beat(eager, Code.UNKNOWN_MEMBER_ID)
    room.callback_started(eager, "lost", A)
    assert "got t-0, but it owned t-0 t-1" in room.verdict()


def test_eager_member_gives_up_all_partitions_before_it_joins(room, checker, eager):
    room.owns(eager, A, B)
    room.join(eager, 2, code=None)
    assert "before it has revoked t-0 t-1" in room.verdict()
    room.callback_started(eager, "revoked", A)
    assert "as revoked" in room.verdict()


def test_cooperative_member_keeps_the_partitions_in_its_share(room, checker, coop):
    room.owns(coop, A, B)
    room.callback_started(coop, "revoked", A, B)
    assert "of which t-0 t-1 is still assigned to it" in room.verdict()
    room.tell("subscribed", coop, ["u"])
    room.owns(coop, A, B, generation=2)
    room.verdict()
    room.callback_started(coop, "revoked", A, B)
    assert room.verdict() == "", "it does not want them any more"


def test_a_topic_that_was_left_out_for_a_while_may_be_revoked(room, checker, coop):
    """The revocation waits for commits, and the subscription may change back meanwhile."""
    room.owns(coop, A, B)
    room.tell("subscribed", coop, ["other"])
    room.tell("subscribed", coop, ["t", "other"])
    room.callback_started(coop, "revoked", A)
    assert room.verdict() == ""


def test_member_that_gave_partitions_up_must_join_again(room, checker, coop):
    room.owns(coop, A, B)
    room.join(coop, 2)
    room.sync(coop, B)
    room.callback_started(coop, "revoked", A)
    room.callback_started(coop, "assigned")
    room.tell("finish")
    assert "not joined again" in room.verdict()


def test_a_loss_is_not_called_a_revocation(room, checker, eager):
    room.owns(eager, A)
    room.beat(eager, Code.ILLEGAL_GENERATION)
    room.callback_started(eager, "revoked", A)
    assert "as revoked after ILLEGAL_GENERATION" in room.verdict()
