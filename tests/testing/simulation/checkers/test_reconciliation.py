"""A partition moves only after its former owner has given it up, and commits come from the owner."""

import pytest
from lab.checkers.reconciliation import ReconciliationChecker

from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    TopicPartitions,
)
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

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


@pytest.mark.parametrize(("seconds", "passes"), [(2.0, False), (3.0, True)])
def test_rebalance_timeout_may_begin_before_the_first_answer_of_a_new_coordinator(coordinator, seconds, passes):
    coordinator.ask("a", 1)  # the former coordinator told it to revoke, and its successor has loaded that since
    coordinator.room.now += 2.0
    coordinator.beat("a", 1, [0, 1], assigned=[0], node=2)
    coordinator.room.now += seconds
    assert (moves(coordinator, node=2) == "") is passes


@pytest.mark.parametrize("node", [1, 2])
def test_rebalance_timeout_begins_after_an_answer_without_a_revocation(coordinator, node):
    coordinator.ask("a", 1, node=node)
    coordinator.room.now += 3.0
    coordinator.beat("a", 1)
    coordinator.beat("a", 1, assigned=[0])
    coordinator.room.now += 4.0
    assert "client a has not given it up" in moves(coordinator)


def test_static_member_that_is_away_keeps_its_partitions(coordinator):
    coordinator.beat("c", 0, [], gets=2, assigned=[2], instance="i")
    coordinator.beat("c", -2, instance="i")
    coordinator.beat("b", 2, assigned=[2])
    assert "client c has not given it up" in coordinator.room.verdict()
    coordinator.beat("d", 0, [], gets=2, assigned=[2], instance="i")
    assert "client b has not given it up" in coordinator.room.verdict()


def test_running_static_member_is_not_replaced(coordinator):
    coordinator.beat("c", 0, [], gets=2, assigned=[2], instance="i")
    coordinator.beat("d", 0, [], gets=2, assigned=[2], instance="i")
    assert "lets client d take over i while client c runs" in coordinator.room.verdict()


def test_epoch_that_goes_back_is_a_violation(coordinator):
    coordinator.beat("b", 2, gets=1)
    assert "with epoch 1 after 2" in coordinator.room.verdict()


def test_commit_in_an_epoch_before_the_assignment_is_a_violation(coordinator):
    coordinator.commit("a", 1, 0)
    assert coordinator.room.verdict() == ""
    coordinator.commit("a", 0, 0)
    assert "it has owned that partition since 1 only" in coordinator.room.verdict()


def test_commit_of_another_members_partition_is_a_violation(coordinator):
    coordinator.commit("b", 2, 0)
    assert "commit of t-0, which client a owns" in coordinator.room.verdict()
