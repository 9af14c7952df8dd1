"""A partition moves only after its former owner has given it up, and commits come from the owner."""

import pytest
from lab.checkers.reconciliation import ReconciliationChecker

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    TopicPartitions,
)
from thinconsumer.wire.consumer_protocol import encode_assignment, encode_subscription
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

ID = b"t" * 16


class Coordinator:
    """Answers the heartbeats of members that are named by one letter."""

    def __init__(self, room):
        self.room = room
        self.checker = room.add(ReconciliationChecker, session_timeout_s=10.0, name_of=lambda topic_id: "t")

    def rows(self, numbers):
        return [TopicPartitions(topic_id=ID, partitions=list(numbers))]

    def ask(self, who, epoch, owned=None, *, node=1, instance=None):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=who, member_epoch=epoch, instance_id=instance, rebalance_timeout_ms=5000,
            topic_partitions=None if owned is None else self.rows(owned),
        )  # fmt: skip
        self.room.tell("requested", f"client {who}", node, request, self.room.now)
        return request

    def beat(self, who, epoch, owned=None, *, gets=None, assigned=None, code=0, node=1, instance=None):
        request = self.ask(who, epoch, owned, node=node, instance=instance)
        given = None if assigned is None else HeartbeatAssignment(topic_partitions=self.rows(assigned))
        response = ConsumerGroupHeartbeatResponse(
            error_code=code, member_epoch=epoch if gets is None else gets, assignment=given
        )
        self.room.tell("answered", f"client {who}", node, request, response, self.room.now)

    def join(self, who, owned, *, leader="", gets=None):
        """Answer a JoinGroup, and with ``gets`` the SyncGroup after it; only classic groups have a leader."""
        metadata = encode_subscription(["t"], owned=[TopicPartition("t", number) for number in owned])
        request = JoinGroupRequest(
            group_id="g", member_id=who, protocols=[JoinGroupRequestProtocol(name="cooperative", metadata=metadata)]
        )
        self.room.tell("answered", f"client {who}", 1, request, JoinGroupResponse(member_id=who, leader=leader), 0.0)
        if gets is not None:
            given = encode_assignment(TopicPartition("t", number) for number in gets)
            request = SyncGroupRequest(group_id="g", member_id=who)
            self.room.tell("answered", f"client {who}", 1, request, SyncGroupResponse(assignment=given), 0.0)

    def commit(self, who, epoch, number):
        request = OffsetCommitRequest(group_id="g", member_id=who, generation_id_or_member_epoch=epoch, topics=[])
        row = OffsetCommitResponsePartition(partition_index=number, error_code=0)
        response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])
        self.room.tell("answered", f"client {who}", 1, request, response, self.room.now)


@pytest.fixture
def coordinator(room):
    found = Coordinator(room)
    found.beat("a", 0, [], gets=1, assigned=[0, 1])
    found.beat("b", 0, [], gets=2, assigned=[])
    return found


def moves(coordinator, **more):
    coordinator.beat("b", 2, assigned=[1], **more)
    return coordinator.room.verdict()


def test_assignment_before_the_acknowledgement_is_a_violation(coordinator):
    coordinator.beat("a", 1, assigned=[0])
    assert "assigns t-1 to client b in epoch 2, but client a has not given it up" in moves(coordinator)


def test_assignment_after_the_acknowledgement_passes(coordinator):
    coordinator.beat("a", 1, assigned=[0])
    coordinator.beat("a", 1, [0], gets=2)
    assert moves(coordinator) == ""


@pytest.mark.parametrize("how", ["leave", "unanswered leave", "unanswered acknowledgement", "unknown"])
def test_members_that_are_gone_own_nothing(coordinator, how):
    if how == "leave":
        coordinator.beat("a", -1)
    elif how == "unanswered leave":
        coordinator.ask("a", -1)
    elif how == "unanswered acknowledgement":
        coordinator.ask("a", 1, [0])
    else:
        coordinator.beat("a", 1, code=Code.UNKNOWN_MEMBER_ID)
    assert moves(coordinator) == ""


def test_member_that_is_fenced_keeps_its_partitions_until_it_joins_again(coordinator):
    """Seed 9204 of the swarm: a late heartbeat of an old epoch was rejected, which its client did not read."""
    coordinator.beat("a", 1, gets=2)
    coordinator.beat("a", 1, code=Code.FENCED_MEMBER_EPOCH)
    coordinator.beat("a", 2, [0, 1], gets=2, assigned=[0, 1])
    coordinator.commit("a", 1, 0)
    assert coordinator.room.verdict() == ""
    coordinator.beat("a", 2, code=Code.FENCED_MEMBER_EPOCH)
    coordinator.ask("a", 0, [])
    assert moves(coordinator) == ""
    assert coordinator.room.verdict() == ""


