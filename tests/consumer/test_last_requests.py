"""The last requests of a consumer: LeaveGroup, or the heartbeat with epoch -1, leaves whatever used up the time.

Each test measures, in the virtual time of the network, when the request to leave arrives, or when another member owns
the partitions. Without the request that takes a session of 45 s.
"""

import math

import pytest

from thinconsumer import GroupMember, RebalanceListener, TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer_testing.broker.faults import Silence

PARTITIONS = 3
STYLES = ["range", "cooperative-sticky", "consumer"]


def leaves(group):
    """Return the times at which requests to leave have arrived."""
    found = [one.at for one in group.cluster.received(LeaveGroupRequest)]
    beats = group.cluster.received(ConsumerGroupHeartbeatRequest)
    return found + [one.at for one in beats if one.message.member_epoch == -1]


@pytest.mark.parametrize("style", STYLES)
def test_a_commit_without_a_response_leaves_time_to_leave(make_group, style):
    """The commit gets 60 % of the time; the other member then owns all partitions within its heartbeat interval."""
    group = make_group(style)
    leaving, other = group.member(), group.member()
    group.settle(leaving, other)
    group.read(leaving, other)
    group.cluster.on(OffsetCommitRequest, Silence(), where=lambda call: call.client_id == "member-1")
    began = group.now()
    leaving.close(timeout_ms=2000)
    assert group.now() - began <= 2.3
    assert [pytest.approx(began + 1.2, abs=0.05)] == leaves(group)
    assert group.settle(other) < 6


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("has_read", [False, True])
def test_without_any_time_the_request_to_leave_is_written(make_group, style, has_read):
    group = make_group(style)
    leaving, other = group.member(), group.member()
    group.settle(leaving, other)
    if has_read:
        group.read(leaving, other)
    began = group.now()
    leaving.close(timeout_ms=0)
    assert group.now() == began
    assert group.settle(other) < 6
    assert len(leaves(group)) == 1


@pytest.mark.parametrize("style", STYLES)
def test_a_member_with_unlimited_time_leaves(make_group, style):
    """60 % of an infinite timeout is infinite, and so is the rest: computed as a difference it would be NaN."""
    group = make_group(style)
    leaving, other = group.member(), group.member()
    group.settle(leaving, other)
    group.read(leaving, other)
    began = group.now()
    leaving.close(timeout_ms=math.inf)
    assert group.now() - began <= 0.1
    assert len(leaves(group)) == 1


def test_without_any_time_the_last_offsets_are_written(make_group):
    """Nothing waits for the response, so that a warning says that the offsets may not be committed."""
    group = make_group()
    leaving = group.member()
    group.settle(leaving)
    group.read(leaving)
    leaving.close(timeout_ms=0)
    follower = group.member()
    group.settle(follower)
    assert [follower.committed(TopicPartition("t", number)) for number in range(PARTITIONS)] == [1, 1, 1]


def wait_for_sync(group, leader, *others):
    """Begin a rebalance whose leader stops between JoinGroup and SyncGroup: the other members wait for SyncGroup."""
    leader.enforce_rebalance()
    while leader.health().group_state != "preparing rebalance":
        leader.poll(20)
    before = len(group.cluster.received(SyncGroupRequest))
    while len(group.cluster.received(SyncGroupRequest)) < before + len(others):
        leader.drive()
        for other in others:
            other.poll(20)
    leader.drive()
    assert leader.health().group_state == "completing rebalance"


@pytest.mark.parametrize("style", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_member_leaves_while_the_leader_is_busy(make_group, style, call):
    """The coordinator holds the response to SyncGroup back, and reads nothing more from that connection."""
    group = make_group(style)
    leader, leaving, third = group.member(), group.member(default_api_timeout_ms=2000), group.member()
    group.settle(leader, leaving, third)
    group.read(leaving, leader, third)
    wait_for_sync(group, leader, leaving, third)
    began = group.now()
    if call == "close":
        leaving.close(timeout_ms=2000)
    else:
        leaving.unsubscribe()  # and no other call
    assert group.now() - began <= 1.3
    assert group.settle(leader, third) < 10
    [left_at] = leaves(group)
    assert left_at <= began + 1.3


def test_the_connection_to_leave_over_is_opened_while_the_commit_waits(make_group):
    """To connect and to negotiate takes four times the latency, here more than what the commit leaves over."""
    group = make_group("cooperative-sticky")
    leader, leaving, third = group.member(), group.member(), group.member()
    group.settle(leader, leaving, third)
    group.read(leaving, leader, third)
    wait_for_sync(group, leader, leaving, third)
    group.cluster.network.latency = 0.2
    began = group.now()
    leaving.close(timeout_ms=1000)
    assert group.now() - began <= 1.2
    group.settle(leader, third)
    assert [pytest.approx(began + 0.8, abs=0.05)] == leaves(group)


@pytest.mark.parametrize("style", ["cooperative-sticky", "consumer"])
def test_a_listener_that_takes_all_the_time_leaves_time_to_leave(make_group, style):
    """The time of callbacks is added to the timeout, and not taken from the request to leave."""
    group = make_group(style)

    class Slow(RebalanceListener):
        def on_partitions_revoked(self, revoked):
            group.cluster.clock.advance_to(group.now() + 5.0)
            group.cluster.network.reset("kafka1", 9092)  # a connection has to be opened anew

    leaving = group.member(Slow())
    group.settle(leaving)
    began = group.now()
    leaving.close(timeout_ms=1000)
    assert group.now() - began <= 6.0 + 0.3
    assert [pytest.approx(began + 5.0, abs=0.3)] == leaves(group)


def test_without_any_time_the_fetch_sessions_are_closed(make_group):
    group = make_group()
    member = group.member()
    group.settle(member)
    group.read(member)
    member.close(timeout_ms=0)
    group.cluster.network.run_due()
    group.settle(group.member())
    [last] = [one for one in group.cluster.received(FetchRequest) if one.message.session_epoch == -1]
    assert last.client_id == "member-1"


class Worker(GroupMember):
    """A member of a group of another kind."""

    def perform_assignment(self, leader_id, protocol, members):
        return dict.fromkeys(members, b"work")

    def on_join_complete(self, protocol, share):
        pass


def test_a_group_member_without_any_time_leaves(make_group):
    group = make_group()
    servers = group.cluster.bootstrap_servers
    worker = Worker("work", driver=group.cluster.driver(), bootstrap_servers=servers, group_id="w")
    while not worker.is_stable:
        worker.poll(20)
    worker.close(timeout_ms=0)
    group.settle(group.member())
    assert len(leaves(group)) == 1
