"""SyncGroup, Heartbeat and LeaveGroup of a classic group, and the check of members that send positions (KIP-253).

Follows ``classicGroupSync``, ``classicGroupHeartbeat`` and ``classicGroupLeave`` in Kafka's ``GroupMetadataManager``.
"""

from collections.abc import Sequence

from thinconsumer.wire.consumer_group_positions import ConsumerGroupPositionsRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

from . import rebalance
from .group import UNKNOWN_MEMBER_ID, ClassicGroup
from .member import SyncReply
from .states import GroupState


def sync(group: ClassicGroup | None, request: SyncGroupRequest, reply: SyncReply) -> None:
    """Reply with an error or the member's assignment, or park the request if the assignment is not in the log yet. The
    leader's request contains the assignments of all members.
    """
    code = int(Code.UNKNOWN_MEMBER_ID) if group is None else _check_sync(group, request)
    if group is None or code:
        reply(SyncGroupResponse(error_code=code))
        return
    member = group.members[request.member_id]
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        group.timers.cancel(rebalance.SYNC)
    if group.state is GroupState.STABLE:
        reply(
            SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
        )
        return
    group.park_sync(member, reply)
    if member.member_id == group.leader_id:
        rebalance.store_assignment(group, {a.member_id: bytes(a.assignment) for a in request.assignments})


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> int:
    if group.state is GroupState.EMPTY:
        return int(Code.UNKNOWN_MEMBER_ID)
    if code := _check_generation(group, request):
        return code
    pairs = ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name))
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return int(Code.INCONSISTENT_GROUP_PROTOCOL)
    return int(Code.REBALANCE_IN_PROGRESS) if group.state is GroupState.PREPARING_REBALANCE else 0


def _check_generation(
    group: ClassicGroup, request: SyncGroupRequest | HeartbeatRequest | ConsumerGroupPositionsRequest
) -> int:
    """Return 0 if the request is from a member of the current generation, else the error code that rejects it."""
    if isinstance(request, ConsumerGroupPositionsRequest):
        generation = request.generation_id_or_member_epoch
    else:
        generation = request.generation_id
    code = group.check_member(request.member_id, request.group_instance_id)
    return code or (0 if generation == group.generation else int(Code.ILLEGAL_GENERATION))


#: The error code of the heartbeat response to a member of the current generation, by group state.
_HEARTBEATS = {
    GroupState.EMPTY: Code.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: Code.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: Code.NONE,
    GroupState.STABLE: Code.NONE,
}


def heartbeat(group: ClassicGroup | None, request: HeartbeatRequest) -> int:
    """Restart the member's session timer; return the error code, REBALANCE_IN_PROGRESS if the member must rejoin."""
    if group is None:
        return int(Code.UNKNOWN_MEMBER_ID)
    if code := _check_generation(group, request):
        return code
    rebalance.reschedule_heartbeat(group, group.members[request.member_id])
    return int(_HEARTBEATS[group.state])


def check_position_sender(group: ClassicGroup | None, request: ConsumerGroupPositionsRequest) -> int:
    """Return 0 if the request is from a member of the current generation and the group is stable, else an error code.

    During a rebalance the code is REBALANCE_IN_PROGRESS: the member's partitions may soon belong to another member.
    """
    if group is None:
        return int(Code.UNKNOWN_MEMBER_ID)
    if code := _check_generation(group, request):
        return code
    return 0 if group.state is GroupState.STABLE else int(Code.REBALANCE_IN_PROGRESS)


def leave(group: ClassicGroup | None, leaving: Sequence[MemberIdentity]) -> LeaveGroupResponse:
    """Remove members; return the LeaveGroup response, which has an error code for each of them."""
    responses = [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=int(Code.UNKNOWN_MEMBER_ID) if group is None else _leave_one(group, identity),
        )
        for identity in leaving
    ]
    if group is not None and any(not response.error_code for response in responses):
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance.prepare(group, "members left")
        else:
            rebalance.maybe_complete_join(group)
    return LeaveGroupResponse(members=responses)


def _leave_one(group: ClassicGroup, identity: MemberIdentity) -> int:
    member_id = identity.member_id
    if member_id in group.pending_joins:
        group.remove(member_id)
        group.timers.cancel(rebalance.session_timer(member_id))
        return 0
    if member_id == UNKNOWN_MEMBER_ID:
        # Admin clients remove a static member by its instance id alone.
        found = group.static_members.get(identity.group_instance_id or "")
        if found is None:
            return int(Code.UNKNOWN_MEMBER_ID)
        member_id = found
    else:
        code = group.check_member(member_id, identity.group_instance_id)
        if code:
            return code
    group.timers.cancel(rebalance.session_timer(member_id))
    rebalance.remove_member(group, group.members[member_id])
    return 0
