"""Reading the log back: all that was written, and nothing that was not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from thinconsumer.broker.group import log_format
from thinconsumer.broker.group.states import GroupState
from thinconsumer.records.builder import NewRecord


def write(world: Any, key: bytes | None, value: bytes | None) -> None:
    """Put a record into the log behind the coordinator's back."""
    world.replica.append_records([NewRecord(value, key)], lambda code: None)


def test_a_stable_group_comes_back_whole(world: Any) -> None:
    leader, follower = world.stable(2, protocols={"range": b"meta", "sticky": b"more"})
    before = world.group
    world.crash()
    after = world.group
    assert after is not before
    assert (after.state, after.generation, after.leader_id) == (GroupState.STABLE, 1, leader.member_id)
    assert (after.protocol_type, after.protocol_name) == ("consumer", "range")
    assert after.state_timestamp_ms is not None
    member = after.members[follower.member_id]
    assert member.protocols == (("range", b"meta"),)  # what it said under others was not written
    assert member.assignment == follower.member_id.encode()
    assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 30_000)


def test_static_members_come_back_as_such(world: Any) -> None:
    world.settle([world.seat(a) for a in [world.join(instance="i")] if world.advance(0) is None])
    world.crash()
    assert list(world.group.static_members) == ["i"]


def test_an_empty_group_comes_back_empty(world: Any) -> None:
    (leader,) = world.stable(1)
    world.leave(leader.member_id)
    world.crash()
    assert (world.group.state, world.group.generation, world.group.protocol_type) == (GroupState.EMPTY, 2, "consumer")


def test_offsets_come_back_the_latest_of_each_partition(world: Any) -> None:
    for offset in (3, 9, 4):
        world.commit(offset=offset, metadata="m", epoch=2)
    world.crash()
    partition = world.fetch(0).answer[1][0].partitions[0]
    assert (partition.committed_offset, partition.metadata, partition.committed_leader_epoch) == (4, "m", 2)


def test_transactions_come_back_open(world: Any) -> None:
    world.txn_commit(7, 3)
    world.crash()
    assert world.fetch(0, require_stable=True).answer[1][0].partitions[0].error_code == 88
    world.marker(7)
    assert world.offset() == 3


@pytest.mark.parametrize(("commit", "offset"), [(True, 3), (False, -1)])
def test_transactions_come_back_ended(world: Any, commit: bool, offset: int) -> None:
    world.txn_commit(7, 3)
    world.marker(7, commit=commit)
    world.crash()
    assert world.offset() == offset
    assert not world.shard.latest.offsets.has_open_transactions("billing")


def test_a_member_of_old_has_its_session_timeout_for_rebalancing(world: Any) -> None:
    member = log_format.MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=9_000)
    value = log_format.GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    write(world, log_format.group_key("billing"), b"\0\0" + value.encode(0))
    world.crash()
    assert world.group.members["m"].rebalance_timeout_ms == 9_000
    assert world.group.state_timestamp_ms is None


NONSENSE: list[tuple[bytes | None, bytes | None]] = [
    (None, b"no key"),
    (b"", b"an empty key"),
    (b"\0\1\xff", b"a broken key"),
    (log_format.offset_key("billing", "orders", 0), b"\0\x63"),
    (log_format.group_key("billing"), b"\0\3 broken"),
    (b"\0\3\0\1g", b"of a group of another protocol"),
]


@pytest.mark.parametrize("record", NONSENSE)
def test_what_makes_no_sense_is_left_out_and_said(
    world: Any, record: tuple[bytes | None, bytes | None], caplog: pytest.LogCaptureFixture
) -> None:
    """One group of nonsense would take all that share its partition along."""
    world.commit(offset=1)
    write(world, *record)
    world.commit(offset=2, partition=1)
    with caplog.at_level(logging.WARNING):
        world.crash()
    assert (world.offset(0), world.offset(1)) == (1, 2)
    assert ("skipping" in caplog.text) is (record != NONSENSE[-1])


def test_a_group_whose_members_have_nothing_in_common_is_left_out(world: Any) -> None:
    members = [
        log_format.MemberMetadata(member_id=name, group_instance_id="i", client_id="c", client_host="/h")
        for name in ("m", "n")
    ]
    value = log_format.GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=members
    )
    write(world, log_format.group_key("billing"), log_format.group_value(value))
    world.crash()
    assert world.shard.latest.groups == {}


def test_a_broken_batch_is_left_out(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    world.commit(offset=1)
    broken = bytearray(world.replica.log.batches[-1])
    broken[-3:] = b"\x7f\x7f\x7f"
    world.replica.log.batches.append(bytes(broken))
    with caplog.at_level(logging.WARNING):
        world.crash()
    assert world.offset() == 1
