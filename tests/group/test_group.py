"""The group under one roof: who is asked what, and what survives an interruption."""

from __future__ import annotations

import random

import pytest

from thinconsumer.assignors.registry import create
from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import IllegalStateError
from thinconsumer.group.classic.states import MemberState
from thinconsumer.group.group import Group
from thinconsumer.metadata import Metadata
from thinconsumer.partitions import Partitions, PositionEvent, PositionState
from thinconsumer.timers import NEVER
from thinconsumer.types import OffsetAndMetadata, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def make():
    def make(**options):
        config = ConsumerConfig.from_options(group_id="g", **options)
        lot = random.Random(1)
        return Group(config, create(["range"]), Partitions(), Metadata(config, lot), lot)

    return make


def step(group, now):
    return [request for manager in group.managers() for request in manager.step(now)]


def partitions(group):
    return group._partitions


def test_a_group_that_nobody_uses_asks_for_nothing(make):
    group = make()
    assert step(group, 1.0) == [] and all(manager.wake_at(1.0) == NEVER for manager in group.managers())
    assert group.topics() == frozenset() and not group.wants_all_topics and not group.has_work(1.0)
    assert list(group.errors()) == [] and group.held is None


def test_subscribing_looks_for_the_coordinator(make):
    group = make()
    group.subscription.subscribe(["t"], None, None)
    group.subscribed()
    (request,) = step(group, 1.0)
    assert (
        request.asker in [manager.asker for manager in group.managers()]
        and request.api.__name__ == "FindCoordinatorRequest"
    )
    assert group.topics() == {"t"} and group.member.state is MemberState.UNJOINED
    group.subscription.subscribe((), "t.*", None)
    group.subscribed()
    assert group.wants_all_topics


def test_who_subscribes_while_still_leaving_joins_again_afterwards(make):
    """Else unsubscribe() and subscribe() without a poll in between left a consumer that never read anything again."""
    group = make()
    group.subscription.subscribe(["t"], None, None)
    group.subscribed()
    group.member.identity = group.member.identity.joined(1, "m")
    group.leave("the consumer unsubscribed", 1.0)
    assert group.member.state is MemberState.LEAVING
    group.subscription.clear()
    group.subscription.subscribe(["t"], None, None)
    group.subscribed()
    for now in (2.0, 30.0):
        step(group, now)
    assert group.member.state is MemberState.UNJOINED and group.is_member


def test_partitions_by_hand_begin_at_what_is_committed_and_need_no_member(make):
    group = make()
    group.assign_by_hand([A, B], 0.0)
    assert [p.state for p in partitions(group)] == [PositionState.AWAITING_COMMITTED] * 2
    (request,) = step(group, 1.0)
    assert request.api.__name__ == "FindCoordinatorRequest"
    assert not group.is_member and group.member.state is MemberState.UNSUBSCRIBED
    with pytest.raises(IllegalStateError):
        group.subscription.subscribe(["t"], None, None)


def test_positions_are_those_that_are_known_with_their_epochs(make):
    group = make()
    group.assign_by_hand([A, B], 0.0)
    partitions(group).require(A).place(PositionEvent.SEEK_VALIDATED, 7, 3)
    assert group.positions() == {A: OffsetAndMetadata(7, "", 3)}
    assert group.owns(A) and not group.owns(TopicPartition("t", 9))


def test_time_since_the_last_poll_is_a_fact(make):
    group = make()
    assert group.seconds_since_poll(5.0) is None
    group.polled(6.0)
    assert group.seconds_since_poll(18.0) == 12.0
    group.poll_begins(20.0)
    group.polled(21.0)  # it goes on waiting
    assert group.seconds_since_poll(21.0) == 14.0, "what fails in a poll comes from the time before it"
    group.poll_ends()
    assert group.seconds_since_poll(24.0) == 3.0


def test_everything_is_asked_again_after_an_interruption(make):
    group = make()
    group.subscription.subscribe(["t"], None, None)
    group.subscribed()
    assert len(step(group, 1.0)) == 1 and step(group, 1.1) == []
    for manager in group.managers():
        manager.restart(1.2)
    assert len(step(group, 1.2)) == 1


def test_who_we_are_is_told_in_kafka_pythons_names(make):
    found = make(group_instance_id="i").metadata()
    assert (found.group_id, found.generation_id, found.member_id, found.group_instance_id) == ("g", -1, "", "i")
