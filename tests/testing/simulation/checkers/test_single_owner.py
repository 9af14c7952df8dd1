"""Two who have the same partition, and both take part."""

from __future__ import annotations

import pytest

from thinconsumer.testing.simulation.checkers import CallbackChecker, Plans, SingleOwnerChecker
from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WORDS = "bob is given t-0 in generation 2, and ann has it still"


@pytest.fixture
def court(room):
    plans = room.add(Plans)
    callbacks = room.add(CallbackChecker, views=room.views)
    room.add(SingleOwnerChecker, views=room.views, plans=plans, callbacks=callbacks)
    return room


def meet(court, ann, bob, generation=2):
    """Ann has t-0; bob, who leads the next generation, gives it to itself."""
    court.owns(ann, A)
    court.join(bob, generation)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.verdict()
    court.callback_started(bob, "assigned", A)
    return court.verdict()


def test_two_members_of_one_generation_must_not_have_the_same(court):
    assert meet(court, court.member(), court.member("bob")) == WORDS


def test_another_group_is_another_matter(court):
    assert meet(court, court.member(group="other"), court.member("bob")) == ""


def test_who_is_not_in_the_generation_cannot_know(court):
    assert meet(court, court.member(), court.member("bob"), generation=5) == ""


def test_a_static_member_that_has_not_joined_does_not_take_part(court):
    assert meet(court, court.member(instance_id="ann"), court.member("bob")) == ""


def test_who_was_told_that_it_is_out_is_found_elsewhere(court):
    ann, bob = court.member(), court.member("bob")
    court.owns(ann, A)
    court.beat(ann, Code.UNKNOWN_MEMBER_ID)
    court.join(bob, 2)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.callback_started(bob, "assigned", A)
    assert court.verdict() == ""


def test_who_hears_of_an_old_generation_late_is_the_one_who_is_behind(court):
    ann, bob = court.member(), court.member("bob")
    court.join(bob, 2)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.owns(ann, A, generation=4)
    court.callback_started(bob, "assigned", A)
    assert court.verdict() == ""


def test_who_is_gone_has_nothing(court):
    ann = court.member()
    court.owns(ann, A)
    court.tell("ended", ann)
    bob = court.member("bob")
    court.join(bob, 2)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.callback_started(bob, "assigned", A)
    assert court.verdict() == ""
