"""Scripts of the limits of consumer groups, and the settings of the broker that all scripts of consumer groups use."""

from __future__ import annotations

from typing import Any

from .consumer_groups import LEAVE_STATIC, ConsumerMember, alone, described, known_topic
from .scripts import consumer_group_script
from .talk import World

#: With Kafka's default interval between assignments, most steps of a script would take a second.
NO_INTERVAL = {"group.consumer.assignment.interval.ms": 0, "group.consumer.min.assignment.interval.ms": 0}
#: Kafka's default for a session is at least 45 s.
LIMITS: dict[str, Any] = {
    **NO_INTERVAL,
    "group.consumer.session.timeout.ms": 2500,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 1000,
    "group.consumer.max.size": 3,
}


@consumer_group_script
def sessions_of_consumers_end(world: World) -> None:
    """A member without a heartbeat within the session timeout is removed, and so is a static one that is away."""
    group, topic = world.group(), known_topic(world, partitions=2)
    member = ConsumerMember(world, group, topic, stem="m1")
    member.join()
    static = ConsumerMember(world, world.group("g2"), topic, stem="m2", instance="i1")
    static.join()
    static.leave("static", LEAVE_STATIC)
    world.wait(1.3)
    member.beat("in time", owned={topic: [0, 1]})
    world.wait(1.6)
    described(world, group, about="in time")
    world.wait(1.6)
    described(world, group, static.group, about="too late")
    member.beat("too late")
    member.join("again")
    static.epoch = 0
    static.join("again")


@consumer_group_script
def a_group_that_is_full(world: World) -> None:
    """Three members may join; a fourth one may not, even while a static one is away."""
    group = world.group()
    first, second = alone(world, group, stem="m1"), alone(world, group, stem="m2", instance="i")
    alone(world, group, stem="m3")
    fourth = ConsumerMember(world, group, stem="m4")
    fourth.join("full")
    fourth.beat("full, an unknown member", member_id="nobody", member_epoch=1)
    first.join("again")
    second.leave("static", LEAVE_STATIC)
    fourth.join("while a static member is away")
    back = ConsumerMember(world, group, stem="m5", instance="i")
    back.join("the static member comes back")
    first.leave()
    fourth.join("after one left")
