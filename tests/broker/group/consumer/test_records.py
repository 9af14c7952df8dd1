"""Records of consumer groups: a change applied in memory equals the change loaded from its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from thinconsumer_testing.broker.group.consumer import log_format as f
from thinconsumer_testing.broker.group.consumer import records
from thinconsumer_testing.broker.group.consumer.group import ConsumerGroup, ResolvedRegex
from thinconsumer_testing.broker.group.consumer.member import ClassicMetadata, ConsumerGroupMember
from thinconsumer_testing.broker.group.consumer.states import AssignmentState
from thinconsumer_testing.broker.group.log_format import decode_key, versioned
from thinconsumer_testing.broker.group.records import CoordinatorRecord, ReplayedState, put_group

A = b"a" * 16
MEMBER = ConsumerGroupMember(
    "m",
    member_epoch=5,
    previous_member_epoch=4,
    state=AssignmentState.UNREVOKED_PARTITIONS,
    instance_id="i",
    rack_id="r",
    rebalance_timeout_ms=9,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=frozenset({"b", "a"}),
    subscribed_topic_regex="x.*",
    server_assignor="range",
    assigned={A: {0: 3, 2: 5}},
    pending_revocation={A: {1: 4}},
    classic=ClassicMetadata(7, (("range", b"meta"), ("roundrobin", b""))),
)
PUTS: list[CoordinatorRecord] = [
    records.epoch_record("g", 6, 77),
    records.member_record("g", MEMBER),
    records.target_record("g", "m", {A: frozenset({0, 2})}),
    records.target_epoch_record("g", 6, 9),
    records.current_record("g", MEMBER),
    records.regex_record("g", "x.*", ResolvedRegex(frozenset({"xa"}), 3, 4)),
]


def applied(entries: list[CoordinatorRecord]) -> ReplayedState:
    state = ReplayedState()
    for offset, entry in enumerate(entries):
        entry.change(state, offset)
    return state


def loaded(entries: list[CoordinatorRecord]) -> ReplayedState:
    state = ReplayedState()
    for offset, entry in enumerate(entries):
        key = decode_key(entry.record.key)
        assert key is not None
        value = entry.record.value
        records.replayed(key, None if value is None else bytes(value))(state, offset)
    return state


def facts(state: ReplayedState) -> dict[str, Any]:
    return {name: vars(group) for name, group in state.groups.items()}


@pytest.mark.parametrize("replay", [applied, loaded])
def test_a_group_follows_from_its_records(replay: Callable[[list[CoordinatorRecord]], ReplayedState]) -> None:
    group = replay(PUTS).consumer_group("g")
    assert group is not None
    assert (group.epoch, group.assignment_epoch, group.metadata_hash) == (6, 6, 77)
    assert group.assignment_timestamp_ms == 9
    assert group.members == {"m": MEMBER}
    assert group.targets == {"m": {A: frozenset({0, 2})}}
    assert group.resolved == {"x.*": ResolvedRegex(frozenset({"xa"}), 3, 4)}


def test_loading_equals_applying_after_every_record() -> None:
    group = applied(PUTS).consumer_group("g")
    assert group is not None
    history = [*PUTS, *records.removal_of_member("g", "m"), *records.removal_of_group(group)]
    for count in range(len(history) + 1):
        assert facts(applied(history[:count])) == facts(loaded(history[:count]))


def test_the_removal_of_a_group_leaves_nothing() -> None:
    group = applied(PUTS).consumer_group("g")
    assert group is not None
    history = [*PUTS, *records.removal_of_group(group)]
    history += [*records.removal_of_member("g", "m"), *records.removal_of_group(group)]
    assert applied(history).groups == loaded(history).groups == {}
    keys = {entry.record.key for entry in history if entry.record.value is not None}
    assert keys <= {entry.record.key for entry in history if entry.record.value is None}


def test_records_replace_a_classic_group_that_only_has_offsets(world: Any) -> None:
    state = ReplayedState()
    put_group(world.shard.new_group("g"))(state, 0)
    for entry in removal_and_puts():
        entry.change(state, 1)
    assert isinstance(state.groups["g"], ConsumerGroup)


def removal_and_puts() -> list[CoordinatorRecord]:
    return [*records.removal_of_group(ConsumerGroup("g")), *PUTS]


def test_tombstones_do_not_touch_a_classic_group(world: Any) -> None:
    state = ReplayedState()
    group = world.shard.new_group("g")
    put_group(group)(state, 0)
    for entry in [*records.removal_of_member("g", "m"), *records.removal_of_group(ConsumerGroup("g"))]:
        entry.change(state, 1)
    assert state.groups == {"g": group}


def test_partitions_without_assignment_epochs_get_the_members_epoch() -> None:
    """Brokers before Kafka 4.3 have written no assignment epochs."""
    row = f.OwnedTopicPartitions(topic_id=A, partitions=[0, 1])
    value = f.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=8, assigned_partitions=[row])
    key = f.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    state = ReplayedState()
    records.replayed(key, versioned(value, 0))(state, 0)
    group = state.consumer_group("g")
    assert group is not None
    assert group.members["m"].assigned == {A: {0: 8, 1: 8}}


def test_topic_metadata_of_older_brokers_is_removed_with_the_next_epoch(new_member: Any, world: Any) -> None:
    new_member().join()
    key = versioned(f.ConsumerGroupPartitionMetadataKey(group_id="billing"), f.PARTITION_METADATA)
    replay = records.replayed(f.ConsumerGroupPartitionMetadataKey(group_id="billing"), b"\0\0\1\0")
    replay(world.shard.latest, 0)
    assert world.group.has_partition_metadata
    new_member("m2").join()
    assert not world.group.has_partition_metadata
    tail = world.logs[0].read_batches(0, world.logs[0].end_offset)
    assert key in [row.key for batch in tail for row in batch.decode("", -1) if row.value is None]
