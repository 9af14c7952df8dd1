"""Moving a group from the classic to the consumer group protocol and back, while its members stay in the group.

A classic group becomes a consumer group when its first member with the consumer group protocol joins, and a classic
group again when the last such member leaves or changes to the classic protocol, if
``group.consumer.migration.policy`` allows the direction. Follows ``convertToConsumerGroup``, ``convertToClassicGroup``
and their checks in Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.types import TopicPartition
from thinconsumer.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    decode_assignment,
    decode_subscription,
    to_topics,
)
from thinconsumer.wire.error_codes import Code

from ...image import ClusterImage
from .. import rebalance
from .. import records as classic_records
from ..group import CONSUMER, ClassicGroup
from ..member import ClassicGroupMember
from ..records import CoordinatorRecord, put_group
from ..states import GroupState
from . import records
from .errors import GroupRequestError
from .member import ClassicMetadata, ConsumerGroupMember, Partitions, owned_since, target_of
from .policies import DOWNGRADE, MIGRATION_POLICIES, UPGRADE

if TYPE_CHECKING:
    from ..shard import GroupCoordinatorShard
    from .draft import Draft
    from .group import ConsumerGroup

log = logging.getLogger(__name__)


def allows(shard: GroupCoordinatorShard, direction: str) -> bool:
    """Return whether the broker's policy allows a direction."""
    return direction in MIGRATION_POLICIES[shard.config.group_consumer_migration_policy.lower()]


# -- from classic to consumer


def upgrade(shard: GroupCoordinatorShard, draft: Draft, group: ClassicGroup) -> None:
    """Add the records that make a classic group with members a consumer group, with the same assignment.

    JoinGroup and SyncGroup requests that wait for a response get REBALANCE_IN_PROGRESS: their members then rejoin, as
    members of a consumer group.

    Raises:
        GroupRequestError: GROUP_ID_NOT_FOUND: the group cannot be moved, or the policy does not allow it.
    """
    _check_upgrade(shard, group)
    members = [_upgraded(member, group, shard.image) for member in group.members.values()]
    group_id, generation = group.group_id, group.generation
    log.info("%r becomes a consumer group", group)
    draft.on_appended.append(partial(_fail_parked, group))
    draft.add([classic_records.group_tombstone(group_id)])
    draft.add(records.member_record(group_id, member) for member in members)
    draft.add([records.epoch_record(group_id, generation, 0)])
    for member in members:
        target = target_of((topic_id, indexes) for topic_id, indexes in member.assigned.items())
        draft.add([records.target_record(group_id, member.member_id, target)])
    draft.add([records.target_epoch_record(group_id, generation)])
    draft.add(records.current_record(group_id, member) for member in members)


def _fail_parked(group: ClassicGroup) -> None:
    for member in list(group.members.values()):
        group.fail_parked(member, Code.REBALANCE_IN_PROGRESS, member.member_id)


def _check_upgrade(shard: GroupCoordinatorShard, group: ClassicGroup) -> None:
    if not allows(shard, UPGRADE):
        raise _not_upgraded(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > shard.config.group_consumer_max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size.")


def _not_upgraded(group: ClassicGroup, why: str) -> GroupRequestError:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    return GroupRequestError(Code.GROUP_ID_NOT_FOUND, text)


def _upgraded(member: ClassicGroupMember, group: ClassicGroup, image: ClusterImage) -> ConsumerGroupMember:
    try:
        subscription = decode_subscription(member.metadata(group.protocol_name or group.select_protocol()))
        assignment = decode_assignment(member.assignment)
    except KafkaProtocolError:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed.") from None
    if assignment.user_data:
        raise _not_upgraded(group, "an unsupported custom assignor is in use.")
    assigned = {
        image.topics[row.topic].topic_id: row.partitions
        for row in assignment.assigned_partitions
        if row.topic in image.topics
    }
    return ConsumerGroupMember(
        member.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned=owned_since(assigned, group.generation),
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


# -- from consumer to classic


def can_downgrade(
    shard: GroupCoordinatorShard, group: ConsumerGroup, removed: Collection[ConsumerGroupMember], added: int = 0
) -> bool:
    """Return whether a group becomes a classic one once the ``removed`` members have left, and ``added`` of them have
    rejoined with the classic protocol.

    At least one member must be in the group then, all must use the classic protocol, and the policy and the size limit
    of classic groups must allow the move.
    """
    gone = {member.member_id for member in removed}
    left = [member for member in group.members.values() if member.member_id not in gone]
    count = len(left) + added
    if not count or any(member.classic is None for member in left):
        return False
    return allows(shard, DOWNGRADE) and count <= shard.config.group_max_size


def to_classic_group(shard: GroupCoordinatorShard, draft: Draft, reason: str, *, needs_rebalance: bool) -> bool:
    """Make the consumer group of a draft a classic one, with its target assignment; return False if the log has
    rejected the records. With ``needs_rebalance``, the coordinator makes the members rejoin.
    """
    before = draft.group
    group = _downgraded(shard, before)
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    record = classic_records.group_record(group, assignments).record
    draft.add([*records.removal_of_group(before), CoordinatorRecord(record, put_group(group))])
    if not draft.append():
        return False
    log.info("%r was a consumer group: %s", group, reason)
    for key in [key for key in shard.member_timers if key[0] == group.group_id]:
        shard.member_timers.cancel(key)
    for member in list(group.members.values()):
        rebalance.reschedule_heartbeat(group, member)
    if needs_rebalance:
        rebalance.prepare(group, reason)
    return True


def _downgraded(shard: GroupCoordinatorShard, before: ConsumerGroup) -> ClassicGroup:
    group = ClassicGroup(
        before.group_id,
        shard,
        state=GroupState.STABLE,
        generation=before.epoch,
        protocol_type=CONSUMER,
        state_timestamp_ms=shard.wall_ms(),
    )
    for member in before.members.values():
        assert member.classic is not None
        group.add(
            ClassicGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER,
                member.classic.protocols,
            )
        )
    group.protocol_name = group.select_protocol()
    for found in group.members.values():
        target = before.target(found.member_id)
        found.assignment = encoded_assignment(target, found.metadata(group.protocol_name), shard.image)
    group.compute_subscribed_topics()
    return group


def encoded_assignment(partitions: Partitions, metadata: bytes, image: ClusterImage) -> bytes:
    """Encode an assignment for a member of the classic protocol, in the version of its subscription ``metadata``."""
    found = [
        TopicPartition(image.names_by_id[topic_id], index)
        for topic_id, indexes in partitions.items()
        if topic_id in image.names_by_id
        for index in indexes
    ]
    lowest, highest = ConsumerProtocolAssignment.VERSIONS
    version = min(max(int.from_bytes(metadata[:2], "big", signed=True), lowest), highest)
    assignment = ConsumerProtocolAssignment(assigned_partitions=to_topics(sorted(found)))
    return version.to_bytes(2, "big") + assignment.encode(version)
