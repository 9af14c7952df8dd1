"""Rebalances of a classic group: the join and sync phases, and their timeouts.

Functions on one :class:`~.group.ClassicGroup`; requests arrive through ``joining`` and ``membership``, timeouts through
the group's timers. Follows the ``classicGroup*`` helpers of Kafka's ``GroupMetadataManager``.
"""

import logging
from collections.abc import Mapping

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.sync_group import SyncGroupResponse

from .append_errors import append_error
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .member import ClassicGroupMember
from .states import GROUP_TRANSITIONS, GroupEvent, GroupState

log = logging.getLogger(__name__)

JOIN = "join"  #: Name of the timer that ends the join phase.
SYNC = "sync"  #: Name of the timer that removes members that have not sent SyncGroup.
#: Session timeout of a new member while its first JoinGroup is parked. The timeout is long, as the client cannot send
#: heartbeats yet. Without a timeout, members whose client has given up would accumulate in a long join phase.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


def session_timer(member_id: str) -> str:
    """Return the name of the timer that removes a member or a pending member id."""
    return f"session:{member_id}"


def prepare_or_complete(group: ClassicGroup, reason: str) -> None:
    """Begin a rebalance, or complete the join phase of the current one if all members have joined."""
    if GroupEvent.CHANGED in GROUP_TRANSITIONS[group.state]:
        prepare(group, reason)
    else:
        maybe_complete_join(group)


def prepare(group: ClassicGroup, reason: str) -> None:
    """Begin a rebalance: heartbeat responses tell the members to rejoin within the rebalance timeout."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        set_assignment(group, {}, int(Code.REBALANCE_IN_PROGRESS))
    group.pending_syncs.clear()
    group.timers.cancel(SYNC)
    is_initial = group.state is GroupState.EMPTY
    if is_initial:
        # More members are likely to join an empty group soon: the delay saves a rebalance for each of them.
        delay = group.shard.config.group_initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        group.timers.schedule(JOIN, delay, lambda: _end_initial_delay(group, delay, remaining))
    group.move(GroupEvent.CHANGED)
    log.info("%r begins a rebalance: %s", group, reason)
    if is_initial:
        return
    if group.has_all_joined:
        complete_join(group)
    else:
        group.timers.schedule(JOIN, group.rebalance_timeout_ms, lambda: complete_join(group))


def _end_initial_delay(group: ClassicGroup, delay: int, remaining: int) -> None:
    if not (group.new_member_added and remaining):
        complete_join(group)
        return
    group.new_member_added = False
    new_delay = min(group.shard.config.group_initial_rebalance_delay_ms, remaining)
    new_remaining = max(remaining - delay, 0)
    group.timers.schedule(JOIN, new_delay, lambda: _end_initial_delay(group, new_delay, new_remaining))


def maybe_complete_join(group: ClassicGroup) -> None:
    """Complete the join phase if all members have joined.

    The first rebalance of an empty group is not completed here, but after ``group.initial.rebalance.delay.ms``.
    """
    is_initial = group.previous_state is GroupState.EMPTY
    if group.state is GroupState.PREPARING_REBALANCE and not is_initial and group.has_all_joined:
        complete_join(group)


def complete_join(group: ClassicGroup) -> None:
    """End the join phase and begin the next generation. Dynamic members that have not rejoined are removed; static ones
    stay.
    """
    group.timers.cancel(JOIN)
    missing = [member for member in group.members.values() if member.join is None and member.instance_id is None]
    for member in missing:
        group.remove(member.member_id)
        group.timers.cancel(session_timer(member.member_id))
    if not group.elect_joined_leader() and group.members:
        # Only static members remain and none has rejoined: wait for one to rejoin, or for their sessions to expire.
        group.timers.schedule(JOIN, group.rebalance_timeout_ms, lambda: complete_join(group))
        return
    group.begin_generation()
    if group.state is GroupState.EMPTY:
        # If this append fails, the next coordinator loads the previous generation, and its members time out.
        group.shard.write_group(group, {})
        return
    for member in list(group.members.values()):
        is_leader = member.member_id == group.leader_id
        group.answer_join(member, group.join_response(member.member_id, with_members=is_leader))
        reschedule_heartbeat(group, member)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    group.timers.schedule(SYNC, group.rebalance_timeout_ms, lambda: _expire_syncs(group))


def set_assignment(group: ClassicGroup, assignments: Mapping[str, bytes], code: int = 0) -> None:
    """Set the members' assignments and reply to parked SyncGroups, with an error if ``code`` is not 0."""
    for member in list(group.members.values()):
        member.assignment = assignments.get(member.member_id, b"")
        response = SyncGroupResponse(error_code=code, assignment=member.assignment)
        if not code:
            response.protocol_type, response.protocol_name = group.protocol_type, group.protocol_name
        if group.answer_sync(member, response):
            # The member's session timer may have fired, without effect, while the SyncGroup was parked: restart it.
            reschedule_heartbeat(group, member)


def store_assignment(group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    """Append the leader's assignment to the log; the members get it in SyncGroup responses when it is committed."""
    generation = group.generation

    def written(code: int) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return  # another rebalance has begun meanwhile, or the group was unloaded
        if code:
            set_assignment(group, {}, append_error(code))
            prepare_or_complete(group, f"the assignment could not be written (error {code})")
        else:
            set_assignment(group, assignments)
            group.move(GroupEvent.ASSIGNED)

    complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}
    group.shard.write_group(group, complete, written)


def _expire_syncs(group: ClassicGroup) -> None:
    # The timer that calls this function is cancelled by the last missing SyncGroup and by another rebalance, so at
    # least one member has not sent SyncGroup.
    missing = sorted(group.pending_syncs)  # sorted, as the order of a set is not deterministic
    for member_id in missing:
        group.remove(member_id)
        group.timers.cancel(session_timer(member_id))
    prepare(group, f"{len(missing)} members did not send SyncGroup in time")


def reschedule_heartbeat(group: ClassicGroup, member: ClassicGroupMember, timeout_ms: int | None = None) -> None:
    """Restart a member's session timer, by default with the member's own session timeout."""
    member_id = member.member_id
    if timeout_ms is None:
        timeout_ms = member.session_timeout_ms
    group.timers.schedule(session_timer(member_id), timeout_ms, lambda: expire_heartbeat(group, member_id))


def expire_heartbeat(group: ClassicGroup, member_id: str) -> None:
    """After a session timeout, remove the pending member id, or the member unless it ``has_satisfied_heartbeat``."""
    if member_id in group.pending_joins:
        group.remove(member_id)
        _complete_join_after_removal(group)
        return
    member = group.members.get(member_id)
    if member is not None and not member.has_satisfied_heartbeat:
        remove_member(group, member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            prepare(group, f"member {member_id} has exceeded its session timeout")
        else:
            _complete_join_after_removal(group)


def _complete_join_after_removal(group: ClassicGroup) -> None:
    if group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
        complete_join(group)


def remove_member(group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Remove a member and fail its parked requests; its client may rejoin as a new member. Kafka never responds to a
    parked SyncGroup of a removed member.
    """
    group.fail_parked(member, Code.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID)
    group.remove(member.member_id)
