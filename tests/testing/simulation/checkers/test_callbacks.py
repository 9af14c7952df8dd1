"""Listeners hear deltas that match what they own, in the order of their protocol (KIP-429)."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import CallbackChecker
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


def test_an_eager_round_in_order(room, checker, eager):
    room.owns(eager, A, B)
    room.callback_started(eager, "revoked", A, B)
    room.join(eager, 2)
    room.sync(eager, B, C)
    room.callback_started(eager, "assigned", B, C)
    assert (room.verdict(), checker.owned(eager)) == ("", {B, C})
    assert checker.counts == {"assigned": 2, "revoked": 1}


def test_a_cooperative_round_in_order(room, checker, coop):
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


def test_after_a_generation_without_it_all_is_lost(room, checker, coop):
    room.owns(coop, A, B)
    room.join(coop, 3)
    room.sync(coop, B)
    room.callback_started(coop, "lost", A, B)
    room.callback_started(coop, "assigned", B)
    assert (room.verdict(), checker.owned(coop)) == ("", {B})
    room.callback_started(coop, "lost", B)
    assert "nobody has told it so" in room.verdict(), "once"


def test_after_a_generation_without_it_nothing_is_revoked(room, checker, coop):
    """Who had it in between may have gone further than what is committed by who gives it up."""
    room.owns(coop, A, B)
    room.join(coop, 3)
    room.sync(coop, B)
    room.callback_started(coop, "revoked", A)
    assert "after a generation without it" in room.verdict()


def test_assigned_must_be_new_and_given(room, checker, coop):
    room.owns(coop, A)
    room.callback_started(coop, "assigned", A)
    assert room.verdict().startswith("bob hears that t-0 is assigned, and owns t-0")
    room.callback_started(coop, "assigned", C)
    assert "t-2 is assigned, and its share is t-0" in room.verdict()


def test_a_callback_that_raised_is_heard_again(room, checker, coop):
    room.join(coop)
    room.sync(coop, A)
    room.callback_started(coop, "assigned", A, error=ValueError())
    room.callback_started(coop, "assigned", A)
    assert room.verdict() == ""
    room.callback_started(coop, "assigned", A)
    assert "is assigned, and owns" in room.verdict()


def test_revoked_must_be_owned(room, checker, eager):
    room.owns(eager, A)
    room.callback_started(eager, "revoked", A, B)
    assert "t-0 t-1 is revoked, and owns only t-0" in room.verdict()


def test_eager_gives_everything_up_before_it_joins(room, checker, eager):
    room.owns(eager, A, B)
    room.join(eager, 2, code=None)
    assert "joins while it owns t-0 t-1" in room.verdict()
    room.callback_started(eager, "revoked", A)
    assert "is revoked" in room.verdict()


def test_cooperative_keeps_what_it_may(room, checker, coop):
    room.owns(coop, A, B)
    room.callback_started(coop, "revoked", A, B)
    assert "of which t-0 t-1 is its share" in room.verdict()
    room.tell("subscribed", coop, ["u"])
    room.owns(coop, A, B, generation=2)
    room.verdict()
    room.callback_started(coop, "revoked", A, B)
    assert room.verdict() == "", "it does not want them any more"


def test_cooperative_is_not_told_that_nothing_is_revoked(room, checker, coop):
    room.owns(coop, A)
    room.callback_started(coop, "revoked")
    assert "nothing is revoked" in room.verdict()


def test_what_goes_is_told_before_what_comes(room, checker, coop):
    room.owns(coop, A)
    room.join(coop, 2)
    room.sync(coop, B)
    room.callback_started(coop, "assigned", B)
    assert "before it has given up t-0" in room.verdict()


def test_who_gives_something_up_joins_again(room, checker, coop):
    room.owns(coop, A, B)
    room.join(coop, 2)
    room.sync(coop, B)
    room.callback_started(coop, "revoked", A)
    room.callback_started(coop, "assigned")
    room.tell("finish")
    assert "did not join again" in room.verdict()


def test_lost_is_all_and_has_a_reason(room, checker, eager):
    room.owns(eager, A, B)
    room.callback_started(eager, "lost", A, B)
    assert "nobody has told it so" in room.verdict()
    room.owns(eager, A, B, generation=2)
    room.beat(eager, Code.UNKNOWN_MEMBER_ID)
    room.callback_started(eager, "lost", A)
    assert "t-0 is lost, and owned t-0 t-1" in room.verdict()


def test_a_loss_is_not_called_a_revocation(room, checker, eager):
    room.owns(eager, A)
    room.beat(eager, Code.ILLEGAL_GENERATION)
    room.callback_started(eager, "revoked", A)
    assert "was told ILLEGAL_GENERATION: it is lost" in room.verdict()


def test_who_closes_gives_up_what_it_has(room, checker, coop):
    room.owns(coop, A)
    room.tell("closing", coop)
    room.callback_started(coop, "revoked", A)
    room.tell("finish")
    assert room.verdict() == ""
    room.tell("ended", coop)
    assert checker.owned(coop) == set()
