"""Loading a shard from its log."""

import logging
from typing import Any

import pytest

from thinconsumer.records.builder import NewRecord
from thinconsumer_testing.broker.group import log_format
from thinconsumer_testing.broker.group.states import GroupState
from thinconsumer_testing.broker.log.stored import StoredBatch


def write(world: Any, key: bytes | None, value: bytes | None) -> None:
    """Append a record that the coordinator has not written."""
    world.replica.append_records([NewRecord(value, key)], lambda code: None)


def test_stable_group_is_loaded_completely(world: Any) -> None:
    leader, follower = world.stable(2, protocols={"range": b"meta", "sticky": b"more"})
    before = world.group
    world.crash()
    after = world.group
    assert after is not before
    assert (after.state, after.generation, after.leader_id) == (GroupState.STABLE, 1, leader.member_id)
    assert (after.protocol_type, after.protocol_name) == ("consumer", "range")
    assert after.state_timestamp_ms is not None
    member = after.members[follower.member_id]
    assert member.protocols == (("range", b"meta"),)  # metadata of other protocols is not written
    assert member.assignment == follower.member_id.encode()
    assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 30_000)


def test_empty_group_is_loaded(world: Any) -> None:
    (leader,) = world.stable(1)
    world.leave(leader.member_id)
    world.crash()
    assert (world.group.state, world.group.generation, world.group.protocol_type) == (GroupState.EMPTY, 2, "consumer")


def test_latest_offset_of_each_partition_is_loaded(world: Any) -> None:
    for offset in (3, 9, 4):
        world.commit(offset=offset, metadata="m", epoch=2)
    world.crash()
    partition = world.fetch(0).answer[1][0].partitions[0]
    assert (partition.committed_offset, partition.metadata, partition.committed_leader_epoch) == (4, "m", 2)


def test_ongoing_transactions_are_loaded(world: Any) -> None:
    world.txn_commit(7, 3)
    world.crash()
    assert world.fetch(0, require_stable=True).answer[1][0].partitions[0].error_code == 88
    world.marker(7)
    assert world.offset() == 3


@pytest.mark.parametrize(("commit", "offset"), [(True, 3), (False, -1)])
def test_completed_transactions_are_loaded(world: Any, commit: bool, offset: int) -> None:
    world.txn_commit(7, 3)
    world.marker(7, commit=commit)
    world.crash()
    assert world.offset() == offset
    assert not world.shard.latest.offsets.has_open_transactions("billing")


def test_old_member_records_use_the_session_timeout_as_rebalance_timeout(world: Any) -> None:
    member = log_format.MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=9_000)
    value = log_format.GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    write(world, log_format.group_key("billing"), b"\0\0" + value.encode(0))
    world.crash()
    assert world.group.members["m"].rebalance_timeout_ms == 9_000
    assert world.group.state_timestamp_ms is None


#: A group with two members of one instance.
TWINS = log_format.GroupMetadataValue(
    protocol_type="consumer",
    protocol="range",
    leader="m",
    members=[log_format.MemberMetadata(member_id=name, group_instance_id="i") for name in ("m", "n")],
)
NONSENSE: list[tuple[bytes | None, bytes | None]] = [
    (None, b"no key"),
    (b"", b"an empty key"),
    (b"\0\1\xff", b"a broken key"),
    (log_format.offset_key("billing", "orders", 0), b"\0\x63"),
    (log_format.group_key("billing"), b"\0\3 broken"),
    (log_format.group_key("billing"), log_format.versioned(TWINS, 3)),
    (b"\0\3\0\1g", b"of a consumer group, in an unknown version"),
    (b"\0\x0a\0\1g", b"of a group of another protocol"),
]


@pytest.mark.parametrize("record", NONSENSE)
def test_invalid_records_are_skipped_with_a_warning(
    world: Any, record: tuple[bytes | None, bytes | None], caplog: pytest.LogCaptureFixture
) -> None:
    """An invalid group record must not make its whole partition unavailable."""
    world.commit(offset=1)
    write(world, *record)
    world.commit(offset=2, partition=1)
    with caplog.at_level(logging.WARNING):
        world.crash()
    assert (world.offset(0), world.offset(1)) == (1, 2)
    assert ("skipping" in caplog.text) is (record != NONSENSE[-1])


def test_invalid_batch_is_skipped(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    world.commit(offset=1)
    log = world.replica.log
    broken = bytearray(next(log.batches_from(0)).data)
    broken[:8] = log.end_offset.to_bytes(8, "big")
    broken[-3:] = b"\x7f\x7f\x7f"
    log.append_stored(StoredBatch.of(bytes(broken)))
    with caplog.at_level(logging.WARNING):
        world.crash()
    assert world.offset() == 1
