"""A consumer's group: how its managers are wired, and what a restart keeps."""

import logging
import random

import pytest

from thinconsumer.assignors.registry import create
from thinconsumer.config import ConsumerConfig
from thinconsumer.errors import IllegalArgumentError, IllegalStateError, UnsupportedVersionError
from thinconsumer.group.classic.member import ClassicMember
from thinconsumer.group.classic.states import ClassicMemberState
from thinconsumer.group.group import Group
from thinconsumer.group.identity import Identity
from thinconsumer.group.membership import Timing
from thinconsumer.network.metadata import Metadata
from thinconsumer.network.negotiate import choose_version
from thinconsumer.network.request import Answer
from thinconsumer.positions.partitions import Partitions
from thinconsumer.positions.states import PositionEvent, PositionState
from thinconsumer.support.agenda import Agenda
from thinconsumer.support.timers import NEVER
from thinconsumer.types import Node, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def make():
    def make(**options):
        config = ConsumerConfig.from_options(group_id="g", **options)
        lot = random.Random(1)
        agenda = Agenda()
        return Group(config, create(["range"]), Partitions(), Metadata(config, lot, agenda), lot, agenda)

    return make


def step(group, now):
    return [request for manager in group.managers() for request in manager.step(now)]


def subscribe(group, topics=("t",), pattern=None):
    group.subscription.subscribe(topics, pattern, None)
    group.subscribed()


def test_an_unused_group_sends_no_request(make):
    group = make()
    group.coordinator.agenda.take(1.0)
    assert step(group, 1.0) == [] and group.coordinator.agenda.next() == NEVER
    assert group.topics() == frozenset() and not group.wants_all_topics and not group.has_work(1.0)
    assert group.member.error is None and group.member.unconfirmed is None


def test_subscribing_searches_for_the_coordinator(make):
    group = make()
    subscribe(group)
    (request,) = step(group, 1.0)
    assert request.asker in [manager.asker for manager in group.managers()]
    assert request.api.__name__ == "FindCoordinatorRequest"
    assert group.topics() == {"t"} and group.member.state is ClassicMemberState.UNJOINED
    subscribe(group, (), "t.*")
    assert group.wants_all_topics


def test_a_subscription_made_while_leaving_joins_afterwards(make):
    """Otherwise unsubscribe() and subscribe() without a poll in between leave a consumer that reads nothing."""
    group = make()
    subscribe(group)
    group.member.identity = group.member.identity.joined(1, "m")
    group.member.leave("the consumer unsubscribed", 1.0)
    assert group.member.state is ClassicMemberState.LEAVING
    group.subscription.clear()
    subscribe(group)
    for now in (2.0, 30.0):
        step(group, now)
    assert group.member.state is ClassicMemberState.UNJOINED and group.commit_identity().is_subscribed


def test_manually_assigned_partitions_start_at_committed_offsets_without_membership(make):
    group = make()
    group.assign_by_hand([A, B], 0.0)
    assert [p.state for p in group._partitions] == [PositionState.AWAITING_COMMITTED] * 2
    (request,) = step(group, 1.0)
    assert request.api.__name__ == "FindCoordinatorRequest"
    assert not group.commit_identity().is_subscribed and group.member.state is ClassicMemberState.UNSUBSCRIBED
    with pytest.raises(IllegalStateError):
        group.subscription.subscribe(["t"], None, None)


def test_positions_are_returned_with_their_leader_epochs(make):
    group = make()
    group.assign_by_hand([A, B], 0.0)
    group._partitions.require(A).place(PositionEvent.SEEK_VALIDATED, 7, 3)
    assert group.positions() == {A: OffsetAndMetadata(7, "", 3)}


def test_positions_leave_out_partitions_whose_callback_for_the_revocation_has_returned(make):
    """Their commit would arrive after the acknowledged revocation, and fail, although the callback has committed."""
    group = make(enable_auto_commit=False)
    group.assign_by_hand([A, B], 0.0)
    for tp in (A, B):
        group._partitions.require(tp).place(PositionEvent.SEEK_VALIDATED, 7)
    assert not group.revocation.advance({A}, 1.0) and set(group.positions()) == {B}
    assert group.revocation.advance({A}, 1.1) and set(group.positions()) == {B}


def test_seconds_since_the_last_poll(make):
    group = make()
    assert group.seconds_since_poll(5.0) is None
    group.polled(6.0)
    assert group.seconds_since_poll(5.9) == 0.0, "the last step, whose time a failed commit has, was before the poll"
    assert group.seconds_since_poll(18.0) == 12.0
    group.poll_begins(20.0)
    group.polled(21.0)  # the poll goes on waiting
    assert group.seconds_since_poll(21.0) == 14.0, "during a poll, the time counts from the poll before"
    group.away = None
    assert group.seconds_since_poll(24.0) == 3.0


def test_requests_are_repeated_after_a_restart(make):
    group = make()
    subscribe(group)
    assert len(step(group, 1.0)) == 1 and step(group, 1.1) == []
    for manager in group.managers():
        manager.restart(1.2)
    assert len(step(group, 1.2)) == 1