@pytest.mark.parametrize("answered", [False, True])
def test_acknowledgement_to_a_deposed_coordinator_may_reach_its_successor(coordinator, answered):
    """Seed 526 of the swarm: the successor had replicated the records before it became the leader."""
    coordinator.beat("a", 1, assigned=[0])
    if answered:
        coordinator.beat("a", 1, [0], node=2, code=Code.NOT_COORDINATOR)
    else:
        coordinator.ask("a", 1, [0], node=2)
    assert moves(coordinator, node=1) == ""


@pytest.mark.parametrize(("seconds", "passes"), [(9.0, False), (10.0, True)])
def test_session_has_to_be_over(coordinator, seconds, passes):
    coordinator.room.now += seconds
    assert (moves(coordinator) == "") is passes


@pytest.mark.parametrize(("seconds", "passes"), [(4.0, False), (5.0, True)])
def test_rebalance_timeout_has_to_be_over(coordinator, seconds, passes):
    coordinator.beat("a", 1, assigned=[0])
    coordinator.room.now += seconds
    coordinator.beat("a", 1)
    assert (moves(coordinator) == "") is passes


@pytest.mark.parametrize(("seconds", "passes"), [(4.0, False), (5.0, True)])
def test_partition_that_is_not_added_yet_counts_as_owned(coordinator, seconds, passes):
    """Seed 5033 of the swarm: a member that knows some topics by their ids only adds the other partitions first.

    The coordinator makes it revoke the rest within its rebalance timeout.
    """
    coordinator.beat("a", 1, [0])
    coordinator.beat("a", 1, assigned=[0])
    coordinator.room.now += seconds
    assert (moves(coordinator) == "") is passes


@pytest.mark.parametrize(
    ("seconds", "answered", "passes"), [(4.9, False, False), (5.1, False, True), (5.1, True, False)]
)
def test_rebalance_timeout_begins_although_its_response_was_never_sent(coordinator, seconds, answered, passes):
    """Seed 180 of the swarm: the connection was reset while the coordinator handled the heartbeat."""
    coordinator.room.now += 1
    coordinator.ask("a", 1)
    if answered:
        coordinator.room.now += 0.1
        coordinator.beat("a", 1)
    coordinator.room.now += seconds
    assert (moves(coordinator) == "") is passes


@pytest.mark.parametrize(("code", "passes"), [(Code.UNKNOWN_MEMBER_ID, True), (Code.NOT_COORDINATOR, False)])
def test_coordinator_in_between_may_have_removed_a_member(coordinator, code, passes):
    """Seed 8284 of the swarm: the coordinator moved away and back, and no heartbeat reached it in between."""
    coordinator.room.now += 1
    coordinator.beat("c", 1, code=code, node=2)
    coordinator.room.now += 1
    assert (moves(coordinator, node=1) == "") is passes


def test_static_member_that_is_away_keeps_its_partitions(coordinator):
    coordinator.beat("c", 0, [], gets=2, assigned=[2], instance="i")
    coordinator.beat("c", -2, instance="i")
    coordinator.beat("b", 2, assigned=[2])
    assert "client c has not given it up" in coordinator.room.verdict()
    coordinator.beat("d", 0, [], gets=2, assigned=[2], instance="i")
    assert "client b has not given it up" in coordinator.room.verdict()


@pytest.mark.parametrize("away", ["answered", "unanswered", "no"])
@pytest.mark.parametrize("instance", ["i", "j"])
def test_unanswered_join_of_a_restarted_static_member_gives_up_what_it_owned(coordinator, away, instance):
    """Seed 953 of the swarm: the connection was reset while the coordinator handled the join."""
    coordinator.beat("c", 0, [], gets=2, assigned=[2], instance="i")
    if away == "answered":
        coordinator.beat("c", -2, instance="i")
    elif away == "unanswered":
        coordinator.ask("c", -2, instance="i")
    coordinator.ask("d", 0, [], instance=instance)
    coordinator.beat("b", 2, assigned=[2])
    passes = away != "no" and instance == "i"
    assert ("client c has not given it up" not in coordinator.room.verdict()) is passes


def test_running_static_member_is_not_replaced(coordinator):
    coordinator.beat("c", 0, [], gets=2, assigned=[2], instance="i")
    coordinator.beat("d", 0, [], gets=2, assigned=[2], instance="i")
    assert "lets client d take over i while client c runs" in coordinator.room.verdict()


