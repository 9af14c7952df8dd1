"""Coordinator records: a change applied in memory equals the change loaded from its record."""

from typing import Any

from thinconsumer_testing.broker.group import log_format, records
from thinconsumer_testing.broker.group.log_format import OffsetCommitValue
from thinconsumer_testing.broker.group.records import ReplayedState


def test_offset_record(world: Any) -> None:
    group = world.shard.new_group("g")
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=7)
    entry = records.offset_record(group, "t", 3, value)
    view = ReplayedState()
    entry.change(view, 11)
    assert view.offsets.get("g", "t", 3) == (value, 11)
    assert view.groups == {"g": group}
    assert log_format.decode_key(entry.record.key) == log_format.OffsetCommitKey(group="g", topic="t", partition=3)
    assert entry.record.value is not None
    assert log_format.decode_value(OffsetCommitValue, entry.record.value) == value


def test_offset_record_keeps_an_existing_group(world: Any) -> None:
    view = ReplayedState()
    first, second = world.shard.new_group("g"), world.shard.new_group("g")
    records.put_group(first)(view, 0)
    records.put_offset(second, "t", 0, OffsetCommitValue(offset=1))(view, 1)
    assert view.groups == {"g": first}


def test_tombstones(world: Any) -> None:
    view = ReplayedState()
    group = world.shard.new_group("g")
    records.put_offset(group, "t", 0, OffsetCommitValue(offset=1))(view, 1)
    for entry in (records.offset_tombstone("g", "t", 0), records.group_tombstone("g")):
        assert entry.record.value is None
        entry.change(view, 2)
        entry.change(view, 3)
    assert (view.groups, view.offsets.groups()) == ({}, [])


def test_removed_group_has_no_timers(world: Any) -> None:
    group = world.shard.new_group("g")
    group.schedule("join", 10, lambda: None)
    view = ReplayedState()
    records.put_group(group)(view, 0)
    records.remove_group("g")(view, 1)
    assert group.timers == {}


def test_end_of_transaction(world: Any) -> None:
    view = ReplayedState()
    records.put_offset(world.shard.new_group("g"), "t", 0, OffsetCommitValue(offset=4), 7)(view, 1)
    records.end_transaction(7, True)(view, 2)
    found = view.offsets.get("g", "t", 0)
    assert found is not None
    assert found.value.offset == 4


def test_group_record_with_members(world: Any) -> None:
    world.stable(2, protocols={"range": b"meta"})
    entry = records.group_record(world.group, dict.fromkeys(world.group.members, b"plan"))
    entry.change(ReplayedState(), 0)
    assert entry.record.value is not None
    value = log_format.decode_value(log_format.GroupMetadataValue, entry.record.value)
    assert (value.generation, value.protocol, value.leader) == (1, "range", world.group.leader_id)
    assert value.current_state_timestamp == world.group.state_timestamp_ms
    assert [(m.subscription, m.assignment) for m in value.members] == [(b"meta", b"plan")] * 2


def test_group_record_before_the_first_generation(world: Any) -> None:
    entry = records.empty_group_record(world.shard.new_group("g"))
    assert entry.record.value is not None
    value = log_format.decode_value(log_format.GroupMetadataValue, entry.record.value)
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("", 0, None, None)
    assert value.members == []
