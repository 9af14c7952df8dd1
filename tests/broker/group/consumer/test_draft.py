"""The records of one operation: the group changes when all of them are appended, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.consumer import records
from thinconsumer_testing.broker.group.consumer.draft import Draft
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.consumer.member import ConsumerGroupMember

GROUP, TOPIC = "billing", "orders"


@pytest.fixture
def draft(world: Any) -> Draft:
    return Draft(world.shard, ConsumerGroup(GROUP))


def test_records_change_the_drafts_group_alone(draft: Draft, world: Any) -> None:
    before = draft.group
    draft.put_member(ConsumerGroupMember("m"))
    assert list(draft.group.members) == ["m"]
    assert (before.members, world.shard.latest.groups) == ({}, {})
    assert draft.append()
    assert list(world.group.members) == ["m"]


def test_a_member_that_the_log_has_is_not_written_again(draft: Draft) -> None:
    draft.put_member(ConsumerGroupMember("m"))
    draft.put_member(ConsumerGroupMember("m"))
    assert len(draft.records) == 1


def test_a_new_epoch_begins_only_for_a_reason(draft: Draft) -> None:
    draft.update_epoch(must_bump=False)
    assert draft.group.epoch == 1
    draft.update_epoch(must_bump=True)
    assert draft.group.epoch == 2


def test_the_epoch_follows_the_metadata(draft: Draft, world: Any) -> None:
    draft.put_member(ConsumerGroupMember("m", subscribed_topic_names=frozenset({TOPIC})))
    draft.update_epoch(must_bump=False)
    assert draft.append()
    again = Draft(world.shard, world.group)
    again.update_epoch(must_bump=False)
    assert again.records == []
    world.put_topic(TOPIC, 9)
    again.update_epoch(must_bump=False)
    assert again.group.epoch == 3


def test_a_rejected_append_leaves_the_metadata_unchecked(draft: Draft, world: Any) -> None:
    draft.put_member(ConsumerGroupMember("m", subscribed_topic_names=frozenset({TOPIC})))
    draft.update_epoch(must_bump=False)
    assert draft.append()
    world.put_topic(TOPIC, 9)
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    rejected = Draft(world.shard, world.group)
    rejected.update_epoch(must_bump=False)
    assert not rejected.append()
    again = Draft(world.shard, world.group)
    again.update_epoch(must_bump=False)
    assert again.group.epoch == 3


def test_a_target_is_computed_once_for_each_epoch(draft: Draft) -> None:
    draft.put_member(ConsumerGroupMember("m", subscribed_topic_names=frozenset({TOPIC})))
    draft.update_epoch(must_bump=False)
    draft.update_target()
    count = len(draft.records)
    draft.update_target()
    assert len(draft.records) == count
    after = draft.reconcile("m", None, has_subscription_changed=False)
    assert after.member_epoch == 2
    assert draft.reconcile("m", None, has_subscription_changed=False) is draft.group.members["m"]


def test_a_group_that_is_removed_is_empty(draft: Draft) -> None:
    draft.put_member(ConsumerGroupMember("m"))
    draft.add(records.removal_of_group(draft.group))
    assert draft.group.members == {}