@pytest.mark.parametrize(("seconds", "replaced"), [(4.9, False), (5.1, True)])
def test_static_member_that_revokes_too_late_may_be_replaced(coordinator, seconds, replaced):
    """Its rebalance timeout is 5 s, and its session 10 s."""
    coordinator.beat("c", 0, [], gets=2, assigned=[2], instance="i")
    coordinator.beat("c", 2, gets=2, assigned=[], instance="i")
    coordinator.room.now += seconds
    coordinator.beat("d", 0, [], gets=3, assigned=[], instance="i")
    assert ("lets client d take over i" not in coordinator.room.verdict()) is replaced


def test_epoch_that_goes_back_is_a_violation(coordinator):
    coordinator.beat("b", 2, gets=1)
    assert "with epoch 1 after 2" in coordinator.room.verdict()


@pytest.mark.parametrize(("leader", "passes"), [("d", True), ("", False)])
def test_epochs_begin_again_only_after_a_member_has_led_the_group(coordinator, leader, passes):
    """Seed 7387 of the swarm: a member joined again after its group had become classic, and empty."""
    coordinator.join("d", [], leader=leader)
    coordinator.beat("b", 0, [], gets=1, assigned=[])
    assert (coordinator.room.verdict() == "") is passes


@pytest.mark.parametrize(("node", "gets", "passes"), [(1, 1, True), (1, 0, False), (2, 1, False)])
def test_former_coordinator_that_was_paused_may_answer_with_an_older_epoch(coordinator, node, gets, passes):
    """Seed 509 of the swarm: its successor has answered the same heartbeat with the next epoch."""
    coordinator.beat("a", 1, gets=2, node=2)
    coordinator.beat("a", 1, gets=gets, node=node)
    assert (coordinator.room.verdict() == "") is passes


def test_commit_in_an_epoch_before_the_assignment_is_a_violation(coordinator):
    coordinator.commit("a", 1, 0)
    assert coordinator.room.verdict() == ""
    coordinator.commit("a", 0, 0)
    assert "it has owned that partition since 1 only" in coordinator.room.verdict()


def test_commit_of_another_members_partition_is_a_violation(coordinator):
    coordinator.commit("b", 2, 0)
    assert "commit of t-0, which client a owns" in coordinator.room.verdict()


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize(("told", "violates"), [([0], False), ([0, 1], True)])
def test_static_member_that_leaves_for_a_while_keeps_its_assignment_and_not_what_it_had_to_revoke(
    coordinator, told, violates, is_answered
):
    coordinator.beat("s", 0, [], gets=2, assigned=[], instance="i")
    coordinator.beat("a", 1, assigned=[])
    coordinator.beat("a", 1, [], gets=2)
    coordinator.beat("s", 2, assigned=[0, 1], instance="i")
    coordinator.beat("s", 2, [0, 1], assigned=told, instance="i")
    if is_answered:
        coordinator.beat("s", -2, instance="i")
    else:
        coordinator.ask("s", -2, instance="i")
    assert bool(moves(coordinator)) == violates


def test_a_partition_is_owned_since_the_first_of_the_assignments_that_have_it(coordinator):
    """A heartbeat that acknowledges a revocation does not report yet what is added after it."""
    coordinator.beat("a", -1)
    coordinator.beat("b", 2, [], gets=2, assigned=[0, 1])
    coordinator.beat("b", 2, [], gets=3)
    coordinator.beat("b", 3, [0, 1], gets=4, assigned=[0, 1])
    coordinator.commit("b", 3, 1)
    assert coordinator.room.verdict() == ""
    coordinator.beat("b", 4, gets=5, assigned=[0])
    coordinator.beat("b", 5, [0], gets=6, assigned=[0, 1])
    coordinator.commit("b", 5, 1)
    assert "it has owned that partition since 6 only" in coordinator.room.verdict()


@pytest.mark.parametrize(
    ("gets", "then", "violates"),
    [(None, None, False), ([1], None, False), ([0, 1], None, True), (None, [0, 1], False), (None, [1], True)],
)
def test_commit_of_what_a_cooperative_member_owned_when_its_group_was_moved_passes(coordinator, gets, then, violates):
    """Seeds 2086 and 2522 of the swarm: the coordinator assigns to others what the last rebalance has not assigned.

    The classic member owns partitions 0 and 1, and a rebalance has assigned ``gets`` to it before its group was moved,
    or has not ended (None). ``then`` are the partitions with which it has joined afterwards.
    """
    coordinator.join("k", [0, 1], leader="k", gets=gets)
    coordinator.beat("a", 0, [], gets=3, assigned=[0, 1])
    if then is not None:
        coordinator.join("k", then, gets=[])
    coordinator.commit("k", 2, 0)
    assert ("commit of t-0, which client a owns" in coordinator.room.verdict()) is violates