def test_the_member_of_the_consumer_protocol_is_wired_to_commits_and_committed_offsets(make):
    """KIP-848: commits carry the member epoch, which may skip numbers, and OffsetFetch names the member."""
    group = make(group_protocol="consumer", group_remote_assignor="range")
    assert not group.committed.read_identity().identity.is_member
    subscribe(group)
    assert group.member.state.value == "joining" and not group.commits.may_commit
    group.member.identity = group.member.identity.joined(7, group.member.identity.member_id)
    assert group.committed.read_identity().identity == group.member.identity and group.commits.may_commit
    assert group.commit_identity().has_epochs and group.commits.owned_since(A) == -1
    assert group.member._fields().assignor == "range"
    subscribe(group, (), "t.*")
    assert group._read_subscription() is None
    subscribe(group, (), SubscriptionPattern("t.*"))
    assert group._read_subscription() == (frozenset(), "t.*") and group.topics() == group.own_topics() == frozenset()


def first_heartbeat(group, now=1.0):
    """Subscribe, poll, and return the member's manager and its request to join."""
    subscribe(group)
    group.polled(now)
    found = step(group, now)
    if group.coordinator.node_id is None:
        group.coordinator._found(Node(1, "b", 9092), now)
        found = step(group, now)
    (request,) = [r for r in found if r.api is ConsumerGroupHeartbeatRequest]
    return group.managers()[0], request


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "thinconsumer.group.group")
    return lambda: [line for line in caplog.messages if "group_protocol='auto'" in line]


def test_auto_joins_with_the_consumer_protocol_where_the_coordinator_has_it(make, said):
    group = make(group_protocol="auto")
    member, request = first_heartbeat(group)
    response = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5000)
    member.handle(Answer(request, 1, 1, response), 1.0)
    assert group.member.has_epochs and group.member.identity.generation_id == 1
    line = "group g: uses the consumer protocol (group_protocol='auto'): node 1, the coordinator, supports it"
    assert said() == [line]
    late = UnsupportedVersionError("x", code=35, name="UNSUPPORTED_VERSION", api="ConsumerGroupHeartbeat")
    (request,) = group.member.step(1.0) or group.member.step(7.0)
    member.handle(Answer(request, 1, error=late), 7.0)
    assert group.member.has_epochs and group.member.state.value == "fatal"


@pytest.mark.parametrize("code", [Code.UNSUPPORTED_VERSION, Code.GROUP_ID_NOT_FOUND, None])
def test_auto_falls_back_to_the_classic_protocol(make, said, code):
    """The code comes from the broker, or is known from its ApiVersions response before a request is sent."""
    group = make(group_protocol="auto", group_instance_id="i")
    member, request = first_heartbeat(group)
    dropped = group.member.drop_connection = lambda target: None
    if code is None:
        ranges = {18: (0, 4)}
        with pytest.raises(UnsupportedVersionError) as caught:
            choose_version(request.api, ranges, 1, request.min_version)
        answer = Answer(request, 1, error=caught.value)
    else:
        answer = Answer(request, 1, 1, ConsumerGroupHeartbeatResponse(error_code=code))
    member.handle(answer, 2.0)
    assert isinstance(group.member, ClassicMember) and not group.member.has_epochs
    assert group.member.drop_connection is dropped and group.member.stats.heartbeats == 1
    assert group.member.identity == Identity("g", group_instance_id="i")
    assert not group.commit_identity().has_epochs and group.commits.owned_since(A) == -1
    assert len(said()) == 1 and "uses the classic protocol" in said()[0] and "ConsumerGroupHeartbeat" in said()[0]
    found = member.step(2.0)
    while group.member.work(2.0, every=True):
        found += member.step(2.0)
    assert JoinGroupRequest in [r.api for r in found]
    with pytest.raises(IllegalArgumentError, match="group_protocol='consumer'"):
        group.require_broker_patterns()


def test_auto_does_not_fall_back_after_the_member_has_left_or_with_a_pattern_for_the_broker(make, said):
    group = make(group_protocol="auto")
    member, request = first_heartbeat(group)
    subscribe(group, (), SubscriptionPattern("t"))
    lacking = ConsumerGroupHeartbeatResponse(error_code=Code.UNSUPPORTED_VERSION)
    member.handle(Answer(request, 1, 1, lacking), 1.0)
    assert group.member.state.value == "fatal" and group.member.error and said() == []
    group.member.leave("unsubscribed", 1.0)
    group.subscription.clear()
    member, request = first_heartbeat(group, 2.0)
    group.member.leave("unsubscribed", 2.0)
    member.handle(Answer(request, 1, 1, lacking), 2.0)
    assert group.member.has_epochs and said() == []


def test_an_option_of_the_classic_protocol_decides_for_it(make, said):
    group = make(group_protocol="auto", session_timeout_ms=45000)
    assert isinstance(group.member, ClassicMember) and group.managers()[0] is group.member
    assert said() == ["group g: uses the classic protocol (group_protocol='auto'): session_timeout_ms given"]
    with pytest.raises(IllegalArgumentError, match="SubscriptionPattern"):
        group.require_broker_patterns()


def test_a_timing_keeps_count_last_total_and_highest():
    timing = Timing()
    for seconds in (1.0, 3.0, 2.0):
        timing.add(seconds)
    assert (timing.count, timing.last, timing.total, timing.highest) == (3, 2.0, 6.0, 3.0)
