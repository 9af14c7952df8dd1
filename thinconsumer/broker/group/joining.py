"""JoinGroup: who gets into a group, as whom, and whether that begins a rebalance.

Follows ``classicGroupJoinToClassicGroup`` and what it calls in Kafka's ``GroupMetadataManager``: KIP-394 (newcomers
are turned away once, with an id), KIP-345 (static members), KIP-814 (a static leader that returns keeps the
assignment).
"""

from __future__ import annotations

from typing import NamedTuple

from ...wire.error_codes import Code
from ...wire.join_group import JoinGroupRequest, JoinGroupResponse
from . import rebalance
from .append_errors import append_error
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .member import ClassicGroupMember, JoinReply, Protocols, protocols_of
from .states import GroupState

#: From this version on newcomers without an id are given one first (KIP-394).
KNOWN_MEMBER_ID_FROM = 4
#: From this version on a static leader can be told to leave the assignment alone (KIP-814).
SKIP_ASSIGNMENT_FROM = 9


class JoinGroupCall(NamedTuple):
    """One JoinGroup, with what the group wants to know about it."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    reply: JoinReply

    @property
    def protocols(self) -> Protocols:
        """What the member is willing to use."""
        return protocols_of(self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long this member may take to rejoin; version 0 has no field for it."""
        return self.request.rebalance_timeout_ms if self.version >= 1 else self.request.session_timeout_ms

    def refuse(self, code: Code, member_id: str) -> None:
        """Answer with an error."""
        self.reply(JoinGroupResponse(member_id=member_id, error_code=int(code)))


