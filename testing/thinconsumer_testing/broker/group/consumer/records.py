"""Log records of consumer groups, each with the change that replays it.

A change finds its group by id in the state that it is applied to: the latest and the committed state have groups of
their own. Follows Kafka's ``GroupCoordinatorRecordHelpers`` and the ``replay`` methods of ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from thinconsumer.records.builder import NewRecord
from thinconsumer.wire import Message

from ..log_format import decode_value, versioned
from ..records import CoordinatorRecord, Replay, ReplayedState
from . import log_format as f
from .group import FIRST_EPOCH, ConsumerGroup, ResolvedRegex
from .member import LEAVE_EPOCH, ClassicMetadata, ConsumerGroupMember, Owned, Target, target_of
from .states import AssignmentState


class _Kind(NamedTuple):
    """One kind of record: the type of its value, and how a group changes by a value, and by a tombstone."""

    value: type[Message] | None  #: None: the value is not decoded, because its contents are not needed.
    put: Callable[[ConsumerGroup, Any, Any], None]
    remove: Callable[[ConsumerGroup, Any], None] | None  #: None: the tombstone removes the group.


def record(key: Message, value: Message | None = None) -> CoordinatorRecord:
    """Return the record with a key and a value of :mod:`.log_format`; without a value, the tombstone of the key."""
    encoded = None if value is None else versioned(value, f.VALUE_VERSION)
    return CoordinatorRecord(NewRecord(encoded, versioned(key, key.VERSIONS[0])), _change(key, value, encoded is None))


def replayed(key: Message, data: bytes | None) -> Replay:
    """Return the state change that replays a record with a key of :mod:`.log_format`.

    Raises:
        KafkaProtocolError: The value is invalid.
    """
    kind = _KINDS[type(key)].value
    return _change(key, None if data is None or kind is None else decode_value(kind, data), data is None)


def _change(key: Any, value: Message | None, is_tombstone: bool) -> Replay:
    """Return the change of a group. A first record creates the group; a tombstone for a missing group does nothing."""
    kind = _KINDS[type(key)]

    def replay(state: ReplayedState, offset: int) -> None:
        group = state.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if is_tombstone:
                return
            # A classic group with this id has only committed offsets, or its tombstone was compacted away.
            if group is not None:
                group.timers.cancel_all()
            group = state.groups[key.group_id] = ConsumerGroup(key.group_id)
        if not is_tombstone:
            kind.put(group, key, value)
        elif kind.remove is None:
            del state.groups[key.group_id]
        else:
            kind.remove(group, key)

    return replay


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = f.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return record(f.ConsumerGroupMetadataKey(group_id=group_id), value)


def _put_epoch(group: ConsumerGroup, key: Message, value: f.ConsumerGroupMetadataValue) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the topic metadata that Kafka kept before 4.1."""
    return record(f.ConsumerGroupPartitionMetadataKey(group_id=group_id))


def _put_partition_metadata(group: ConsumerGroup, key: Message, value: object) -> None:
    group.has_partition_metadata = True


