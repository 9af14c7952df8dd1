"""Requests of the classic protocol to a consumer group."""

from __future__ import annotations

from typing import Any

from thinconsumer.wire.error_codes import Code
from thinconsumer_testing.broker.group.group import ClassicGroup

GROUP = "billing"


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(new_member: Any, world: Any) -> None:
    member = new_member()
    member.join()
    member.leave()
    world.commit(offset=8)
    assert world.join("unknown").answer.error_code == Code.UNKNOWN_MEMBER_ID
    assert world.shard.latest.consumer_group(GROUP) is not None
    (seat,) = world.stable(1)
    assert isinstance(world.group, ClassicGroup)
    assert world.offset() == 8
    world.crash()
    assert isinstance(world.group, ClassicGroup)
    assert world.heartbeat(seat).answer == 0


def test_the_group_stays_if_the_log_rejects_its_removal(new_member: Any, world: Any) -> None:
    member = new_member()
    member.join()
    member.leave()
    world.replica.codes = iter([Code.NOT_ENOUGH_REPLICAS])
    assert world.join().answer.error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert world.shard.latest.consumer_group(GROUP) is not None


def test_members_of_a_consumer_group_are_unknown_to_classic_requests(new_member: Any, world: Any, seat_of: Any) -> None:
    new_member().join()
    seat = seat_of("m1", 1)
    assert world.sync(seat).answer.error_code == Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(seat).answer == Code.UNKNOWN_MEMBER_ID
    assert world.join(protocol_type="connect").answer.error_code == Code.INCONSISTENT_GROUP_PROTOCOL
