"""Scripts of the consumer group protocol: heartbeats and descriptions in every state, and what each is rejected for."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire import ZERO_UUID
from thinconsumer.wire import topics as topic_apis
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from thinconsumer.wire.groups import ConsumerGroupDescribeRequest, DeleteGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity
from thinconsumer.wire.sync_group import SyncGroupRequest

from .groups import describe as describe_classic
from .groups import listed, stable
from .scripts import cluster_script, consumer_group_script
from .talk import World

WITH_OWN_IDS = 1  #: From this version on, the client makes the member id.
WITH_REGEXES = 1
JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2

Owned = dict[str, list[int]]


class ConsumerMember:
    """A member of a consumer group, on a connection of its own. It owns only what the script says in ``owned``."""

    def __init__(
        self,
        world: World,
        group: str,
        *topics: str,
        stem: str = "m",
        instance: str | None = None,
        timeout_ms: int = 30_000,
        user: str = "",
        member_id: str = "",
    ) -> None:
        self.world = world
        self.group = group
        self.topics = list(topics)
        self.instance = instance
        self.timeout_ms = timeout_ms
        self.line = world.connect(user)
        self.version = world.version(ConsumerGroupHeartbeatRequest)
        self.member_id = member_id or (world.name(stem) if self.version >= WITH_OWN_IDS else "")
        self.epoch = JOIN

    def say(self, **options: Any) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance
        )
        owned: Owned | None = options.pop("owned", None)
        if owned is not None:
            request.topic_partitions = [
                TopicPartitions(topic_id=self.world.topic_id(name), partitions=numbers)
                for name, numbers in owned.items()
            ]
        for name, value in options.items():
            setattr(request, name, value)
        return request

    def say_join(self, **options: Any) -> ConsumerGroupHeartbeatRequest:
        first = {
            "member_epoch": JOIN,
            "rebalance_timeout_ms": self.timeout_ms,
            "subscribed_topic_names": self.topics,
            "topic_partitions": [],
        }
        return self.say(**{**first, **options})

    def _ask(self, request: ConsumerGroupHeartbeatRequest, about: str) -> Any:
        answer = self.line.ask(request, self.version, about=about)
        if answer is not None and not answer.error_code:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
        return answer

    def join(self, about: str = "join", **options: Any) -> Any:
        return self._ask(self.say_join(**options), about)

    def beat(self, about: str = "", **options: Any) -> Any:
        """Send a heartbeat, and note the answer. ``owned`` are the partitions that the member says it owns."""
        return self._ask(self.say(**options), about)

    def leave(self, about: str = "leave", epoch: int = LEAVE, **options: Any) -> Any:
        """Leave, and note the answer. The member keeps its epoch, so that a script can go on with it."""
        return self.line.ask(self.say(member_epoch=epoch, **options), self.version, about=about)

    def until(self, epoch: int, **options: Any) -> None:
        """Send heartbeats without notes until the member has an epoch: a real coordinator does some things later."""
        for _ in range(200):
            answer = self.line.send(self.say(**options), self.version).quiet_answer()
            assert answer.error_code == 0, answer
            if answer.member_epoch >= epoch:
                self.epoch = answer.member_epoch
                return
            self.world.wait(0.05)
        raise AssertionError(f"no epoch {epoch}")


def described(world: World, *groups: str, about: str = "") -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
    return world.connect().ask(request, about=about)


def alone(world: World, group: str, *topics: str, **options: Any) -> ConsumerMember:
    member = ConsumerMember(world, group, *topics, **options)
    answer = member.line.send(member.say_join(), member.version).quiet_answer()
    assert answer.error_code == 0, answer
    member.member_id, member.epoch = answer.member_id, answer.member_epoch
    return member


def known_topic(world: World, stem: str = "t", partitions: int = 1) -> str:
    """Create a topic, and wait until the group coordinator has it, which is some time after its leader."""
    topic = world.topic(stem, partitions)
    world.topic_id(topic)
    world.group("probe")
    # The group's name does not begin like those of the script, so that it is not listed.
    probe = ConsumerMember(world, f"probe-{world.prefix}", topic, member_id="probe")
    for _ in range(200):
        answer = probe.line.send(probe.say_join(), probe.version).quiet_answer()
        if answer.assignment is not None and answer.assignment.topic_partitions:
            probe.line.send(probe.say(member_epoch=LEAVE), probe.version).quiet_answer()
            return topic
        world.wait(0.05)
    raise AssertionError(f"the coordinator does not know {topic}")


# -- one member


@consumer_group_script
def one_consumer(world: World) -> None:
    """Joins, sends heartbeats, is described, leaves."""
    group, topic = world.group(), known_topic(world, partitions=3)
    described(world, group, about="before")
    member = ConsumerMember(world, group, topic)
    member.join()
    described(world, group, about="joined")
    member.beat("nothing owned", owned={})
    member.beat("unchanged")
    member.beat("two owned", owned={topic: [0, 1]})
    member.beat("all owned", owned={topic: [0, 1, 2]})
    described(world, group, about="all owned")
    listed(world)
    member.beat(
        "everything said", owned={topic: [0, 1, 2]}, subscribed_topic_names=[topic], rebalance_timeout_ms=30_000
    )
    member.beat("another client and rack", rack_id="r2")
    described(world, group, about="another rack")
    member.beat("the same topics again", subscribed_topic_names=[topic])
    member.beat("no topics", subscribed_topic_names=[])
    described(world, group, about="no topics")
    member.beat("revoked", owned={})
    described(world, group, about="revoked")
    member.leave()
    described(world, group, about="left")
    listed(world, "left")
    member.beat("left")
    member.leave("again")


@consumer_group_script
def heartbeats_that_are_rejected(world: World) -> None:
    """Every field with a value that is not allowed."""
    group, topic = world.group(), known_topic(world)
    owned = [TopicPartitions(topic_id=world.topic_id(topic), partitions=[0])]
    member = ConsumerMember(world, group, topic)
    for about, options in {
        "no group": {"group_id": ""},
        "a blank group": {"group_id": " "},
        "no member id": {"member_id": ""},
        "a blank member id": {"member_id": " "},
        "an empty instance": {"instance_id": ""},
        "an empty rack": {"rack_id": ""},
        "no rebalance timeout": {"rebalance_timeout_ms": -1},
        "owned is null": {"topic_partitions": None},
        "something owned": {"topic_partitions": owned},
        "no subscription": {"subscribed_topic_names": None},
        "an unknown assignor": {"server_assignor": "nonsense"},
        "an empty assignor": {"server_assignor": ""},
        "an assignor in capitals": {"server_assignor": "Uniform"},
        "epoch -3": {"member_epoch": -3},
        "epoch 5": {"member_epoch": 5},
        "static without an instance": {"member_epoch": LEAVE_STATIC},
        "leaving a group that is not": {"member_epoch": LEAVE},
    }.items():
        if options.get("member_id") is None or member.version >= WITH_OWN_IDS:
            member.line.ask(member.say_join(**options), member.version, about=about)
    described(world, group, about="nobody joined")
    joined = alone(world, group, topic)
    for about, options in {
        "no member id": {"member_id": ""},
        "leaving without a member id": {"member_id": "", "member_epoch": LEAVE},
        "an unknown member": {"member_id": "nobody"},
        "an unknown member leaves": {"member_id": "nobody", "member_epoch": LEAVE},
        "an empty instance": {"instance_id": ""},
        "an instance of a dynamic member": {"instance_id": "i"},
        "a dynamic member leaves as a static one": {"member_epoch": LEAVE_STATIC},
        "an empty rack": {"rack_id": ""},
        "an unknown assignor": {"server_assignor": "nonsense"},
        "epoch -3": {"member_epoch": -3},
        "a newer epoch": {"member_epoch": joined.epoch + 1},
        "another group": {"group_id": world.name("none")},
    }.items():
        joined.line.ask(joined.say(**options), joined.version, about=f"a member with {about}")
    joined.beat("all is well")


@consumer_group_script
def odd_heartbeats(world: World) -> None:
    """Values that are odd, and allowed or not."""
    topic = known_topic(world, partitions=2)
    topic_id = world.topic_id(topic)
    for number, (about, options) in enumerate(
        {
            "a timeout of 0": {"rebalance_timeout_ms": 0},
            "a negative timeout": {"rebalance_timeout_ms": -2},
            "no topics": {"subscribed_topic_names": []},
            "a topic twice": {"subscribed_topic_names": [topic, topic]},
            "topics that are not": {"subscribed_topic_names": ["none", "", "a b", topic]},
            "range": {"server_assignor": "range"},
            "uniform": {"server_assignor": "uniform"},
        }.items()
    ):
        group = world.group(f"odd{number}")
        ConsumerMember(world, group, topic).join(about, **options)
        described(world, group, about=about)
    member = alone(world, world.group("owning"), topic)
    rows = {
        "an unknown topic": [TopicPartitions(topic_id=b"?" * 16, partitions=[0])],
        "no topic id": [TopicPartitions(topic_id=ZERO_UUID, partitions=[0])],
        "a partition that is not": [TopicPartitions(topic_id=topic_id, partitions=[0, 1, 9])],
        "a negative partition": [TopicPartitions(topic_id=topic_id, partitions=[-1])],
        "a partition twice": [TopicPartitions(topic_id=topic_id, partitions=[0, 0])],
        "no partitions": [TopicPartitions(topic_id=topic_id, partitions=[])],
        "a topic twice": [TopicPartitions(topic_id=topic_id, partitions=[n]) for n in (0, 1)],
    }
    for about, owned in rows.items():
        member.beat(f"owning {about}", topic_partitions=owned)
        described(world, member.group, about=about)


@consumer_group_script
def epochs_of_heartbeats(world: World) -> None:
    """An older epoch is fenced, unless the response with the newer one may have been lost."""
    group, topic = world.group(), known_topic(world, partitions=2)
    first = alone(world, group, topic)
    first.beat(owned={topic: [0, 1]})
    first.beat("no topics, a new epoch", subscribed_topic_names=[])
    first.beat("revoked", owned={})
    first.beat("topics again", subscribed_topic_names=[topic])
    newest = first.epoch
    first.beat("the epoch before, nothing owned", member_epoch=newest - 1, owned={})
    first.beat("the epoch before, what is assigned", member_epoch=newest - 1, owned={topic: [0]})
    first.beat("the epoch before, owned unsaid", member_epoch=newest - 1)
    first.beat("the epoch before, more than is assigned", member_epoch=newest - 1, owned={topic: [0, 1, 2]})
    first.beat("two epochs before", member_epoch=newest - 2, owned={})
    first.beat("a future epoch", member_epoch=newest + 1)
    first.beat("the epoch", member_epoch=newest)
    first.join("again, under the same id")
    described(world, group)
    first.join("with other topics", subscribed_topic_names=[])
    described(world, group, about="joined again with other topics")


@consumer_group_script
def blank_fields(world: World) -> None:
    """A blank where a name is expected, in a request to join and in one of a member."""
    topic = known_topic(world)
    fields = {
        "an instance": {"instance_id": " "},
        "a rack": {"rack_id": " "},
        "an assignor": {"server_assignor": " "},
        "a topic": {"subscribed_topic_names": [" "]},
    }
    if world.version(ConsumerGroupHeartbeatRequest) >= WITH_REGEXES:
        fields["an expression"] = {"subscribed_topic_regex": " "}
        fields["an expression alone"] = {"subscribed_topic_names": None, "subscribed_topic_regex": " "}
        fields["an expression that is empty and alone"] = {"subscribed_topic_names": None, "subscribed_topic_regex": ""}
    for number, (about, options) in enumerate(fields.items()):
        group = world.group(f"blank{number}")
        member = ConsumerMember(world, group, topic)
        member.join(about, **options)
        described(world, group, about=about)
        member.beat(f"a member with {about}", **options)
        member.leave(f"with {about}", **options)


# -- several members


@consumer_group_script
def two_consumers(world: World) -> None:
    """A second member joins: the first one revokes, then the second one is given the partitions."""
    group, topic = world.group(), known_topic(world, partitions=4)
    first = alone(world, group, topic, stem="m1")
    first.beat("has all", owned={topic: [0, 1, 2, 3]})
    second = ConsumerMember(world, group, topic, stem="m2")
    second.join()
    described(world, group, about="the second one joined")
    listed(world)
    second.beat("waits")
    first.beat("is to revoke")
    described(world, group, about="the first one is to revoke")
    first.beat("has not revoked", owned={topic: [0, 1, 2, 3]})
    second.beat("still waits", owned={})
    first.beat("has revoked one", owned={topic: [0, 1, 2]})
    second.beat("waits after one was revoked")
    first.beat("has revoked", owned={topic: [0, 1]})
    described(world, group, about="the first one has revoked")
    second.beat("is given partitions")
    described(world, group, about="the second one is given partitions")
    second.beat("has them", owned={topic: [2, 3]})
    first.beat("settled")
    described(world, group, about="stable")
    first.leave()
    second.beat("the other one left")
    described(world, group, about="the other one left")
    second.beat("has all", owned={topic: [0, 1, 2, 3]})


@consumer_group_script
def a_member_leaves_what_it_should_get(world: World) -> None:
    """The member that waits for partitions leaves before it has them."""
    group, topic = world.group(), known_topic(world, partitions=2)
    first = alone(world, group, topic, stem="m1")
    first.beat("has all", owned={topic: [0, 1]})
    second = alone(world, group, topic, stem="m2")
    first.beat("is to revoke")
    second.leave()
    described(world, group, about="the second one left")
    first.beat("has not revoked", owned={topic: [0, 1]})
    described(world, group, about="as before")
    first.beat("settled")


@consumer_group_script
def three_topics_and_assignors(world: World) -> None:
    """The assignor that most members want; range co-partitions topics."""
    group, one, two = world.group(), known_topic(world, "one", partitions=3), known_topic(world, "two", partitions=3)
    first = alone(world, group, one, two, stem="m1")
    described(world, group, about="the default")
    first.beat("range", server_assignor="range")
    described(world, group, about="range")
    first.beat("settles", owned={one: [0, 1, 2], two: [0, 1, 2]})
    second = ConsumerMember(world, group, one, stem="m2")
    second.join("uniform", server_assignor="uniform")
    described(world, group, about="a tie")
    third = ConsumerMember(world, group, two, stem="m3")
    third.join("uniform", server_assignor="uniform")
    world.note("the assignor of most", described(world, group, about="uniform").groups[0].assignor_name)


@consumer_group_script
def a_topic_that_changes(world: World) -> None:
    """A topic is created after the subscription, grows, and is deleted."""
    group, name = world.group(), world.name("later")
    member = ConsumerMember(world, group, name)
    member.join("no such topic yet")
    described(world, group, about="no such topic yet")
    assert world.topic("later", partitions=1) == name
    world.topic_id(name)
    member.until(member.epoch + 1)
    described(world, group, about="created")
    member.beat("owned", owned={name: [0]})
    line = world.connect()
    rows = [topic_apis.CreatePartitionsTopic(name=name, count=3, assignments=None)]
    line.send(topic_apis.CreatePartitionsRequest(topics=rows, timeout_ms=5000), 3).quiet_answer()
    member.until(member.epoch + 1)
    member.beat("all owned", owned={name: [0, 1, 2]})
    described(world, group, about="grown")
    deleted = topic_apis.DeleteTopicsRequest(topics=[topic_apis.DeleteTopicState(name=name)], timeout_ms=5000)
    line.send(deleted, 6).quiet_answer()
    while (answer := member.line.send(member.say(), member.version).quiet_answer()).assignment is None:
        world.wait(0.05)
    world.note("deleted", world.normal.of(answer))
    described(world, group, about="deleted")


# -- static members


@consumer_group_script
def static_consumers(world: World) -> None:
    """A static member leaves and comes back, with the same partitions; its former self is fenced."""
    group, topic = world.group(), known_topic(world, partitions=2)
    first = ConsumerMember(world, group, topic, stem="m1", instance="i1")
    first.join()
    first.beat("owned", owned={topic: [0, 1]})
    described(world, group, about="joined")
    double = ConsumerMember(world, group, topic, stem="m2", instance="i1")
    double.join("while the first one is there")
    first.beat("another instance", instance_id="i2")
    first.beat("no instance", instance_id=None)
    first.leave("static, with another instance", LEAVE_STATIC, instance_id="i2")
    first.leave("static, with another member id", LEAVE_STATIC, member_id="nobody")
    first.leave("static", LEAVE_STATIC)
    described(world, group, about="left for a while")
    listed(world, "left for a while")
    first.leave("static, again", LEAVE_STATIC)
    first.beat("after leaving")
    double.join("after the first one left")
    described(world, group, about="came back")
    double.beat("came back")
    double.beat("owned", owned={topic: [0, 1]})
    first.beat("fenced")
    first.leave("fenced", LEAVE_STATIC)
    first.leave("fenced, for good")
    double.leave("for good")
    described(world, group, about="left for good")


@consumer_group_script
def static_consumers_that_change(world: World) -> None:
    """A static member comes back with other topics, and under its own former id."""
    group, one, two = world.group(), known_topic(world, "one", partitions=2), known_topic(world, "two")
    first = alone(world, group, one, stem="m1", instance="i1")
    first.beat("owned", owned={one: [0, 1]})
    other = alone(world, group, one, stem="m2", instance="i2")
    first.beat("is to revoke")
    first.leave("before it revoked", LEAVE_STATIC)
    described(world, group, about="left before it revoked")
    other.beat("waits")
    back = ConsumerMember(world, group, two, stem="m1", instance="i1")
    back.member_id = first.member_id
    back.join("with other topics, under the same id")
    described(world, group, about="came back")
    other.beat("gets all")
    back.leave("for good")
    described(world, group, about="left for good")


@consumer_group_script
def dynamic_becomes_static(world: World) -> None:
    """A member id that joined without an instance joins with one, and the reverse."""
    group, topic = world.group(), known_topic(world)
    member = alone(world, group, topic)
    member.join("with an instance", instance_id="i1")
    described(world, group, about="with an instance")
    member.beat("with an instance", instance_id="i1")
    member.beat("without an instance")
    static = alone(world, world.group("g2"), topic, stem="m2", instance="i1")
    static.join("without an instance", instance_id=None)
    described(world, static.group, about="without an instance")


# -- regular expressions


@consumer_group_script
def regular_expressions(world: World) -> None:
    """Topics that match; rejected expressions; names beside an expression."""
    group, topic = world.group(), known_topic(world, "apple", partitions=2)
    member = ConsumerMember(world, group)
    if member.version < WITH_REGEXES:
        member.join("no expressions in this version")
        return
    for text in ("(", "[", "*", "a{2,1}", r"(?<=a)b", r"(a)\1", r"\p{Nonsense}", "a{1001}", "(?P<n>a)(?P<n>b)"):
        member.join(f"rejected {text}", subscribed_topic_names=None, subscribed_topic_regex=text)
    described(world, group, about="nobody joined")
    expression = f"{world.prefix}-a.*"
    member.join("joined", subscribed_topic_names=None, subscribed_topic_regex=expression)
    member.until(2)
    described(world, group, about="resolved")
    member.beat("owned", owned={topic: [0, 1]})
    member.beat("unchanged", subscribed_topic_regex=expression)
    member.beat("rejected", subscribed_topic_regex="(")
    member.beat("none", subscribed_topic_regex="")
    described(world, group, about="none")
    member.beat("revoked", owned={})
    described(world, group, about="revoked")
    other = ConsumerMember(world, world.group("g2"), topic)
    other.join("empty", subscribed_topic_names=None, subscribed_topic_regex="")
    other.join("beside names", subscribed_topic_regex=f"{world.prefix}-b.*")
    other.until(other.epoch, owned={})
    described(world, other.group, about="beside names")


@consumer_group_script
def expressions_match_whole_names(world: World) -> None:
    """An expression matches a whole name, or a part of it; internal topics."""
    known_topic(world, "whole")
    if world.version(ConsumerGroupHeartbeatRequest) < WITH_REGEXES:
        world.note("no expressions in this version", None)
        return
    rest = world.prefix[1:]
    expressions = (f"{world.prefix}-whol", f"{world.prefix}-whole", f".*{rest}-wh[o]le$", f"^.{rest}-(?i)WHOLE", "hole")
    for number, expression in enumerate(expressions):
        member = ConsumerMember(world, world.group(f"g{number}"), stem=f"m{number}")
        member.join(expression, subscribed_topic_names=None, subscribed_topic_regex=expression)
        world.wait(0.3)
        member.line.send(member.say(), member.version).quiet_answer()
        everything = {"subscribed_topic_names": [], "rebalance_timeout_ms": 30_000, "owned": {}}
        found = member.line.send(
            member.say(subscribed_topic_regex=expression, **everything), member.version
        ).quiet_answer()
        assigned = found.assignment.topic_partitions if found.assignment is not None else []
        world.note(f"assigned to {expression}", sum(len(row.partitions) for row in assigned))


# -- time


@consumer_group_script
def a_member_that_does_not_revoke(world: World) -> None:
    """It is removed after its rebalance timeout, and the other one gets its partitions."""
    group, topic = world.group(), known_topic(world, partitions=2)
    first = alone(world, group, topic, stem="m1", timeout_ms=600)
    first.beat("owned", owned={topic: [0, 1]})
    second = alone(world, group, topic, stem="m2")
    first.beat("is to revoke")
    world.wait(0.3)
    first.beat("has not revoked", owned={topic: [0, 1]})
    world.wait(1.0)
    described(world, group, about="removed")
    first.beat("removed", owned={topic: [0, 1]})
    second.beat("gets all")
    described(world, group, about="gets all")


# -- other requests


@cluster_script
def requests_to_another_broker(world: World) -> None:
    """A broker that is not the group's coordinator."""
    group = world.name("g")
    line = world.connect_elsewhere(group)
    first = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    for about, epoch, fields in (("join", JOIN, first), ("a member", 1, {}), ("leave", LEAVE, {})):
        who = {"group_id": group, "member_id": "m", "member_epoch": epoch}
        line.ask(ConsumerGroupHeartbeatRequest(**who, **fields), about=about)
    line.ask(ConsumerGroupDescribeRequest(group_ids=[group]))


