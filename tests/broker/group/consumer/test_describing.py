"""The description of a consumer group, which shows only what is committed."""

from __future__ import annotations

from typing import Any

from thinconsumer_testing.broker.group.consumer.describing import CLASSIC_MEMBER, described
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.consumer.member import ClassicMetadata, ConsumerGroupMember

GROUP, TOPIC = "billing", "orders"


def test_uncommitted_changes_are_not_shown(new_member: Any, world: Any) -> None:
    new_member("m1").join()
    world.replica.hold = True
    second = new_member("m2")
    second.send(0, topic_partitions=[], **second.fields)
    (found,) = world.coordinator.describe_consumer_groups([GROUP])
    assert [member.member_id for member in found.members] == ["m1"]
    world.replica.replicate()
    (found,) = world.coordinator.describe_consumer_groups([GROUP])
    assert len(found.members) == 2
    assert repr(world.group) == "<ConsumerGroup billing Reconciling epoch 3, 2 members>"


def test_deleted_topics_are_left_out_and_classic_members_are_marked(world: Any) -> None:
    group = ConsumerGroup("g")
    group.put_member(ConsumerGroupMember("m", assigned={b"x" * 16: {0: 1}}, classic=ClassicMetadata(1, ())))
    (member,) = described(group, world.image, "uniform").members
    assert (member.assignment.topic_partitions, member.member_type) == ([], CLASSIC_MEMBER)
