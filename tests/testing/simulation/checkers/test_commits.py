"""Commits cover processed records of own partitions only, and assignments do not overlap."""

from types import SimpleNamespace

import pytest
from lab.checkers.commits import CommitChecker, Plans
from lab.ledger import Ledger

from thinconsumer.types import TopicPartition
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


def test_partition_of_another_member_may_not_be_committed(room, ann):
    process(room, ann, B, 0)
    room.commit(ann, {B: 1})
    assert room.verdict() == "ann has committed t-1 in generation 1, whose owner is bob-id"


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