@consumer_group_script
def describing_consumer_groups(world: World) -> None:
    """Groups of both types, groups that are not, and none."""
    topic = known_topic(world)
    alone(world, world.group("one"), topic)
    left = alone(world, world.group("left"), topic, stem="m2")
    left.leave()
    stable(world, world.group("classic"))
    names = [world.name(stem) for stem in ("one", "left", "classic", "none")]
    described(world, *names)
    described(world, names[0], names[0], about="twice")
    described(world, "", about="no name")
    described(world, about="nothing")
    described(world, names[0], "", about="one and no name")
    describe_classic(world, *names, about="with the classic API")
    for types in (("consumer",), ("classic",), ("Consumer",), ("consumer", "classic")):
        listed(world, types=types)
    for states in (("Stable",), ("Empty",), ("Reconciling", "Assigning"), ("stable",)):
        listed(world, states=states)
    line = world.connect()
    line.ask(DeleteGroupsRequest(groups_names=names))
    listed(world, "after deleting")


@consumer_group_script
def classic_requests_of_a_consumer(world: World) -> None:
    """Heartbeat, SyncGroup and LeaveGroup in a consumer group."""
    group, topic = world.group(), known_topic(world)
    member = alone(world, group, topic)
    who: dict[str, Any] = {"group_id": group, "member_id": member.member_id, "generation_id": member.epoch}
    line = world.connect()
    for about, member_id in (("a member", member.member_id), ("unknown", "nobody")):
        who["member_id"] = member_id
        line.ask(HeartbeatRequest(**who), about=about)
        line.ask(SyncGroupRequest(**who, protocol_type="consumer", protocol_name="range"), about=about)
    version = world.version(LeaveGroupRequest)
    if version >= 3:
        members = [MemberIdentity(member_id=one, group_instance_id=None) for one in (member.member_id, "nobody")]
        line.ask(LeaveGroupRequest(group_id=group, members=members), version)
    else:
        line.ask(LeaveGroupRequest(group_id=group, member_id=member.member_id), version)
    member.beat("all is well")


@consumer_group_script
def heartbeats_of_a_classic_group(world: World) -> None:
    """A classic group of another protocol type, and heartbeats of members that are not."""
    group = world.group()
    classic = stable(world, group)
    member = ConsumerMember(world, group, "t")
    member.beat("not joined", member_epoch=1, member_id="m")
    member.leave("not joined", member_id="m")
    member.beat("a classic member", member_epoch=classic.generation, member_id=classic.member_id)
    classic.heartbeat("all is well")
