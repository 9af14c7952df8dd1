"""Log records of consumer groups, each with the change that replays it.

A change finds its group by id in the state that it is applied to: the latest and the committed state have groups of
their own. Follows Kafka's ``GroupCoordinatorRecordHelpers`` and the ``replay`` methods of ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from thinconsumer.records.builder import NewRecord
from thinconsumer.wire import Message

from .. import log_format as classic_format
from ..log_format import decode_value
from ..records import CoordinatorRecord, Replay, ReplayedState
from . import log_format as f
from .group import FIRST_EPOCH, ConsumerGroup, ResolvedRegex
from .member import LEAVE_EPOCH, ClassicMetadata, ConsumerGroupMember, Owned, Target, target_of
from .states import AssignmentState

ChangeGroup = Callable[[ConsumerGroup], None]

#: The state after the tombstone of the epoch of a target assignment.
_NO_TARGET = f.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=FIRST_EPOCH)


def _in_group(group_id: str, change: ChangeGroup, *, creates: bool) -> Replay:
    """Return the state change that applies ``change`` to the group, and creates the group first if ``creates``."""

    def replay(state: ReplayedState, offset: int) -> None:
        group = state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if not creates:
                return  # the tombstone of a group that is not there any more
            # A classic group in its place only holds committed offsets, or its tombstone was compacted away.
            if group is not None:
                group.cancel_all()
            group = state.groups[group_id] = ConsumerGroup(group_id)
        change(group)

    return replay


def _record(key: Message, value: Message | None, change: ChangeGroup) -> CoordinatorRecord:
    group_id = cast(f.ConsumerGroupMetadataKey, key).group_id
    encoded = None if value is None else classic_format.versioned(value, f.VALUE_VERSION)
    record = NewRecord(encoded, classic_format.versioned(key, key.VERSIONS[0]))
    return CoordinatorRecord(record, _in_group(group_id, change, creates=value is not None))


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of a group's epoch."""
    value = f.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(f.ConsumerGroupMetadataKey(group_id=group_id), value, _set_epoch(value))


def _set_epoch(value: f.ConsumerGroupMetadataValue) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash

    return change


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a group; those of its members and of its target assignment come before it."""
    key = f.ConsumerGroupMetadataKey(group_id=group_id)
    record = NewRecord(None, classic_format.versioned(key, f.GROUP_EPOCH))
    return CoordinatorRecord(record, remove_group(group_id))


def remove_group(group_id: str) -> Replay:
    """Return the state change that removes a consumer group."""

    def replay(state: ReplayedState, offset: int) -> None:
        if isinstance(state.groups.get(group_id), ConsumerGroup):
            del state.groups[group_id]

    return replay


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the topic metadata that Kafka kept before 4.1."""
    return _record(f.ConsumerGroupPartitionMetadataKey(group_id=group_id), None, _set_partition_metadata(False))


def _set_partition_metadata(exists: bool) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.has_partition_metadata = exists

    return change


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Return the record of a member's subscription."""
    classic = member.classic
    value = f.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
    )
    if classic is not None:
        value.classic_member_metadata = f.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[f.ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
        )
    key = f.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value, _set_member(member.member_id, value))


def _set_member(member_id: str, value: f.ConsumerGroupMemberMetadataValue) -> ChangeGroup:
    found = value.classic_member_metadata
    classic = None
    if found is not None:
        protocols = tuple((one.name, bytes(one.metadata)) for one in found.supported_protocols)
        classic = ClassicMetadata(found.session_timeout_ms, protocols)

    def change(group: ConsumerGroup) -> None:
        group.put_member(
            replace(
                group.members.get(member_id) or ConsumerGroupMember(member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                subscribed_topic_names=frozenset(value.subscribed_topic_names),
                subscribed_topic_regex=value.subscribed_topic_regex or "",
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                server_assignor=value.server_assignor,
                classic=classic,
            )
        )

    return change


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Return the tombstone of a member's subscription, which removes the member."""
    key = f.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return _record(key, None, _remove_member(member_id))


def _remove_member(member_id: str) -> ChangeGroup:
    return lambda group: group.remove_member(member_id)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int = 0) -> CoordinatorRecord:
    """Return the record of the epoch of a group's target assignment, and of the time at which it was computed."""
    value = f.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(f.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value, _set_target_epoch(value))


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the epoch of a group's target assignment."""
    key = f.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return _record(key, None, _set_target_epoch(_NO_TARGET))


def _set_target_epoch(value: f.ConsumerGroupTargetAssignmentMetadataValue) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp_ms = value.assignment_timestamp

    return change


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = f.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            f.TargetTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in target.items()
        ]
    )
    key = f.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, value, _set_target(member_id, target))


def _set_target(member_id: str, target: Target) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.targets[member_id] = target

    return change


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Return the tombstone of a member's target assignment."""
    key = f.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, None, _remove_target(member_id))


def _remove_target(member_id: str) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.targets.pop(member_id, None)

    return change


def current_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Return the record of a member's epoch and of the partitions that it owns."""
    value = f.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=int(member.state),
        assigned_partitions=_written(member.assigned),
        partitions_pending_revocation=_written(member.pending_revocation),
    )
    key = f.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value, _set_current(member.member_id, value))


