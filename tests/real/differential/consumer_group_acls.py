"""Scripts of consumer groups with ACLs: which topics a member may subscribe to and see."""

from __future__ import annotations

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest, ListGroupsRequest

from .acls import ALICE, deny_by_default, grant, revoke
from .consumer_groups import WITH_REGEXES, ConsumerMember, alone, known_topic
from .scripts import acl_script
from .talk import World


@acl_script
def joining_a_consumer_group(world: World) -> None:
    """A heartbeat needs READ for the group and DESCRIBE for each topic."""
    deny_by_default(world)
    group, topic, other = world.group(), known_topic(world, "t"), known_topic(world, "other")
    member = ConsumerMember(world, group, topic, other, user="alice")
    member.join("denied")
    grant(world, ALICE, "DESCRIBE", group=group)
    member.join("with DESCRIBE for the group")
    grant(world, ALICE, "READ", group=group)
    member.join("with READ for the group")
    grant(world, ALICE, "DESCRIBE", topic=topic)
    member.join("with DESCRIBE for one topic")
    member.join("that topic alone", subscribed_topic_names=[topic])
    member.beat("the other topic, too", subscribed_topic_names=[topic, other])
    grant(world, ALICE, "READ", topic=other)
    member.beat("with READ for the other topic", subscribed_topic_names=[topic, other])
    revoke(world, ALICE)
    member.beat("denied again")
    member.leave("denied again")


@acl_script
def describing_a_consumer_group(world: World) -> None:
    """A description needs DESCRIBE for the group and for every topic of its members."""
    deny_by_default(world)
    group, topic, other = world.group(), known_topic(world, "t"), known_topic(world, "other")
    alone(world, group, topic, other)
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    line = world.connect("alice")
    line.ask(request, about="denied")
    grant(world, ALICE, "DESCRIBE", group=group)
    line.ask(request, about="with DESCRIBE for the group")
    grant(world, ALICE, "DESCRIBE", topic=topic)
    line.ask(request, about="with DESCRIBE for one topic")
    grant(world, ALICE, "READ", topic=other)
    line.ask(request, about="with READ for the other topic")
    both = ConsumerGroupDescribeRequest(group_ids=[group, world.name("none")])
    line.ask(both, about="and a group that is denied")
    found = line.send(ListGroupsRequest(), 5).quiet_answer()
    world.note("listed", world.normal.of(found))


@acl_script
def expressions_see_allowed_topics(world: World) -> None:
    """A regular expression matches only topics for which the member has DESCRIBE."""
    if world.version(ConsumerGroupHeartbeatRequest) < WITH_REGEXES:
        world.note("no expressions in this version", None)
        return
    deny_by_default(world)
    group, _, other = world.group(), known_topic(world, "t"), known_topic(world, "other")
    grant(world, ALICE, "READ", group=group)
    grant(world, ALICE, "DESCRIBE", topic=other)
    member = ConsumerMember(world, group, user="alice")
    member.join("joins", subscribed_topic_names=None, subscribed_topic_regex=".*")
    member.until(2)
    member.beat("everything said", subscribed_topic_names=[], owned={}, rebalance_timeout_ms=30_000)
