"""The requests of a member (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), and what their responses must have.

Pure functions of the member's identity and their arguments; ``ClassicMember`` decides when to send a request. KIP-62,
KIP-345, KIP-559, KIP-800.
"""

from collections.abc import Collection, Mapping, Sequence

from ...errors import KafkaError, KafkaProtocolError
from ...network.negotiate import api_name
from ...network.request import Answer
from ...wire import Message
from ...wire.error_codes import Code, to_error
from ...wire.heartbeat import HeartbeatRequest
from ...wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ...wire.leave_group import LeaveGroupRequest, MemberIdentity
from ...wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ..coordinator import GroupSettings
from ..identity import Identity

#: Seconds that a JoinGroup may take beyond the rebalance timeout, as in Java.
JOIN_GRACE = 5.0
#: The longest reason in characters, as in Java: the broker writes reasons into its log.
REASON_MAX = 255
#: The first versions with group.instance.id. In an older one the broker would treat a static member as dynamic.
STATIC_SINCE: dict[type[Message], int] = {
    JoinGroupRequest: 5,
    SyncGroupRequest: 3,
    HeartbeatRequest: 3,
    LeaveGroupRequest: 3,
}


def join(
    settings: GroupSettings, who: Identity, protocol_type: str, protocols: Sequence[tuple[str, bytes]], reason: str
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        # The coordinator waits this long for members to rejoin, and a member rejoins only when the user polls.
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        reason=reason[:REASON_MAX],
    )


def sync(who: Identity, protocol_type: str, protocol: str, plan: Mapping[str, bytes]) -> SyncGroupRequest:
    """Return a SyncGroup request; ``plan`` holds all assignments by member id, and is empty for a follower."""
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
    return HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
    )


def leave(who: Identity, reason: str, version: int) -> LeaveGroupRequest:
    """Return a LeaveGroup request; version 3 and later carry the instance id and, since KIP-800, the reason."""
    if version < 3:
        return LeaveGroupRequest(group_id=who.group_id, member_id=who.member_id)
    member = MemberIdentity(
        member_id=who.member_id, group_instance_id=who.group_instance_id, reason=reason[:REASON_MAX]
    )
    return LeaveGroupRequest(group_id=who.group_id, members=[member])


def unusable(answer: Answer, protocol_type: str, offered: Collection[str]) -> KafkaError | None:
    """Return the error in a successful JoinGroup or SyncGroup response, or None.

    The error is a missing member id or generation, another protocol type, or a protocol that was not ``offered``. A
    SyncGroup response may name no protocol (KIP-559).
    """
    response, is_join = answer.response, answer.request.api is JoinGroupRequest
    if is_join and (response.generation_id < 0 or not response.member_id):
        return KafkaProtocolError(
            f"broker {answer.node_id} answered JoinGroup with member {response.member_id!r} "
            f"in generation {response.generation_id}; expected a member id and a generation from 0"
        )
    elected = response.protocol_name
    is_offered = elected in offered or (elected is None and not is_join)
    if is_offered and response.protocol_type in (None, protocol_type):
        return None
    return to_error(
        Code.INCONSISTENT_GROUP_PROTOCOL,
        api=api_name(answer.request.api),
        node_id=answer.node_id,
        detail=f"the response names protocol {elected!r} of type {response.protocol_type!r}",
    )
