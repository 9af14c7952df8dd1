"""JoinGroup of a classic group: which members are admitted, and whether a rebalance begins.

Follows ``classicGroupJoinToClassicGroup`` and its helpers in Kafka's ``GroupMetadataManager``: KIP-394 (a new dynamic
member is first rejected, and gets a member id to join with), KIP-345 (static members), KIP-814 (a returning static
leader keeps the assignment).
"""

from __future__ import annotations

from typing import NamedTuple

from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse

from . import rebalance
from .append_errors import append_error
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .member import ClassicGroupMember, JoinReply, Protocols, protocols_of
from .states import GroupState

#: From this version on a new dynamic member must first obtain a member id (KIP-394).
KNOWN_MEMBER_ID_FROM = 4
#: From this version on the response can tell a restarted static leader to keep the current assignment (KIP-814).
SKIP_ASSIGNMENT_FROM = 9


class JoinGroupCall(NamedTuple):
    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    reply: JoinReply

    @property
    def protocols(self) -> Protocols:
        """The member's protocols with their metadata, in its order of preference."""
        return protocols_of(self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout; version 0 has none and uses the session timeout."""
        return self.request.rebalance_timeout_ms if self.version >= 1 else self.request.session_timeout_ms

    def refuse(self, code: Code, member_id: str) -> None:
        self.reply(JoinGroupResponse(member_id=member_id, error_code=int(code)))


def join(group: ClassicGroup, call: JoinGroupCall) -> None:
    """Handle a JoinGroup: respond immediately, or park the request: its response then waits for other members, or for
    the log.
    """
    member_id = call.request.member_id
    if not _has_room(group, member_id):
        group.remove(member_id)
        call.refuse(Code.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
    elif not group.supports(call.request.protocol_type, [name for name, _ in call.protocols]):
        call.refuse(Code.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == UNKNOWN_MEMBER_ID:
        _join_unknown(group, call)
    elif member_id in group.pending_joins:
        if call.request.group_instance_id is None:
            _add(group, call, member_id)
        else:  # a static member never gets MEMBER_ID_REQUIRED, so it has no pending member id
            call.refuse(Code.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID)
    else:
        _rejoin(group, call)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    limit = group.shard.config.group_max_size
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # During the join phase only members that have joined count: if the group exceeds group.max.size, the last
        # members to join are rejected.
        return (member is not None and member.join is not None) or len(group.joined) < limit
    return member is not None or len(group.members) < limit


def _join_unknown(group: ClassicGroup, call: JoinGroupCall) -> None:
    instance_id = call.request.group_instance_id
    new_id = f"{call.client_id if instance_id is None else instance_id}-{group.shard.new_uuid()}"
    if instance_id is not None:
        existing = group.static_members.get(instance_id)
        if existing is None:
            _add(group, call, new_id)
        else:
            _replace_static(group, call, instance_id, existing, new_id)
    elif call.version >= KNOWN_MEMBER_ID_FROM:
        group.pending_joins.add(new_id)
        group.timers.schedule(
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
        # The member repeats its JoinGroup for this generation, so the response may have been lost: send it again.
        call.reply(group.join_response(member_id, with_members=is_leader))
    elif group.state is GroupState.STABLE and is_same and not is_leader:
        call.reply(group.join_response(member_id, with_members=False))
    else:
        # The member's protocols have changed; or the leader of a stable group wants to compute a new assignment, for
        # example because a topic has new partitions.
        _update(group, call, member, f"member {member_id} rejoins as leader or with new metadata")


def _update(group: ClassicGroup, call: JoinGroupCall, member: ClassicGroupMember, reason: str) -> None:
    group.update(member, call.protocols, call.rebalance_timeout_ms, call.request.session_timeout_ms)
    group.park_join(member, call.reply)
    rebalance.prepare_or_complete(group, reason)


def _replace_static(group: ClassicGroup, call: JoinGroupCall, instance_id: str, old_id: str, new_id: str) -> None:
    """Give a new member id to a static member that has restarted.

    A stable group keeps its generation, unless the member's protocols change the elected protocol.
    """
    old_leader = group.leader_id
    old = group.members[old_id]
    member = group.replace_static(instance_id, old_id, new_id)
    rebalance.reschedule_heartbeat(group, member)

    def keep_generation() -> None:
        if call.version >= SKIP_ASSIGNMENT_FROM:
            is_leader = new_id == group.leader_id
            response = group.join_response(new_id, with_members=is_leader, skip_assignment=is_leader)
        else:
            # Below version 9 a leader always computes a new assignment. The response names the old member id as
            # leader, so that this member regards itself as a follower.
            response = group.join_response(new_id, with_members=False)
            response.leader = old_leader or ""
        group.answer_join(member, response)
        if rebalance.session_timer(new_id) not in group.timers:
            # The session timer has fired, without effect, while the JoinGroup was parked for the append. Without a new
            # timer this member would never be removed. Kafka sets no new timer, as its session timeouts are longer than
            # an append takes.
            rebalance.reschedule_heartbeat(group, member)

    def restore_old_id(code: int) -> None:
        if group.members.get(new_id) is not member:
            return  # the member has restarted again or was removed meanwhile: this JoinGroup has got an error already
        group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        member.join = None
        rebalance.reschedule_heartbeat(group, group.replace_static(instance_id, new_id, old_id))
        response = group.join_response(UNKNOWN_MEMBER_ID, with_members=False)
        response.leader = old_leader or ""
        response.error_code = append_error(code)
        call.reply(response)

    group.update(member, call.protocols, call.rebalance_timeout_ms, call.request.session_timeout_ms)
    group.park_join(member, call.reply)
    if group.state is GroupState.STABLE:
        if group.select_protocol() != group.protocol_name:
            rebalance.prepare_or_complete(group, f"static member {new_id} changes the protocol")
            return
        group.shard.write_group(
            group,
            {m.member_id: m.assignment for m in group.members.values()},
            lambda code: restore_old_id(code) if code else keep_generation(),
        )
    elif group.state is GroupState.COMPLETING_REBALANCE:
        # The leader is computing the assignment with the old member id of this member. Without a rebalance, the
        # partitions for the old member id would be assigned to no member.
        rebalance.prepare(group, f"static member {new_id} has restarted")
    else:
        rebalance.maybe_complete_join(group)
