"""A consumer's group: how its managers are wired, and what a restart keeps."""

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


def subscribe(group, topics=("t",), pattern=None):
    group.subscription.subscribe(topics, pattern, None)
    group.subscribed()


def test_an_unused_group_sends_no_request(make):
    group = make()
    assert step(group, 1.0) == [] and all(manager.wake_at(1.0) == NEVER for manager in group.managers())
    assert group.topics() == frozenset() and not group.wants_all_topics and not group.has_work(1.0)
    assert list(group.errors()) == [] and group.member.held is None


def test_subscribing_searches_for_the_coordinator(make):
    group = make()
    subscribe(group)
    (request,) = step(group, 1.0)
    assert request.asker in [manager.asker for manager in group.managers()]
    assert request.api.__name__ == "FindCoordinatorRequest"
    assert group.topics() == {"t"} and group.member.state is MemberState.UNJOINED
    subscribe(group, (), "t.*")
    assert group.wants_all_topics


def test_a_subscription_made_while_leaving_joins_afterwards(make):
    """Otherwise unsubscribe() and subscribe() without a poll in between leave a consumer that reads nothing."""
    group = make()
    subscribe(group)
    group.member.identity = group.member.identity.joined(1, "m")
    group.member.leave("the consumer unsubscribed", 1.0)
    assert group.member.state is MemberState.LEAVING
    group.subscription.clear()
    subscribe(group)
    for now in (2.0, 30.0):
        step(group, now)
    assert group.member.state is MemberState.UNJOINED and group.commit_identity().is_subscribed


def test_manually_assigned_partitions_start_at_committed_offsets_without_membership(make):
    group = make()
    group.assign_by_hand([A, B], 0.0)
    assert [p.state for p in group._partitions] == [PositionState.AWAITING_COMMITTED] * 2
    (request,) = step(group, 1.0)
    assert request.api.__name__ == "FindCoordinatorRequest"
    assert not group.commit_identity().is_subscribed and group.member.state is MemberState.UNSUBSCRIBED
    with pytest.raises(IllegalStateError):
        group.subscription.subscribe(["t"], None, None)


def test_positions_are_returned_with_their_leader_epochs(make):
    group = make()
    group.assign_by_hand([A, B], 0.0)
    group._partitions.require(A).place(PositionEvent.SEEK_VALIDATED, 7, 3)
    assert group.positions() == {A: OffsetAndMetadata(7, "", 3)}


def test_seconds_since_the_last_poll(make):
    group = make()
    assert group.seconds_since_poll(5.0) is None
    group.polled(6.0)
    assert group.seconds_since_poll(18.0) == 12.0
    group.poll_begins(20.0)
    group.polled(21.0)  # the poll goes on waiting
    assert group.seconds_since_poll(21.0) == 14.0, "during a poll, the time counts from the poll before"
    group.poll_ends()
    assert group.seconds_since_poll(24.0) == 3.0


def test_requests_are_repeated_after_a_restart(make):
    group = make()
    subscribe(group)
    assert len(step(group, 1.0)) == 1 and step(group, 1.1) == []
    for manager in group.managers():
        manager.restart(1.2)
    assert len(step(group, 1.2)) == 1