def _written(owned: Owned) -> list[f.OwnedTopicPartitions]:
    return [
        f.OwnedTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(indexes),
            assignment_epochs=[indexes[index] for index in sorted(indexes)],
        )
        for topic_id, indexes in owned.items()
    ]


def _read(written: list[f.OwnedTopicPartitions], epoch: int) -> Owned:
    """Return owned partitions of a record; older brokers have not written in which epoch each was assigned."""
    return {
        row.topic_id: dict(zip(row.partitions, row.assignment_epochs))
        if row.assignment_epochs is not None and len(row.assignment_epochs) == len(row.partitions)
        else dict.fromkeys(row.partitions, epoch)
        for row in written
    }


def _set_current(member_id: str, value: f.ConsumerGroupCurrentMemberAssignmentValue) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.put_member(
            replace(
                group.members.get(member_id) or ConsumerGroupMember(member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=AssignmentState.of(value.state),
                assigned=_read(value.assigned_partitions, value.member_epoch),
                pending_revocation=_read(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    return change


def current_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Return the tombstone of a member's current assignment: the member owns nothing any more."""
    key = f.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _record(key, None, _remove_current(member_id))


def _remove_current(member_id: str) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        member = group.members.get(member_id)
        if member is not None:
            group.put_member(
                replace(
                    member,
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned={},
                    pending_revocation={},
                )
            )

    return change


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Return the record of the topics that match a regular expression."""
    value = f.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    key = f.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return _record(key, value, _set_regex(regex, resolved))


def _set_regex(regex: str, resolved: ResolvedRegex) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.resolved[regex] = resolved

    return change


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Return the tombstone of the topics that match a regular expression."""
    key = f.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return _record(key, None, _remove_regex(regex))


def _remove_regex(regex: str) -> ChangeGroup:
    def change(group: ConsumerGroup) -> None:
        group.resolved.pop(regex, None)

    return change


def removal_of_member(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of everything that the log has about a member."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def removal_of_group(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the tombstones of everything that the log has about a group."""
    group_id, found = group.group_id, list(group.members)
    return [
        *(current_tombstone(group_id, member_id) for member_id in found),
        *(target_tombstone(group_id, member_id) for member_id in dict.fromkeys([*found, *group.targets])),
        target_epoch_tombstone(group_id),
        *(member_tombstone(group_id, member_id) for member_id in found),
        *(regex_tombstone(group_id, regex) for regex in group.resolved),
        partition_metadata_tombstone(group_id),
        group_tombstone(group_id),
    ]


def replayed(key: Message, data: bytes | None) -> Replay:
    """Return the state change that replays a record with a key of :mod:`.log_format`.

    Raises:
        KafkaProtocolError: The value is invalid.
    """
    group_id = cast(f.ConsumerGroupMetadataKey, key).group_id
    if data is not None:
        return _in_group(group_id, _put(key, data), creates=True)
    if isinstance(key, f.ConsumerGroupMetadataKey):
        return remove_group(group_id)
    return _in_group(group_id, _remove(key), creates=False)


def _put(key: Message, data: bytes) -> ChangeGroup:
    if isinstance(key, f.ConsumerGroupMetadataKey):
        return _set_epoch(decode_value(f.ConsumerGroupMetadataValue, data))
    if isinstance(key, f.ConsumerGroupMemberMetadataKey):
        return _set_member(key.member_id, decode_value(f.ConsumerGroupMemberMetadataValue, data))
    if isinstance(key, f.ConsumerGroupTargetAssignmentMetadataKey):
        return _set_target_epoch(decode_value(f.ConsumerGroupTargetAssignmentMetadataValue, data))
    if isinstance(key, f.ConsumerGroupTargetAssignmentMemberKey):
        return _set_target(key.member_id, _target(data))
    if isinstance(key, f.ConsumerGroupCurrentMemberAssignmentKey):
        return _set_current(key.member_id, decode_value(f.ConsumerGroupCurrentMemberAssignmentValue, data))
    if isinstance(key, f.ConsumerGroupRegularExpressionKey):
        return _set_regex(key.regular_expression, _resolved(data))
    return _set_partition_metadata(True)


def _remove(key: Message) -> ChangeGroup:
    if isinstance(key, f.ConsumerGroupMemberMetadataKey):
        return _remove_member(key.member_id)
    if isinstance(key, f.ConsumerGroupTargetAssignmentMetadataKey):
        return _set_target_epoch(_NO_TARGET)
    if isinstance(key, f.ConsumerGroupTargetAssignmentMemberKey):
        return _remove_target(key.member_id)
    if isinstance(key, f.ConsumerGroupCurrentMemberAssignmentKey):
        return _remove_current(key.member_id)
    if isinstance(key, f.ConsumerGroupRegularExpressionKey):
        return _remove_regex(key.regular_expression)
    return _set_partition_metadata(False)


def _target(data: bytes) -> Target:
    value = decode_value(f.ConsumerGroupTargetAssignmentMemberValue, data)
    return target_of((row.topic_id, row.partitions) for row in value.topic_partitions)


def _resolved(data: bytes) -> ResolvedRegex:
    value = decode_value(f.ConsumerGroupRegularExpressionValue, data)
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
