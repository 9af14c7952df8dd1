"""Members of the classic protocol in a consumer group: each request, and each step of a reconciliation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import decode_assignment, encode_subscription
from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.group import ClassicGroup

GROUP, TOPIC = "billing", "orders"


class ClassicMember:
    """A member of the classic protocol that owns what it gets, and revokes before it rejoins."""

    def __init__(self, world: Any, seat_of: Any, instance: str | None = None) -> None:
        self.world = world
        self.seat_of = seat_of
        self.instance = instance
        self.seat = seat_of("", -1)
        self.owned: list[int] = []

    def join(self, owned: Collection[int] | None = None, **options: Any) -> Any:
        """Join with the partitions that it owns; take over the generation."""
        kept = [TopicPartition(TOPIC, n) for n in (self.owned if owned is None else owned)]
        metadata = encode_subscription([TOPIC], owned=kept)
        fields = {"protocols": {"range": metadata, "roundrobin": metadata}, "instance": self.instance, **options}
        answer = self.world.join(self.seat.member_id, **fields).answer
        if answer.error_code == Code.MEMBER_ID_REQUIRED:
            answer = self.world.join(answer.member_id, **fields).answer
        if not answer.error_code:
            self.seat = self.seat_of(answer.member_id, answer.generation_id)
        return answer

    def sync(self, **options: Any) -> Any:
        """Send SyncGroup, and own what the response says."""
        answer = self.world.sync(self.seat, instance=self.instance, **options).answer
        if not answer.error_code:
            assigned = decode_assignment(answer.assignment).assigned_partitions
            self.owned = [index for row in assigned for index in row.partitions]
        return answer

    def beat(self) -> int:
        """Send a heartbeat; rejoin if the response says so, first without what is to be revoked."""
        code = int(self.world.heartbeat(self.seat, instance=self.instance).code)
        if code == Code.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()
        return code


@pytest.fixture
def classic(world: Any, seat_of: Any) -> Any:
    """``classic(instance)`` returns a member that has not joined."""
    return lambda instance=None: ClassicMember(world, seat_of, instance)


@pytest.fixture
def joined(new_member: Any, classic: Any) -> Any:
    """``joined(instance)`` returns a member that has joined, as another one, m1, has with the other protocol."""

    def make(instance: str | None = None) -> Any:
        new_member("m1").join()
        member = classic(instance)
        member.join()
        return member

    return make


def settle(*members: Any, rounds: int = 8) -> None:
    for _ in range(rounds):
        for member in members:
            member.beat()


def test_a_member_revokes_when_another_one_joins(new_member: Any, classic: Any, world: Any) -> None:
    modern, first, second = new_member("m1"), classic(), classic()
    modern.join()
    for member in (first, second):
        member.join()
        member.sync()
        settle(modern, first, *([second] if member is second else []))
    assert len(modern.partitions) == len(first.owned) == len(second.owned) == 1
    modern.leave()
    assert isinstance(world.group, ClassicGroup)


def test_sync_in_an_older_epoch_tells_to_rejoin(new_member: Any, joined: Any) -> None:
    member = joined()
    new_member("m2").join()
    assert member.sync().error_code == Code.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("request_name", ["sync", "heartbeat"])
def test_requests_with_wrong_identities(request_name: str, joined: Any, world: Any, seat_of: Any) -> None:
    member = joined("i1")
    ask = getattr(world, request_name)
    good = member.seat
    assert ask(seat_of("x", good.generation)).code == Code.UNKNOWN_MEMBER_ID
    assert ask(seat_of("m1", 1)).code == Code.UNKNOWN_MEMBER_ID, "it uses the other protocol"
    assert ask(seat_of(good.member_id, good.generation + 1)).code == Code.ILLEGAL_GENERATION
    assert ask(seat_of("x", good.generation), instance="i1").code == Code.FENCED_INSTANCE_ID
    assert ask(good, instance="i2").code == Code.UNKNOWN_MEMBER_ID


def test_sync_with_another_protocol(joined: Any) -> None:
    member = joined()
    assert member.sync(protocol="roundrobin", protocol_type="consumer").error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync(protocol="range", protocol_type="x").error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync(protocol="range", protocol_type="consumer").error_code == 0


def test_joins_that_are_rejected(new_world: Any, member_of: Any, seat_of: Any) -> None:
    world = new_world(group_consumer_max_size=2)
    member_of(world, "m1").join()
    first, second = ClassicMember(world, seat_of), ClassicMember(world, seat_of)
    assert first.join(protocol_type="connect").error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert first.join(protocols={"range": b"\xff"}).error_code == Code.UNKNOWN_SERVER_ERROR
    assert first.join().error_code == 0
    assert second.join().error_code == Code.GROUP_MAX_SIZE_REACHED


def test_classic_members_need_a_protocol_in_common(new_member: Any, classic: Any, world: Any) -> None:
    new_member("m1").join()
    classic().join()
    data = encode_subscription([TOPIC])
    assert classic().join(protocols={"sticky": data}).error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert classic().join(protocols={"sticky": data, "roundrobin": data}).error_code == 0


@pytest.mark.parametrize("silent", ["heartbeat", "sync", "join"])
def test_silent_members_are_removed(silent: str, new_member: Any, classic: Any, world: Any) -> None:
    """Its session, SyncGroup and JoinGroup are timed: 10 s, 30 s and 30 s here."""
    modern, member = new_member("m1"), classic()
    modern.join()
    member.join()
    if silent != "sync":
        member.sync()
    if silent == "join":
        new_member("m2").join()
    for _ in range(35):
        world.advance(1)
        modern.beat()
        if silent != "heartbeat":
            world.heartbeat(member.seat)
    assert member.seat.member_id not in world.group.members


def test_a_restarted_static_member_takes_its_place_at_once(new_member: Any, classic: Any, world: Any) -> None:
    modern, member, again = new_member("m1"), classic("i1"), classic("i1")
    modern.join()
    member.join()
    member.sync()
    settle(modern, member)
    epoch = world.group.epoch
    assert again.join().error_code == 0
    again.sync()
    assert (again.owned, world.group.epoch) == (member.owned, epoch)
    assert world.heartbeat(member.seat, instance="i1").code == Code.FENCED_INSTANCE_ID


def test_members_of_both_protocols_are_removed_with_leave_group(new_member: Any, classic: Any, world: Any) -> None:
    new_member("m1").join()
    new_member("m2", "i2").join()
    new_member("m3").join()
    member = classic("i4")
    member.join()
    answers = world.leave("m1", ("", "i2"), ("x", "i4"), ("", "i5"), "m9").answer.members
    codes = [one.error_code for one in answers]
    assert codes == [0, 0, Code.FENCED_INSTANCE_ID, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID]
    assert set(world.group.members) == {"m3", member.seat.member_id}


def test_commits_of_classic_members(joined: Any, world: Any, seat_of: Any) -> None:
    member = joined()
    assert world.commit(member.seat, 3, version=2).code == 0
    wrong = seat_of(member.seat.member_id, member.seat.generation + 1)
    assert world.commit(wrong, 3).code == Code.ILLEGAL_GENERATION


def test_the_next_coordinator_knows_classic_members(new_member: Any, classic: Any, world: Any) -> None:
    modern, member = new_member("m1"), classic()
    modern.join()
    member.join()
    member.sync()
    settle(modern, member)
    before = world.group.members
    world.crash()
    assert world.group.members == before
    assert world.heartbeat(member.seat).code == 0
    world.advance(10.1)
    assert list(world.group.members) == ["m1"]
