"""The description of a consumer group, which shows only what is committed."""

from __future__ import annotations

from typing import Any

from thinconsumer_testing.broker.group.consumer.describing import CLASSIC_MEMBER, CONSUMER_MEMBER, described
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup
from thinconsumer_testing.broker.group.consumer.member import ClassicMetadata, ConsumerGroupMember

GROUP, TOPIC = "billing", "orders"


def test_a_reconciling_group(new_member: Any, world: Any) -> None:
    first, second = new_member("m1"), new_member("m2", "i2", rack_id="r", server_assignor="range")
    first.join()
    second.join()
    first.beat()
    (found,) = world.coordinator.describe_consumer_groups([GROUP])
    assert (found.error_code, found.group_state, found.assignor_name) == (0, "Reconciling", "range")
    assert (found.group_epoch, found.assignment_epoch) == (3, 3)
    one, two = found.members
    assert (one.member_id, one.member_epoch, one.client_id, one.client_host) == ("m1", 2, "app", "/127.0.0.1")
    assert (two.instance_id, two.rack_id, two.subscribed_topic_names) == ("i2", "r", [TOPIC])
    # The partition that the first member has to revoke is still shown as its own.
    assert [(topic.topic_name, topic.partitions) for topic in one.assignment.topic_partitions] == [(TOPIC, [0, 1, 2])]
    assert world.group.members["m1"].pending_revocation
    targets = [member.target_assignment.topic_partitions[0].partitions for member in found.members]
    assert sorted(index for found in targets for index in found) == [0, 1, 2]
    assert two.assignment.topic_partitions == []
    assert one.member_type == CONSUMER_MEMBER
    assert repr(world.group) == "<ConsumerGroup billing Reconciling epoch 3, 2 members>"


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


def test_deleted_topics_are_left_out_and_classic_members_are_marked(world: Any) -> None:
    group = ConsumerGroup("g")
    group.put_member(ConsumerGroupMember("m", assigned={b"x" * 16: {0: 1}}, classic=ClassicMetadata(1, ())))
    (member,) = described(group, world.image, "uniform").members
    assert (member.assignment.topic_partitions, member.member_type) == ([], CLASSIC_MEMBER)
