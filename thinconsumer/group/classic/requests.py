"""What a member says to its coordinator, as messages: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Pure functions of who speaks and what about; when to say it is the member's business. KIP-62, KIP-345, KIP-559, KIP-800.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ...wire.leave_group import LeaveGroupRequest, MemberIdentity
from ...wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ..identity import Identity
from ..settings import GroupSettings

#: Java's limit: reasons are for the broker's log, and one line of it.
REASON_MAX = 255
#: The first versions that know static members. Spoken to in an older one, a broker would take us for a dynamic member.
STATIC_SINCE: Mapping[type[Message], int] = {
    JoinGroupRequest: 5,
    SyncGroupRequest: 3,
    HeartbeatRequest: 3,
    LeaveGroupRequest: 3,
}


def lowest_version(api: type[Message], who: Identity) -> int:
    """Return the lowest version in which this member can be spoken for."""
    return 0 if who.group_instance_id is None else STATIC_SINCE[api]


def reason_of(words: str) -> str:
    """Return a reason as it may be sent."""
    return words[:REASON_MAX]


def join(
    settings: GroupSettings, who: Identity, protocol_type: str, protocols: Sequence[tuple[str, bytes]], reason: str
) -> JoinGroupRequest:
    """Ask to be in the next generation."""
    return JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        # How long the others wait for us to come: we come when the user polls.
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        reason=reason_of(reason),
    )


def sync(who: Identity, protocol_type: str, protocol: str, plan: Mapping[str, bytes]) -> SyncGroupRequest:
    """Hand in the plan, if we lead, and ask for our share of it."""
    return SyncGroupRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(member_id=m, assignment=share) for m, share in plan.items()],
    )


def heartbeat(who: Identity) -> HeartbeatRequest:
    """Say that we are alive."""
    return HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
    )


def leave(who: Identity, reason: str, version: int) -> LeaveGroupRequest:
    """Say goodbye."""
    if version < 3:
        return LeaveGroupRequest(group_id=who.group_id, member_id=who.member_id)
    member = MemberIdentity(member_id=who.member_id, group_instance_id=who.group_instance_id, reason=reason_of(reason))
    return LeaveGroupRequest(group_id=who.group_id, members=[member])
