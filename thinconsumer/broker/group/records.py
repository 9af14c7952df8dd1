"""What coordinators write, together with what it changes in memory; and the memory that it changes.

An :class:`Entry` is one record for the log and the same as a change of a :class:`View`, so that the two cannot drift
apart: what is written is what is remembered, and what is read back later is turned into the same changes. Follows
Kafka's ``GroupCoordinatorRecordHelpers`` and the ``replay`` methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...records.builder import NewRecord
from . import log_format
from .group import ClassicGroup
from .log_format import GroupMetadataValue, MemberMetadata
from .offsets import NO_PRODUCER_ID, CommittedOffset, OffsetStore


class ReplayedState:
    """Groups and offsets as of some point of the log."""

    def __init__(self) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()


#: Takes the view, and where the record stands in the log.
Replay = Callable[[ReplayedState, int], None]


class CoordinatorRecord(NamedTuple):
    """A record, and what it means."""

    record: NewRecord
    change: Replay


def replay_nothing(state: ReplayedState, offset: int) -> None:
    """For groups, whose members live in memory: the record is for the coordinator after this one."""


def put_group(group: ClassicGroup) -> Replay:
    """Let a group exist."""

    def change(state: ReplayedState, offset: int) -> None:
        state.groups[group.group_id] = group

    return change


def remove_group(group_id: str) -> Replay:
    """Let a group exist no more."""

    def change(state: ReplayedState, offset: int) -> None:
        group = state.groups.pop(group_id, None)
        if group is not None:
            group.cancel_all()

    return change


def put_offset(
    group: ClassicGroup, topic: str, partition: int, committed: CommittedOffset, producer_id: int = NO_PRODUCER_ID
) -> Replay:
    """Commit an offset, perhaps in a transaction; a group that only has offsets comes into being by that."""

    def change(state: ReplayedState, offset: int) -> None:
        state.groups.setdefault(group.group_id, group)
        placed = committed._replace(record_offset=offset)
        state.offsets.put(group.group_id, topic, partition, placed, producer_id)

    return change


def remove_offset(group_id: str, topic: str, partition: int) -> Replay:
    """Forget an offset."""

    def change(state: ReplayedState, offset: int) -> None:
        state.offsets.remove(group_id, topic, partition)

    return change


def end_transaction(producer_id: int, commit: bool) -> Replay:
    """Let a transaction's offsets count, or forget them."""

    def change(state: ReplayedState, offset: int) -> None:
        state.offsets.end_transaction(producer_id, commit)

    return change


def offset_record(
    group: ClassicGroup, topic: str, partition: int, committed: CommittedOffset, producer_id: int = NO_PRODUCER_ID
) -> CoordinatorRecord:
    """Return what commits an offset."""
    return CoordinatorRecord(
        NewRecord(
            log_format.offset_value(committed.to_value()), log_format.offset_key(group.group_id, topic, partition)
        ),
        put_offset(group, topic, partition, committed, producer_id),
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return what forgets an offset."""
    return CoordinatorRecord(
        NewRecord(None, log_format.offset_key(group_id, topic, partition)), remove_offset(group_id, topic, partition)
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return what forgets a group."""
    return CoordinatorRecord(NewRecord(None, log_format.group_key(group_id)), remove_group(group_id))


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Return what says that there is a group, before it has had any generation."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=_timestamp(group.state_timestamp_ms))
    return CoordinatorRecord(
        NewRecord(log_format.group_value(value), log_format.group_key(group.group_id)), replay_nothing
    )


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Return what says who is in a group and what everybody was given."""
    name = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=name,
        leader=group.leader_id,
        current_state_timestamp=_timestamp(group.state_timestamp_ms),
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
    return CoordinatorRecord(
        NewRecord(log_format.group_value(value), log_format.group_key(group.group_id)), replay_nothing
    )


def _timestamp(state_timestamp_ms: int | None) -> int:
    return -1 if state_timestamp_ms is None else state_timestamp_ms
