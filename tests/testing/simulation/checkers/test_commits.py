"""Commits cover processed records of own partitions only, and assignments do not overlap."""

from types import SimpleNamespace

import pytest
from lab.checkers.commits import PLANS_MAX, ClassicPlans, CommitChecker, Plans
from lab.ledger import Ledger

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeTruth:
    """Ten records."""

    end = 10

    def first_from(self, low, high, *, committed, but):
        return next((offset for offset in range(low, min(high, self.end)) if but.get(offset) != 0), None)


@pytest.fixture
def ledger():
    return Ledger(lambda tp: FakeTruth(), read_committed=False)


@pytest.fixture
def plans(room, ledger):
    plans = room.add(Plans)
    room.add(CommitChecker, plans=plans, ledgers={"g": ledger}, name_of=lambda topic_id: "t")
    return plans


@pytest.fixture
def ann(room, plans):
    ann = room.member()
    room.join(ann)
    room.sync(ann, A, plan={"ann-id": [A], "bob-id": [B]})
    return ann


def process(room, member, tp, *offsets):
    records = [SimpleNamespace(topic="t", partition=tp.partition, offset=o, leader_epoch=0) for o in offsets]
    room.tell("processed", member, records)


def test_processed_offsets_may_be_committed(room, ann):
    process(room, ann, A, 0, 1, 2)
    room.commit(ann, {A: 3})
    assert room.verdict() == ""


def test_unprocessed_offsets_may_not_be_committed(room, ann):
    process(room, ann, A, 0, 2)
    room.commit(ann, {A: 3})
    assert room.verdict() == "ann has committed offset 3 of t-0, but offset 1 was never processed"


def test_topics_may_be_named_by_id_on_either_side(room, ann):
    for side in ("request", "response"):
        request, response = room.commit_messages(ann, {A: 3})
        for topic in (request if side == "request" else response).topics:
            topic.name, topic.topic_id = "", b"\x07" * 16
        room.tell("answered", "ann", 1, request, response, room.now)
        assert "offset 0 was never processed" in room.verdict()


def test_rejected_commit_is_no_violation(room, ann):
    room.commit(ann, {A: 3}, Code.REBALANCE_IN_PROGRESS)
    assert room.verdict() == ""


def test_partition_of_another_member_may_not_be_committed(room, ann):
    process(room, ann, B, 0)
    room.commit(ann, {B: 1})
    assert room.verdict() == "ann has committed t-1 in generation 1, whose owner is bob-id"


def test_restarted_static_member_may_commit_its_partitions(room, plans):
    before, after = (f"ann-{letter * 8}-0000-0000-0000-{letter * 12}" for letter in "ab")
    ann = room.member()
    room.join(ann, gets=before)
    room.sync(ann, A, plan={before: [A]})
    for instance_id, words in (("ann", ""), (None, f"whose owner is {before}")):
        request, response = room.commit_messages(ann, {A: 0}, stamp=(after, 1))
        request.group_instance_id = instance_id
        room.tell("answered", "ann", 1, request, response, room.now)
        assert words in room.verdict()


def test_restarted_static_member_is_known_also_by_an_id_of_a_consumer_group(room, plans):
    """A classic member that joined while the group was a consumer group keeps such an id (seed 379)."""
    ann = room.member()
    room.join(ann, gets="some-uuid")
    request = JoinGroupRequest(group_id="g", group_instance_id="ann")
    room.tell("answered", "ann", 1, request, JoinGroupResponse(member_id="some-uuid"), room.now)
    room.sync(ann, A, plan={"some-uuid": [A]})
    request, response = room.commit_messages(ann, {A: 0}, stamp=("ann-2", 1))
    request.group_instance_id = "ann"
    room.tell("answered", "ann", 1, request, response, room.now)
    assert room.verdict() == ""


def test_a_coordinator_must_not_take_commits_of_old_generations(room, ann):
    room.commit(ann, {A: 0}, stamp=("ann-id", 0))
    assert room.verdict() == "node 1 accepted a commit of generation 0 when 1 was the newest"


def test_commits_of_groups_without_a_ledger_are_not_checked(room, plans):
    bob = room.member("bob", group="other")
    room.join(bob)
    room.commit(bob, {A: 9})
    assert room.verdict() == ""


def test_second_processing_is_a_violation_only_once_no_member_may_be_lost(room, ann, ledger):
    process(room, ann, A, 0, 0)
    assert (room.verdict(), ledger.doubles, ledger.count) == ("", 1, 2)
    ledger.strict_since = 1.0
    process(room, ann, A, 0)
    assert "has processed t-0 offset 0 again" in room.verdict()


def test_plan_with_overlapping_shares_is_a_violation(room, plans):
    ann = room.member()
    room.join(ann)
    room.sync(ann, A, plan={"ann-id": [A], "bob-id": [A, B]})
    assert room.verdict() == "ann assigns t-0 to both ann-id and bob-id"


def test_plans_are_counted_and_old_ones_dropped(room, ann, plans):
    for generation in range(2, 2 + 2 * PLANS_MAX):
        room.join(ann, generation)
        room.sync(ann, A, plan={"ann-id": [A]})
    room.sync(ann, A, code=Code.REBALANCE_IN_PROGRESS, plan={"ann-id": [B]})
    assert (len(plans.of["g"]), plans.counts["g"], plans.newest("g")) == (PLANS_MAX, 1 + 2 * PLANS_MAX, 17)
    assert plans.newest("h") == -1


@pytest.mark.parametrize(("code", "newest"), [(0, -1), (Code.UNKNOWN_MEMBER_ID, 1)])
def test_assignments_of_a_group_that_has_moved_do_not_count(room, code, newest):
    plans = room.add(ClassicPlans)
    ann = room.member()
    room.join(ann)
    room.sync(ann, A, plan={"ann-id": [A]})
    assert plans.newest("g") == 1
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="bob-id", member_epoch=0)
    room.tell("answered", "bob", 1, request, ConsumerGroupHeartbeatResponse(error_code=code), room.now)
    assert plans.newest("g") == newest
