"""The coordinator's log records, each with the state change that replays it; and the state itself.

A :class:`CoordinatorRecord` pairs a record with its change of a :class:`ReplayedState`, so that the log and memory
cannot differ: an append applies the change that loading the record would apply. The records of the generations of
classic groups are the exception (:func:`replay_nothing`). Follows Kafka's ``GroupCoordinatorRecordHelpers`` and the
``replay`` methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from thinconsumer.records.builder import NewRecord

from . import log_format
from .consumer.group import ConsumerGroup
from .group import ClassicGroup
from .log_format import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from .offsets import NO_PRODUCER_ID, CommittedOffset, OffsetStore


class ReplayedState:
    """The groups and committed offsets that follow from the log's records up to some offset."""

    def __init__(self) -> None:
        self.groups: dict[str, ClassicGroup | ConsumerGroup] = {}
        self.offsets = OffsetStore()

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group with this id, None if there is none, or if it is a consumer group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group with this id, None if there is none, or if it is a classic group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None


#: Applies a record to the state; the second argument is the record's offset, -1 if the change does not need it.
Replay = Callable[[ReplayedState, int], None]


class CoordinatorRecord(NamedTuple):
    """A record, and the state change that replays it."""

    record: NewRecord
    change: Replay


def replay_nothing(state: ReplayedState, offset: int) -> None:
    """Do nothing: the coordinator that writes a classic group's record has the group in memory already. Only the next
    coordinator loads the group from the record.
    """


def put_group(group: ClassicGroup) -> Replay:
    def change(state: ReplayedState, offset: int) -> None:
        state.groups[group.group_id] = group

    return change


def remove_group(group_id: str) -> Replay:
    """Return the state change that removes a classic group."""

    def change(state: ReplayedState, offset: int) -> None:
        group = state.classic_group(group_id)
        if group is not None:
            del state.groups[group_id]
            group.timers.cancel_all()

    return change


def put_offset(
    group: ClassicGroup | ConsumerGroup,
    topic: str,
    partition: int,
    value: OffsetCommitValue,
    producer_id: int = NO_PRODUCER_ID,
) -> Replay:
    """Return the state change that commits an offset. If ``group`` is a classic group, and the state has no group with
    this id, the change adds it. With a producer id the offset stays pending until the producer's transaction ends.
    """

    def change(state: ReplayedState, offset: int) -> None:
        if isinstance(group, ClassicGroup):
            state.groups.setdefault(group.group_id, group)
        state.offsets.put(group.group_id, topic, partition, CommittedOffset(value, offset), producer_id)

    return change


def remove_offset(group_id: str, topic: str, partition: int) -> Replay:
    return lambda state, _: state.offsets.remove(group_id, topic, partition)


def end_transaction(producer_id: int, commit: bool) -> Replay:
    """Return the state change that commits or discards the pending offsets of a producer's transaction."""
    return lambda state, _: state.offsets.end_transaction(producer_id, commit)


def offset_record(
    group: ClassicGroup | ConsumerGroup,
    topic: str,
    partition: int,
    value: OffsetCommitValue,
    producer_id: int = NO_PRODUCER_ID,
) -> CoordinatorRecord:
    key = log_format.offset_key(group.group_id, topic, partition)
    change = put_offset(group, topic, partition, value, producer_id)
    return CoordinatorRecord(NewRecord(log_format.offset_value(value), key), change)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    key = log_format.offset_key(group_id, topic, partition)
    return CoordinatorRecord(NewRecord(None, key), remove_offset(group_id, topic, partition))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(NewRecord(None, log_format.group_key(group_id)), remove_group(group_id))


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Return the record of a new group, before its first generation."""
    return _group_record(group, GroupMetadataValue(protocol=None, leader=None))


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Return the record of a group's generation: its members with their assignments."""
    name = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=name,
        leader=group.leader_id,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(name) if name is not None else b"",
                assignment=assignments[member.member_id],
            )
            for member in group.members.values()
        ],
    )
    return _group_record(group, value)


def _group_record(group: ClassicGroup, value: GroupMetadataValue) -> CoordinatorRecord:
    value.current_state_timestamp = -1 if group.state_timestamp_ms is None else group.state_timestamp_ms
    record = NewRecord(
        log_format.versioned(value, log_format.GROUP_VALUE_VERSION), log_format.group_key(group.group_id)
    )
    return CoordinatorRecord(record, replay_nothing)
