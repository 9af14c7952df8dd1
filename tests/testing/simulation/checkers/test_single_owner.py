"""Two owners of one partition are a violation if both are in the generation."""

import pytest
from lab.checkers.callbacks import CallbackChecker
from lab.checkers.commits import Plans
from lab.checkers.single_owner import SingleOwnerChecker

from thinconsumer.types import TopicPartition

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


def test_absent_static_member_passes(court):
    assert meet(court, court.member(instance_id="ann"), court.member("bob")) == ""