def _remove_partition_metadata(group: ConsumerGroup, key: Message) -> None:
    group.has_partition_metadata = False


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
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
    return record(f.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def _put_member(
    group: ConsumerGroup, key: f.ConsumerGroupMemberMetadataKey, value: f.ConsumerGroupMemberMetadataValue
) -> None:
    found = value.classic_member_metadata
    classic = None
    if found is not None:
        protocols = tuple((one.name, bytes(one.metadata)) for one in found.supported_protocols)
        classic = ClassicMetadata(found.session_timeout_ms, protocols)
    group.put_member(
        replace(
            group.members.get(key.member_id) or ConsumerGroupMember(key.member_id),
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


def _remove_member(group: ConsumerGroup, key: f.ConsumerGroupMemberMetadataKey) -> None:
    group.remove_member(key.member_id)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int = 0) -> CoordinatorRecord:
    """Return the record of the epoch of a group's target assignment, and of the time at which it was computed."""
    value = f.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return record(f.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def _put_target_epoch(group: ConsumerGroup, key: Message, value: f.ConsumerGroupTargetAssignmentMetadataValue) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp


def _remove_target_epoch(group: ConsumerGroup, key: Message) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = FIRST_EPOCH, 0


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    rows = [f.TargetTopicPartitions(topic_id=one, partitions=sorted(indexes)) for one, indexes in target.items()]
    key = f.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return record(key, f.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows))


def _put_target(
    group: ConsumerGroup,
    key: f.ConsumerGroupTargetAssignmentMemberKey,
    value: f.ConsumerGroupTargetAssignmentMemberValue,
) -> None:
    group.targets[key.member_id] = target_of((row.topic_id, row.partitions) for row in value.topic_partitions)


def _remove_target(group: ConsumerGroup, key: f.ConsumerGroupTargetAssignmentMemberKey) -> None:
    group.targets.pop(key.member_id, None)


def current_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = f.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=int(member.state),
        assigned_partitions=_written(member.assigned),
        partitions_pending_revocation=_written(member.pending_revocation),
    )
    return record(f.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


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
    """Return owned partitions of a record. Older brokers wrote no assignment epochs: ``epoch`` is taken instead."""
    return {
        row.topic_id: dict(zip(row.partitions, row.assignment_epochs))
        if row.assignment_epochs is not None and len(row.assignment_epochs) == len(row.partitions)
        else dict.fromkeys(row.partitions, epoch)
        for row in written
    }


def _put_current(
    group: ConsumerGroup,
    key: f.ConsumerGroupCurrentMemberAssignmentKey,
    value: f.ConsumerGroupCurrentMemberAssignmentValue,
) -> None:
    group.put_member(
        replace(
            group.members.get(key.member_id) or ConsumerGroupMember(key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=AssignmentState.of(value.state),
            assigned=_read(value.assigned_partitions, value.member_epoch),
            pending_revocation=_read(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _remove_current(group: ConsumerGroup, key: f.ConsumerGroupCurrentMemberAssignmentKey) -> None:
    """Replay the tombstone of a member's current assignment: the member owns nothing any more."""
    member = group.members.get(key.member_id)
    if member is not None:
        gone = replace(member, member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH)
        group.put_member(replace(gone, assigned={}, pending_revocation={}))


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    value = f.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return record(f.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def _put_regex(
    group: ConsumerGroup, key: f.ConsumerGroupRegularExpressionKey, value: f.ConsumerGroupRegularExpressionValue
) -> None:
    group.resolved[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return record(f.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def _remove_regex(group: ConsumerGroup, key: f.ConsumerGroupRegularExpressionKey) -> None:
    group.resolved.pop(key.regular_expression, None)


_KINDS: dict[type[Message], _Kind] = {
    f.ConsumerGroupMetadataKey: _Kind(f.ConsumerGroupMetadataValue, _put_epoch, None),
    f.ConsumerGroupPartitionMetadataKey: _Kind(None, _put_partition_metadata, _remove_partition_metadata),
    f.ConsumerGroupMemberMetadataKey: _Kind(f.ConsumerGroupMemberMetadataValue, _put_member, _remove_member),
    f.ConsumerGroupTargetAssignmentMetadataKey: _Kind(
        f.ConsumerGroupTargetAssignmentMetadataValue, _put_target_epoch, _remove_target_epoch
    ),
    f.ConsumerGroupTargetAssignmentMemberKey: _Kind(
        f.ConsumerGroupTargetAssignmentMemberValue, _put_target, _remove_target
    ),
    f.ConsumerGroupCurrentMemberAssignmentKey: _Kind(
        f.ConsumerGroupCurrentMemberAssignmentValue, _put_current, _remove_current
    ),
    f.ConsumerGroupRegularExpressionKey: _Kind(f.ConsumerGroupRegularExpressionValue, _put_regex, _remove_regex),
}


def removal_of_member(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        record(key(group_id=group_id, member_id=member_id))
        for key in (
            f.ConsumerGroupCurrentMemberAssignmentKey,
            f.ConsumerGroupTargetAssignmentMemberKey,
            f.ConsumerGroupMemberMetadataKey,
        )
    ]


def removal_of_group(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the tombstones of everything that the log has about a group; that of the group itself comes last."""
    group_id, found = group.group_id, list(group.members)
    keys = [
        *(f.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one) for one in found),
        *(
            f.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one)
            for one in dict.fromkeys([*found, *group.targets])
        ),
        f.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        *(f.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one) for one in found),
        *(f.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=one) for one in group.resolved),
        f.ConsumerGroupPartitionMetadataKey(group_id=group_id),
        f.ConsumerGroupMetadataKey(group_id=group_id),
    ]
    return [record(key) for key in keys]
