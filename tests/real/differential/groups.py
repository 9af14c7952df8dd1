"""Scripts of the classic group protocol: joining, syncing, heartbeats, leaving, describing, in every state."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from thinconsumer.wire.leave_group import LeaveGroupRequest, MemberIdentity
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .scripts import script
from .talk import Asked, World

MEMBER_ID_REQUIRED = 79
WITH_REQUIRED_IDS = 4
WITH_INSTANCES = 5  #: JoinGroup; the others follow.
SUBSCRIPTION = bytes.fromhex("0000 00000001 0001 74 ffffffff")  #: Version 0, topic "t".


class Member:
    def __init__(self, world: World, group: str, instance: str | None = None, session_ms: int = 10_000) -> None:
        self.world = world
        self.group = group
        self.instance = instance
        self.session_ms = session_ms
        self.line = world.connect()
        self.member_id = ""
        self.generation = -1
        self.protocols: list[tuple[str, bytes]] = [("range", SUBSCRIPTION)]
        self.protocol_type = "consumer"
        self.leads = False
        self.at_least = WITH_INSTANCES if instance is not None else 0

    def say_join(self, **options: Any) -> JoinGroupRequest:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=5_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in self.protocols],
        )
        for name, value in options.items():
            setattr(request, name, value)
        return request

    def ask_to_join(self, about: str = "", **options: Any) -> Asked:
        """Send a JoinGroup; first ask for a member id where one is needed."""
        version = self.world.version(JoinGroupRequest, self.at_least)
        if version >= WITH_REQUIRED_IDS and not self.member_id and self.instance is None:
            answer = self.line.ask(self.say_join(**options), version, about=f"{about} for an id")
            if answer.error_code == MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
        return self.line.send(self.say_join(**options), version, about=about)

    def joined(self, asked: Asked) -> Any:
        answer = asked.answer()
        if answer is not None and not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.leads = answer.leader == answer.member_id
        return answer

    def join(self, about: str = "", **options: Any) -> Any:
        return self.joined(self.ask_to_join(about, **options))

    def ask_to_sync(self, about: str = "", **options: Any) -> Asked:
        plan = options.pop("plan", {})
        version = self.world.version(SyncGroupRequest, 3 if self.instance is not None else 0)
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in plan.items()],
        )
        for name, value in options.items():
            setattr(request, name, value)
        return self.line.send(request, version, about=about)

    def sync(self, about: str = "", **options: Any) -> Any:
        return self.ask_to_sync(about, **options).answer()

    def heartbeat(self, about: str = "", **options: Any) -> Any:
        version = self.world.version(HeartbeatRequest, 3 if self.instance is not None else 0)
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        for name, value in options.items():
            setattr(request, name, value)
        return self.line.ask(request, version, about=about)

    def leave(self, about: str = "", **options: Any) -> Any:
        version = self.world.version(LeaveGroupRequest, 3 if self.instance is not None else 0)
        member_id = options.get("member_id", self.member_id)
        request = LeaveGroupRequest(group_id=options.get("group_id", self.group))
        if version < 3:
            request.member_id = member_id
        else:
            request.members = [
                MemberIdentity(member_id=member_id, group_instance_id=options.get("instance", self.instance))
            ]
        return self.line.ask(request, version, about=about)


def describe(world: World, *groups: str, about: str = "") -> Any:
    request = DescribeGroupsRequest(groups=list(groups))
    request.include_authorized_operations = world.version(DescribeGroupsRequest) >= 3
    return world.connect().ask(request, about=about)


def listed(world: World, about: str = "", states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> None:
    """List groups, and note those of the script."""
    request = ListGroupsRequest()
    version = world.version(ListGroupsRequest)
    if version >= 4:
        request.states_filter = list(states)
    if version >= 5:
        request.types_filter = list(types)
    answer = world.connect().send(request, version).quiet_answer()
    answer.groups = [one for one in answer.groups if one.group_id.startswith(world.prefix)]
    world.note(f"ListGroups {version} {about} {states} {types}", world.normal.of(answer))


def stable(world: World, group: str, **options: Any) -> Member:
    member = Member(world, group, **options)
    member.join()
    member.sync(plan={member.member_id: b"plan"})
    return member


@script
def one_member(world: World) -> None:
    """Joins, syncs, heartbeats, is described, leaves."""
    group = world.group()
    describe(world, group, about="before")
    member = Member(world, group)
    member.join()
    describe(world, group, about="joined")
    member.heartbeat("before the sync")
    member.sync(plan={member.member_id: b"plan"})
    describe(world, group, about="stable")
    listed(world)
    member.heartbeat()
    member.sync("again")
    member.sync("again with another plan", plan={member.member_id: b"other"})
    member.leave()
    describe(world, group, about="empty")
    listed(world, "empty")
    member.heartbeat("after leaving")
    member.sync("after leaving")
    member.leave("again")


@script
def joining_wrongly(world: World) -> None:
    """Everything a JoinGroup is refused for."""
    group = world.group()
    version = world.version(JoinGroupRequest)
    Member(world, "").join("no group")
    for session_ms in (0, 999, 1_800_001, -1):
        Member(world, group, session_ms=session_ms).join(f"session of {session_ms} ms")
    nobody = Member(world, group)
    nobody.member_id = "nobody"
    nobody.join("unknown member id")
    empty = Member(world, group)
    empty.protocols = []
    empty.join("no protocols")
    untyped = Member(world, group)
    untyped.protocol_type = ""
    untyped.join("no protocol type")
    member = stable(world, group)
    other = Member(world, group)
    other.protocols = [("roundrobin", b"")]
    other.join("another protocol")
    other = Member(world, group)
    other.protocol_type = "connect"
    other.join("another type")
    other.member_id = "nobody"
    other.join("unknown member id")
    member.heartbeat()
    if version >= 8:
        member.join("with a reason", reason="because")
    listed(world)


@script
def syncing_and_beating_wrongly(world: World) -> None:
    """Members, generations and protocols that are not."""
    group = world.group()
    member = stable(world, group)
    version = world.version(SyncGroupRequest)
    for options in (
        {"generation_id": member.generation + 1},
        {"generation_id": member.generation - 1},
        {"generation_id": -1},
        {"member_id": "nobody"},
        {"member_id": ""},
        {"group_id": world.name("none")},
        {"group_id": ""},
    ):
        member.sync(str(sorted(options)), **options)
        member.heartbeat(str(sorted(options)), **options)
    if version >= 5:
        member.sync("another protocol", protocol_name="roundrobin")
        member.sync("another type", protocol_type="connect")
        member.sync("no protocol", protocol_name=None, protocol_type=None)
    member.heartbeat("all is well")


@script
def two_members(world: World) -> None:
    """A second member joins: the responses to both members, the leader, and the errors of each group state."""
    group = world.group()
    first, second = stable(world, group), Member(world, group)
    asked = second.ask_to_join()
    asked.is_parked()
    describe(world, group, about="rebalancing")
    first.heartbeat("rebalancing")
    first.sync("rebalancing")
    again = first.ask_to_join("again")
    first.joined(again), second.joined(asked)
    world.note("who leads", (first.leads, second.leads))
    leader, follower = (first, second) if first.leads else (second, first)
    describe(world, group, about="joined")
    waiting = follower.ask_to_sync()
    waiting.is_parked()
    follower_beats = world.connect()
    request = HeartbeatRequest(group_id=group, generation_id=follower.generation, member_id=follower.member_id)
    follower_beats.ask(request, about="waiting for the plan")
    leader.sync(plan={leader.member_id: b"mine", follower.member_id: b"yours"})
    waiting.answer()
    describe(world, group, about="stable")
    for member in (first, second):
        member.heartbeat()
    first.leave()
    second.heartbeat("the other one left")
    second.join("alone")
    second.sync(plan={second.member_id: b"all"})
    second.heartbeat()


@script
def a_member_that_changes_nothing(world: World) -> None:
    """A follower joins again as it was: no rebalance. The leader does: one."""
    group = world.group()
    first, second = stable(world, group), Member(world, group)
    asked = second.ask_to_join()
    asked.is_parked()
    first.join("again")
    second.joined(asked)
    waiting = second.ask_to_sync()
    first.sync(plan={first.member_id: b"1", second.member_id: b"2"})
    waiting.answer()
    second.join("as it was")
    first.heartbeat("the follower joined as it was")
    second.protocols = [("range", SUBSCRIPTION + b"x")]
    asked = second.ask_to_join("changed")
    asked.is_parked()
    first.heartbeat("the follower has changed")
    first.join("too")
    second.joined(asked)


@script
def a_new_generation_while_syncing(world: World) -> None:
    """A third one comes while a follower waits for the plan."""
    group = world.group()
    first, second = stable(world, group), Member(world, group)
    asked = second.ask_to_join()
    asked.is_parked()
    first.join()
    second.joined(asked)
    waiting = second.ask_to_sync()
    waiting.is_parked()
    third = Member(world, group)
    joining = third.ask_to_join()
    waiting.answer()
    first.sync("too late", plan={first.member_id: b"1"})
    first.heartbeat()
    rejoining = second.ask_to_join("again")
    first.join("again")
    second.joined(rejoining)
    third.joined(joining)


@script
def sessions_end(world: World) -> None:
    """A member without a heartbeat within its session timeout is removed, and the other members rebalance."""
    group = world.group()
    member = stable(world, group, session_ms=1000)
    world.wait(0.6)
    member.heartbeat("in time")
    world.wait(2.5)
    describe(world, group, about="too late")
    member.heartbeat("too late")
    member.sync("too late")


@script
def rebalances_end(world: World) -> None:
    """A member that does not rejoin within the rebalance timeout is removed."""
    group = world.group()
    first = Member(world, group, session_ms=30_000)
    first.join(rebalance_timeout_ms=1500)
    first.sync(plan={first.member_id: b"plan"})
    second = Member(world, group)
    asked = second.ask_to_join(rebalance_timeout_ms=1500)
    asked.is_parked()
    if world.version(JoinGroupRequest) == 0:
        first.join("version 0 has no rebalance timeout")
    second.joined(asked)
    first.heartbeat("too late")
    first.join("too late")
    describe(world, group)


@script
def members_that_never_join(world: World) -> None:
    """A member id that was requested but never joined with does not delay a rebalance."""
    group = world.group()
    version = world.version(JoinGroupRequest, WITH_REQUIRED_IDS)
    pending = Member(world, group)
    pending.member_id = pending.line.ask(pending.say_join(), version, about="for an id").member_id
    # Not described here: a group in which nothing was ever written is Empty to Kafka once something else of the same
    # coordinator was committed after it, and Dead until then.
    pending.heartbeat("pending", generation_id=0)
    pending.sync("pending", generation_id=0)
    member = stable(world, group)
    describe(world, group, about="stable, one pending")
    joining = pending.line.send(pending.say_join(), version, about="at last")
    joining.is_parked()
    member.join("again")
    pending.joined(joining)


@script
def static_members(world: World) -> None:
    """The same instance comes back under a new member id; the old one is fenced."""
    group = world.group()
    first = stable(world, group, instance="i1")
    describe(world, group)
    again = Member(world, group, instance="i1")
    again.join("back")
    first.heartbeat("fenced")
    first.sync("fenced")
    first.join("fenced")
    first.leave("fenced")
    again.heartbeat()
    again.sync(plan={again.member_id: b"plan 2"})
    again.heartbeat(group_instance_id="i2", about="unknown instance")
    again.heartbeat(group_instance_id=None, about="no instance")
    again.leave("unknown instance", member_id="", instance="i2")
    again.leave("by instance alone", member_id="")
    describe(world, group, about="left")
    again.heartbeat("left")


@script
def static_members_that_change(world: World) -> None:
    """Back with another subscription: a rebalance; two instances, one comes back."""
    group = world.group()
    first = stable(world, group, instance="i1")
    second = Member(world, group, instance="i2")
    asked = second.ask_to_join()
    asked.is_parked()
    first.join("again")
    second.joined(asked)
    waiting = second.ask_to_sync()
    first.sync(plan={first.member_id: b"1", second.member_id: b"2"})
    waiting.answer()
    back = Member(world, group, instance="i2")
    back.join("back as it was")
    first.heartbeat("the follower came back as it was")
    back.sync("back")
    leader = Member(world, group, instance="i1")
    leader.join("the leader, back as it was")
    back.heartbeat("the leader came back as it was")
    leader.sync("the leader, back")
    changed = Member(world, group, instance="i2")
    changed.protocols = [("range", SUBSCRIPTION + b"x")]
    asked = changed.ask_to_join("back with another subscription")
    asked.is_parked()
    leader.heartbeat("the follower has changed")


@script
def leaving_together(world: World) -> None:
    """Several members in one LeaveGroup, known and unknown."""
    group = world.group()
    first = stable(world, group, instance="i1")
    version = world.version(LeaveGroupRequest, 3)
    members = [
        MemberIdentity(member_id="", group_instance_id="none"),
        MemberIdentity(member_id="nobody", group_instance_id=None),
        MemberIdentity(member_id="nobody", group_instance_id="i1"),
        MemberIdentity(member_id=first.member_id, group_instance_id="i1"),
        MemberIdentity(member_id="", group_instance_id="i1"),
    ]
    line = world.connect()
    line.ask(LeaveGroupRequest(group_id=group, members=members), version)
    line.ask(LeaveGroupRequest(group_id=group, members=[]), version, about="nobody")
    line.ask(LeaveGroupRequest(group_id=world.name("none"), members=members[:1]), version, about="no such group")
    line.ask(LeaveGroupRequest(group_id="", members=members[:1]), version, about="no name")


@script
def protocols_in_common(world: World) -> None:
    """The one that all know and most prefer."""
    group = world.group()
    first = Member(world, group)
    first.protocols = [("a", b"1"), ("b", b"2"), ("c", b"3")]
    first.join()
    first.sync(plan={first.member_id: b"plan"}, protocol_name="a")
    second = Member(world, group)
    second.protocols = [("c", b"4"), ("b", b"5")]
    asked = second.ask_to_join()
    asked.is_parked()
    first.join("again")
    second.joined(asked)
    third = Member(world, group)
    third.protocols = [("a", b"6")]
    third.join("with nothing in common")


@script
def listing_and_describing(world: World) -> None:
    """Groups in each state, by state and type; groups that are not."""
    stable(world, world.group("stable"))
    joined = Member(world, world.group("joined"))
    joined.join()
    left = stable(world, world.group("empty"))
    left.leave()
    other = Member(world, world.group("other"))
    other.protocol_type = "connect"
    other.join()
    listed(world)
    if world.version(ListGroupsRequest) >= 4:
        for states in (
            ("Stable",),
            ("stable",),
            ("Empty", "Stable"),
            ("Nonsense",),
            ("Dead",),
            ("CompletingRebalance",),
        ):
            listed(world, states=states)
    if world.version(ListGroupsRequest) >= 5:
        for types in (("classic",), ("Classic",), ("consumer",), ("nonsense",)):
            listed(world, types=types)
    describe(world, world.name("stable"), world.name("none"), world.name("other"))
    describe(world, "")
    describe(world)


@script
def deleting_groups(world: World) -> None:
    """Only what is empty can go."""
    stable(world, world.group("stable"))
    stable(world, world.group("empty")).leave()
    line = world.connect()
    names = [world.name(stem) for stem in ("stable", "empty", "none")]
    line.ask(DeleteGroupsRequest(groups_names=names))
    line.ask(DeleteGroupsRequest(groups_names=[names[1]]), about="again")
    line.ask(DeleteGroupsRequest(groups_names=[""]), about="no name")
    line.ask(DeleteGroupsRequest(groups_names=[]), about="nothing")
    line.ask(DeleteGroupsRequest(groups_names=[names[0], names[0]]), about="twice")
    listed(world)


@script
def finding_coordinators(world: World) -> None:
    """Of groups, of transactions, of nothing."""
    world.group(), world.transactional_id()
    line = world.connect()
    version = world.version(FindCoordinatorRequest)
    for kind in (0, 1, 2, 9) if version >= 1 else (0,):
        for key in ("some", ""):
            if version < 4:
                line.ask(FindCoordinatorRequest(key=key, key_type=kind), about=f"{kind} {key!r}")
            else:
                line.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=kind), about=f"{kind} {key!r}")
    if version >= 4:
        line.ask(FindCoordinatorRequest(coordinator_keys=["a", "b", "a"]))
        line.ask(FindCoordinatorRequest(coordinator_keys=[]))
