"""Scripts of groups that change their type: classic members in a consumer group, and the reverse."""

from __future__ import annotations

from thinconsumer import TopicPartition
from thinconsumer.wire.consumer_protocol import encode_assignment, encode_subscription
from thinconsumer.wire.offset_commit import OffsetCommitRequest

from .commits import Book
from .consumer_groups import ConsumerMember, alone, described, known_topic
from .groups import Member, listed
from .groups import describe as describe_classic
from .scripts import consumer_group_script
from .talk import World


def classic_consumer(world: World, group: str, topic: str, *owned: int) -> Member:
    """Return a member of the classic protocol that subscribes to a topic and owns partitions; it has not joined."""
    member = Member(world, group)
    partitions = [TopicPartition(topic, number) for number in owned]
    member.protocols = [("range", encode_subscription([topic], owned=partitions))]
    return member


def stable_classic(world: World, group: str, topic: str, *assigned: int) -> Member:
    member = classic_consumer(world, group, topic)
    member.join("stable")
    plan = encode_assignment([TopicPartition(topic, number) for number in assigned])
    member.sync("stable", plan={member.member_id: plan})
    return member


@consumer_group_script
def an_empty_classic_group_is_converted(world: World) -> None:
    """Offsets stay; an empty consumer group becomes a classic one again."""
    group, topic = world.group(), known_topic(world)
    book = Book(world, group, topic)
    book.version = min(book.version, world.version(OffsetCommitRequest, 0, 8))
    book.commit((0, 5))
    consumer = alone(world, group, topic)
    described(world, group, about="a consumer joined")
    book.read(0)
    consumer.leave()
    described(world, group, about="the consumer left")
    member = classic_consumer(world, group, topic)
    member.join("the empty group")
    describe_classic(world, group, about="a classic member joined")
    described(world, group, about="a classic member joined")
    book.read(0)
    member.leave()


@consumer_group_script
def a_classic_group_is_converted(world: World) -> None:
    """A consumer joins a stable classic group: the classic member stays, and rejoins to revoke."""
    group, topic = world.group(), known_topic(world, partitions=2)
    classic = stable_classic(world, group, topic, 0, 1)
    consumer = ConsumerMember(world, group, topic, stem="c")
    consumer.join()
    described(world, group, about="converted")
    describe_classic(world, group, about="converted")
    listed(world, "converted")
    classic.heartbeat("is to rejoin")
    consumer.beat("waits")
    classic.protocols = [("range", encode_subscription([topic], owned=[TopicPartition(topic, 0)]))]
    classic.join("has revoked")
    described(world, group, about="has revoked")
    classic.sync("has revoked")
    classic.heartbeat("settled")
    consumer.beat("is given a partition")
    consumer.beat("owns it", owned={topic: [1]})
    described(world, group, about="stable")
    classic.heartbeat("stable")
    consumer.leave()
    described(world, group, about="converted back")
    describe_classic(world, group, about="converted back")
    classic.heartbeat("converted back")


@consumer_group_script
def classic_members_of_a_consumer_group(world: World) -> None:
    """A classic member joins a consumer group, and leaves it; what it is rejected for."""
    group, topic = world.group(), known_topic(world, partitions=2)
    consumer = alone(world, group, topic, stem="c")
    consumer.beat(owned={topic: [0, 1]})
    bad = Member(world, group)
    bad.protocols = [("range", b"garbage")]
    bad.join("no subscription")
    bad.protocol_type = "connect"
    bad.join("another protocol type")
    classic = classic_consumer(world, group, topic)
    classic.join()
    described(world, group, about="a classic member joined")
    classic.sync("too early")
    classic.heartbeat("before the sync")
    consumer.beat("is to revoke")
    consumer.beat("has revoked", owned={topic: [0]})
    classic.heartbeat("may rejoin")
    classic.join("again")
    classic.sync("again")
    described(world, group, about="both have partitions")
    classic.heartbeat("stable")
    classic.heartbeat("a wrong generation", generation_id=classic.generation + 1)
    classic.sync("a wrong generation", generation_id=classic.generation + 1)
    classic.leave()
    described(world, group, about="the classic member left")
    consumer.beat("alone")


@consumer_group_script
def groups_that_cannot_be_converted(world: World) -> None:
    """A classic group of another protocol type."""
    topic = known_topic(world)
    connect = Member(world, world.group("connect"))
    connect.protocol_type = "connect"
    connect.join()
    ConsumerMember(world, connect.group, topic, stem="c1").join("another protocol type")
    # A member with a subscription that cannot be decoded is not tried: Kafka 4.3 never answers its JoinGroup.
    describe_classic(world, connect.group)
