"""The description of a consumer group, which shows only what is committed."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire.error_codes import Code
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


def test_groups_that_are_no_consumer_groups(world: Any) -> None:
    world.stable(1)
    codes = [one.error_code for one in world.coordinator.describe_consumer_groups([GROUP, "missing", ""])]
    assert codes == [Code.GROUP_ID_NOT_FOUND, Code.GROUP_ID_NOT_FOUND, Code.INVALID_GROUP_ID]
    world.resign()
    assert world.coordinator.describe_consumer_groups([GROUP])[0].error_code == Code.NOT_COORDINATOR


def test_deleted_topics_are_left_out_and_classic_members_are_marked(world: Any) -> None:
    group = ConsumerGroup("g")
    group.put_member(ConsumerGroupMember("m", assigned={b"x" * 16: {0: 1}}, classic=ClassicMetadata(1, ())))
    (member,) = described(group, world.image, "uniform").members
    assert (member.assignment.topic_partitions, member.member_type) == ([], CLASSIC_MEMBER)


def test_a_consumer_group_is_listed_and_no_classic_group(new_member: Any, world: Any) -> None:
    new_member().join()
    _, (listed,) = world.coordinator.list_groups([], [])
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("consumer", "consumer", "Stable")
    for states, types, count in (([], ["Consumer"], 1), ([], ["classic"], 0), (["stable"], [], 1), (["Empty"], [], 0)):
        assert len(world.coordinator.list_groups(states, types)[1]) == count
    (older,) = world.coordinator.describe([GROUP], 5)
    assert (older.error_code, older.group_state) == (0, "Dead")
    (newer,) = world.coordinator.describe([GROUP], 6)
    assert newer.error_code == Code.GROUP_ID_NOT_FOUND
    assert "not a classic group" in newer.error_message


def test_only_an_empty_group_is_deleted(member: Any, world: Any) -> None:
    assert world.delete(GROUP).answer[0].error_code == Code.NON_EMPTY_GROUP
    member.leave()
    assert world.delete(GROUP).answer[0].error_code == 0
    assert world.delete(GROUP).answer[0].error_code == Code.GROUP_ID_NOT_FOUND