def join(group: ClassicGroup, call: JoinGroupCall) -> None:
    """Work on a JoinGroup: answer it, or park it."""
    member_id = call.request.member_id
    if not _has_room(group, member_id):
        group.remove(member_id)
        call.refuse(Code.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
    elif group.state is GroupState.DEAD:
        call.refuse(Code.COORDINATOR_NOT_AVAILABLE, member_id)
    elif not group.supports(call.request.protocol_type, [name for name, _ in call.protocols]):
        call.refuse(Code.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == UNKNOWN_MEMBER_ID:
        _join_unknown(group, call)
    elif member_id in group.pending_joins:
        if call.request.group_instance_id is None:
            _add(group, call, member_id)
        else:  # no static member is ever given an id to come back with
            call.refuse(Code.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID)
    else:
        _rejoin(group, call)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    limit = group.services.config.group_max_size
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Those who have rejoined count, not those who were in: so the last to rejoin a group that is too large are out.
        return (member is not None and member.join is not None) or group.awaiting_join < limit
    return member is not None or len(group.members) < limit


def _join_unknown(group: ClassicGroup, call: JoinGroupCall) -> None:
    instance_id = call.request.group_instance_id
    new_id = f"{call.client_id if instance_id is None else instance_id}-{group.services.new_uuid()}"
    if instance_id is not None:
        existing = group.static_members.get(instance_id)
        if existing is None:
            _add(group, call, new_id)
        else:
            _replace_static(group, call, instance_id, existing, new_id)
    elif call.version >= KNOWN_MEMBER_ID_FROM:
        group.pending_joins.add(new_id)
        group.schedule(
            rebalance.session_timer(new_id),
            call.request.session_timeout_ms,
            lambda: rebalance.expire_heartbeat(group, new_id),
        )
        call.refuse(Code.MEMBER_ID_REQUIRED, new_id)
    else:
        _add(group, call, new_id)


def _add(group: ClassicGroup, call: JoinGroupCall, member_id: str) -> None:
    request = call.request
    member = ClassicGroupMember(
        member_id,
        request.group_instance_id,
        call.client_id,
        call.client_host,
        call.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        call.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, call.reply)
    rebalance.reschedule_heartbeat(group, member, rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance.prepare_or_complete(group, f"new member {member_id}")


def _rejoin(group: ClassicGroup, call: JoinGroupCall) -> None:
    """Somebody who says to be a member already."""
    request = call.request
    member_id = request.member_id
    code = group.check_member(member_id, request.group_instance_id)
    if code:
        call.reply(JoinGroupResponse(member_id=member_id, error_code=code))
        return
    member = group.members[member_id]
    is_leader = member_id == group.leader_id
    is_same = member.protocols == call.protocols
    if group.state is GroupState.PREPARING_REBALANCE:
        _update(group, call, member, f"member {member_id} rejoins")
    elif group.state is GroupState.COMPLETING_REBALANCE and is_same:
        # The answer to its JoinGroup may have been lost: the generation is the same.
        call.reply(group.join_response(member_id, with_members=is_leader))
    elif group.state is GroupState.STABLE and is_same and not is_leader:
        call.reply(group.join_response(member_id, with_members=False))
    else:
        # A leader that rejoins a stable group wants to assign anew: it has seen topics change.
        _update(group, call, member, f"member {member_id} rejoins, leader or with new metadata")


def _update(group: ClassicGroup, call: JoinGroupCall, member: ClassicGroupMember, reason: str) -> None:
    group.update(member, call.protocols, call.rebalance_timeout_ms, call.request.session_timeout_ms)
    group.park_join(member, call.reply)
    rebalance.prepare_or_complete(group, reason)


def _replace_static(group: ClassicGroup, call: JoinGroupCall, instance_id: str, old_id: str, new_id: str) -> None:
    """A static member is back after a restart, without its member id."""
    old_leader = group.leader_id
    member = group.replace_static(instance_id, old_id, new_id)
    rebalance.reschedule_heartbeat(group, member)
    before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
    group.update(member, call.protocols, call.rebalance_timeout_ms, call.request.session_timeout_ms)
    group.park_join(member, call.reply)
    if group.state is GroupState.STABLE:
        if group.select_protocol() != group.protocol_name:
            rebalance.prepare_or_complete(group, f"static member {new_id} changes the protocol")
            return

        def written(code: int) -> None:
            if code:
                _revert(group, call, member, old_id, before, old_leader, code)
            else:
                _keep_generation(group, call, member, old_leader)

        group.services.write_group(group, {m.member_id: m.assignment for m in group.members.values()}, written)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning to the old member id: nobody would get what it gives to that one.
        rebalance.prepare(group, f"static member {new_id} is back")
    else:
        rebalance.maybe_complete_join(group)


def _keep_generation(
    group: ClassicGroup, call: JoinGroupCall, member: ClassicGroupMember, old_leader: str | None
) -> None:
    """Give a static member the generation that it left, with no rebalance."""
    if call.version >= SKIP_ASSIGNMENT_FROM:
        is_leader = member.member_id == group.leader_id
        response = group.join_response(member.member_id, with_members=is_leader, skip_assignment=is_leader)
    else:
        # Told that somebody else leads, it asks for its assignment and does not make a new one.
        response = group.join_response(member.member_id, with_members=False)
        response.leader = old_leader or ""
    group.answer_join(member, response)
    if rebalance.session_timer(member.member_id) not in group.timers:
        # It ended while the log was being written, which had no effect then. Kafka, whose sessions are longer than
        # that can take, would never miss this member.
        rebalance.reschedule_heartbeat(group, member)


def _revert(
    group: ClassicGroup,
    call: JoinGroupCall,
    member: ClassicGroupMember,
    old_id: str,
    before: tuple[Protocols, int, int],
    old_leader: str | None,
    code: int,
) -> None:
    """The new member id could not be written: the old one stays."""
    if group.members.get(member.member_id) is not member:
        return  # it was replaced once more meanwhile, and told so
    group.update(member, *before)
    member.join = None
    assert member.instance_id is not None
    rebalance.reschedule_heartbeat(group, group.replace_static(member.instance_id, member.member_id, old_id))
    response = group.join_response(UNKNOWN_MEMBER_ID, with_members=False)
    response.leader = old_leader or ""
    response.error_code = append_error(code)
    call.reply(response)
