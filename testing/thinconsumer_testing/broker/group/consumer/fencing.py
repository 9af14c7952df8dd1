"""Members that leave a consumer group, or are removed because a timer has fired (:class:`~..timers.TimerKind`).

Follows ``consumerGroupLeave``, ``consumerGroupFenceMembers`` and the timers of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from thinconsumer.wire.error_codes import Code

from ..timers import TimerKind
from . import records
from .draft import Draft
from .errors import GroupRequestError
from .group import ConsumerGroup
from .member import LEAVE_STATIC_EPOCH, ConsumerGroupMember
from .migration import can_downgrade, to_classic_group
from .states import AssignmentState

if TYPE_CHECKING:
    from ..shard import GroupCoordinatorShard

log = logging.getLogger(__name__)

#: After this time the removal of a member is tried again, if the log has rejected its records.
RETRY_MS = 500


def find_group(shard: GroupCoordinatorShard, group_id: str) -> ConsumerGroup:
    """Return a consumer group. Raises: GroupRequestError: GROUP_ID_NOT_FOUND."""
    group = shard.latest.consumer_group(group_id)
    if group is None:
        exists = group_id in shard.latest.groups
        text = f"Group {group_id} is not a consumer group." if exists else f"Group {group_id} not found."
        raise GroupRequestError(Code.GROUP_ID_NOT_FOUND, text)
    return group


def check_instance(member: ConsumerGroupMember | None, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """Return ``member``, the one with the instance id (None: there is none), if ``member_id`` is its member id.

    Raises:
        GroupRequestError: UNKNOWN_MEMBER_ID: the group has no such instance; FENCED_INSTANCE_ID: another member has it.
    """
    if member is None:
        raise GroupRequestError(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise GroupRequestError(Code.FENCED_INSTANCE_ID, text)
    return member


def leave(shard: GroupCoordinatorShard, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Remove a member; a static one that leaves for a while keeps its partitions until its session ends.

    Raises:
        GroupRequestError: The group or the member is unknown, or another member has the instance id.
    """
    group = find_group(shard, request.group_id)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        found = group.static_member(request.instance_id)
        member = check_instance(found, request.member_id, request.instance_id)
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        draft = Draft(shard, group)
        away = replace(member, member_epoch=LEAVE_STATIC_EPOCH, pending_revocation={})
        draft.add([records.current_record(group.group_id, away)])
        draft.append()
        return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVE_STATIC_EPOCH)
    log.info("%r: member %s leaves", group, member.member_id)
    remove_members(shard, group, [member])
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def remove_members(
    shard: GroupCoordinatorShard, group: ConsumerGroup, members: Collection[ConsumerGroupMember]
) -> bool:
    """Remove members, and begin a new epoch. If all that are left use the classic protocol and the policy allows it,
    make the group a classic one instead. Return False if the log has rejected the records.
    """
    draft = Draft(shard, group)
    downgrades = can_downgrade(shard, group, members)
    for member in members:
        draft.add(records.removal_of_member(group.group_id, member.member_id))
    draft.drop_unused_regexes()
    if downgrades:
        reason = "the last member of the consumer group protocol is gone"
        return to_classic_group(shard, draft, reason, needs_rebalance=True)
    draft.update_epoch(must_bump=True)
    if not draft.append():
        return False
    for member in members:
        for kind in TimerKind:
            shard.member_timers.cancel((group.group_id, member.member_id, kind))
    return True


def schedule_session(shard: GroupCoordinatorShard, group_id: str, member_id: str, timeout_ms: int = 0) -> None:
    """Restart a member's session timeout; 0 stands for the one in the broker's configuration."""
    timeout_ms = timeout_ms or shard.config.group_consumer_session_timeout_ms
    schedule_removal(shard, group_id, member_id, TimerKind.SESSION, timeout_ms, "the member session expired")


def schedule_removal(
    shard: GroupCoordinatorShard,
    group_id: str,
    member_id: str,
    kind: TimerKind,
    timeout_ms: int,
    reason: str,
    epoch: int | None = None,
) -> None:
    """Set a timer that removes a member; with ``epoch``, only if the member is still in this epoch then."""

    def expire() -> None:
        group = shard.latest.consumer_group(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or epoch not in (None, member.member_epoch):
            return
        log.info("%r: member %s is removed: %s", group, member_id, reason)
        if not remove_members(shard, group, [member]):
            schedule_removal(shard, group_id, member_id, kind, RETRY_MS, reason, epoch)

    shard.member_timers.schedule((group_id, member_id, kind), timeout_ms, expire)


def time_revocation(shard: GroupCoordinatorShard, group_id: str, member: ConsumerGroupMember) -> None:
    """If a member has to revoke partitions, set the timer that removes it after its rebalance timeout; else cancel that
    timer.

    Members that use the classic protocol have timers for JoinGroup and SyncGroup instead.
    """
    kind, member_id, epoch = TimerKind.REBALANCE, member.member_id, member.member_epoch
    if member.classic is not None:
        return
    if member.state is AssignmentState.UNREVOKED_PARTITIONS:
        reason = f"it has not left epoch {epoch} in time"
        schedule_removal(shard, group_id, member_id, kind, member.rebalance_timeout_ms, reason, epoch)
    else:
        shard.member_timers.cancel((group_id, member_id, kind))


def schedule_all(shard: GroupCoordinatorShard, group_id: str) -> None:
    """Set the timers of all members of a group: it was loaded from the log, or was a classic group before."""
    group = find_group(shard, group_id)
    for member in group.members.values():
        session_ms = 0 if member.classic is None else member.classic.session_timeout_ms
        schedule_session(shard, group.group_id, member.member_id, session_ms)
        time_revocation(shard, group.group_id, member)
