"""The last requests of a consumer: LeaveGroup, or the heartbeat with epoch -1, leaves whatever used up the time.

Each test measures, in the virtual time of the network, when the request to leave arrives, or when another member owns
the partitions. Without the request that takes a session of 45 s.
"""

import pytest

from thinconsumer import Consumer, GroupMember, RebalanceListener, TopicPartition
from thinconsumer.broker.faults import Silence
from thinconsumer.testing import MemoryCluster
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.sync_group import SyncGroupRequest

PARTITIONS = 3
STYLES = ["range", "cooperative-sticky", "consumer"]


class Group:
    """A cluster in memory, and members of one group on it."""

    def __init__(self, closed_at_end, style, **config):
        self.cluster = MemoryCluster(1, {"t": PARTITIONS}, group_initial_rebalance_delay_ms=0, **config)
        self.closed_at_end = closed_at_end
        self.options = {"partition_assignment_strategy": [style]} if style != "consumer" else {"group_protocol": style}
        self.made = 0

    def now(self):
        return self.cluster.clock.now()

    def member(self, listener=None, **options):
        self.made += 1
        found = Consumer(
            driver=self.cluster.driver(self.made),
            bootstrap_servers=self.cluster.bootstrap_servers,
            client_id=f"member-{self.made}",
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=600_000,  # what a member has read is committed when it closes
            **self.options,
            **options,
        )
        found.subscribe(["t"], listener=listener)
        return self.closed_at_end(found)

    def settle(self, *members):
        """Poll in turn until all partitions are owned, each by one member; return the seconds that it took."""
        began = self.now()
        while not all(m.assignment() for m in members) or sum(len(m.assignment()) for m in members) != PARTITIONS:
            assert self.now() < began + 120, [m.assignment() for m in members]
            for found in members:
                found.poll(20)
        return self.now() - began

    def read(self, member, *others):
        """Let a member read a record of each of its partitions, so that it has offsets to commit."""
        for partition in range(PARTITIONS):
            self.cluster.produce("t", [b"x"], partition)
        left = set(member.assignment())
        while left:
            left -= set(member.poll(20))
            for other in others:
                other.poll(20)

    def leaves(self):
        """Return the times at which requests to leave have arrived."""
        found = [one.at for one in self.cluster.received(LeaveGroupRequest)]
        beats = self.cluster.received(ConsumerGroupHeartbeatRequest)
        return found + [one.at for one in beats if one.message.member_epoch == -1]


@pytest.fixture
def make(closed_at_end):
    return lambda style="range", **config: Group(closed_at_end, style, **config)


@pytest.mark.parametrize("style", STYLES)
def test_a_commit_without_a_response_leaves_time_to_leave(make, style):
    """The commit gets 60 % of the time; the other member then owns all partitions within its heartbeat interval."""
    group = make(style)
    leaving, other = group.member(), group.member()
    group.settle(leaving, other)
    group.read(leaving, other)
    group.cluster.on(OffsetCommitRequest, Silence(), where=lambda call: call.client_id == "member-1")
    began = group.now()
    leaving.close(timeout_ms=2000)
    assert group.now() - began <= 2.3
    assert [pytest.approx(began + 1.2, abs=0.05)] == group.leaves()
    assert group.settle(other) < 6


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("has_read", [False, True])
def test_without_any_time_the_request_to_leave_is_written(make, style, has_read):
    group = make(style)
    leaving, other = group.member(), group.member()
    group.settle(leaving, other)
    if has_read:
        group.read(leaving, other)
    began = group.now()
    leaving.close(timeout_ms=0)
    assert group.now() == began
    assert group.settle(other) < 6
    assert len(group.leaves()) == 1


def test_without_any_time_the_last_offsets_are_written(make):
    """Nothing waits for the response, so that a warning says that the offsets may not be committed."""
    group = make()
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
    assert leader.health().group_state == "completing rebalance"


@pytest.mark.parametrize("style", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_member_leaves_while_the_leader_is_busy(make, style, call):
    """The coordinator holds the response to SyncGroup back, and reads nothing more from that connection."""
    group = make(style)
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
    [left_at] = group.leaves()
    assert left_at <= began + 1.3


def test_the_connection_to_leave_over_is_opened_while_the_commit_waits(make):
    """To connect and to negotiate takes four times the latency, here more than what the commit leaves over."""
    group = make("cooperative-sticky")
    leader, leaving, third = group.member(), group.member(), group.member()
    group.settle(leader, leaving, third)
    group.read(leaving, leader, third)
    wait_for_sync(group, leader, leaving, third)
    group.cluster.network.latency = 0.2
    began = group.now()
    leaving.close(timeout_ms=1000)
    assert group.now() - began <= 1.2
    group.settle(leader, third)
    assert [pytest.approx(began + 0.8, abs=0.05)] == group.leaves()


@pytest.mark.parametrize("style", ["cooperative-sticky", "consumer"])
def test_a_listener_that_takes_all_the_time_leaves_time_to_leave(make, style):
    """The time of callbacks is added to the timeout, and not taken from the request to leave."""
    group = make(style)

    class Slow(RebalanceListener):
        def on_partitions_revoked(self, revoked):
            group.cluster.clock.advance_to(group.now() + 5.0)
            group.cluster.network.reset("kafka1", 9092)  # a connection has to be opened anew

    leaving = group.member(Slow())
    group.settle(leaving)
    began = group.now()
    leaving.close(timeout_ms=1000)
    assert group.now() - began <= 6.0 + 0.3
    assert [pytest.approx(began + 5.0, abs=0.3)] == group.leaves()


def test_without_any_time_the_fetch_sessions_are_closed(make):
    group = make()
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


def test_a_group_member_without_any_time_leaves(make):
    group = make()
    servers = group.cluster.bootstrap_servers
    worker = Worker("work", driver=group.cluster.driver(), bootstrap_servers=servers, group_id="w")
    while not worker.is_stable:
        worker.poll(20)
    worker.close(timeout_ms=0)
    group.settle(group.member())
    assert len(group.leaves()) == 1
