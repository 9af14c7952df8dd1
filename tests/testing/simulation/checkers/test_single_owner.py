"""Two owners of one partition are a violation if both are in the generation."""

import pytest
from lab.checkers.callbacks import CallbackChecker
from lab.checkers.commits import Plans
from lab.checkers.single_owner import SingleOwnerChecker

from thinconsumer.types import TopicPartition
from thinconsumer.wire.error_codes import Code

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WORDS = "t-0 is assigned to bob in generation 2, but ann still owns it"


@pytest.fixture
def court(room):
    plans = room.add(Plans)
    callbacks = room.add(CallbackChecker, views=room.views)
    room.add(SingleOwnerChecker, views=room.views, plans=plans, callbacks=callbacks)
    return room


def meet(court, ann, bob, generation=2):
    """Ann has t-0; bob leads the next generation and assigns t-0 to itself."""
    court.owns(ann, A)
    court.join(bob, generation)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.verdict()
    court.callback_started(bob, "assigned", A)
    return court.verdict()


def test_two_owners_in_one_generation_are_a_violation(court):
    assert meet(court, court.member(), court.member("bob")) == WORDS


def test_owners_in_different_groups_pass(court):
    assert meet(court, court.member(group="other"), court.member("bob")) == ""


def test_owner_outside_the_generation_passes(court):
    assert meet(court, court.member(), court.member("bob"), generation=5) == ""


def test_absent_static_member_passes(court):
    assert meet(court, court.member(instance_id="ann"), court.member("bob")) == ""


def test_expelled_owner_is_left_to_other_checkers(court):
    ann, bob = court.member(), court.member("bob")
    court.owns(ann, A)
    court.beat(ann, Code.UNKNOWN_MEMBER_ID)
    court.join(bob, 2)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.callback_started(bob, "assigned", A)
    assert court.verdict() == ""


def test_late_callback_of_an_old_generation_passes(court):
    ann, bob = court.member(), court.member("bob")
    court.join(bob, 2)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.owns(ann, A, generation=4)
    court.callback_started(bob, "assigned", A)
    assert court.verdict() == ""


def test_closed_member_owns_nothing(court):
    ann = court.member()
    court.owns(ann, A)
    court.tell("ended", ann)
    bob = court.member("bob")
    court.join(bob, 2)
    court.sync(bob, A, plan={"bob-id": [A], "ann-id": [B]})
    court.callback_started(bob, "assigned", A)
    assert court.verdict() == ""
