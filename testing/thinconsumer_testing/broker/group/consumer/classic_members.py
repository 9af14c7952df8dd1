"""Members of a consumer group that use the classic protocol, while a group is moved from one protocol to the other.

Their generation is their member epoch, and the coordinator computes their assignments: no member is the leader. A
heartbeat response tells them to rejoin for each step of the reconciliation. Follows ``classicGroup*ToConsumerGroup`` in
Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from thinconsumer.errors import KafkaProtocolError
from thinconsumer.wire.consumer_protocol import ConsumerProtocolSubscription, decode_subscription
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupResponse
from thinconsumer.wire.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

from ..group import CONSUMER, UNKNOWN_MEMBER_ID
from ..joining import KNOWN_MEMBER_ID_FROM, JoinGroupCall
from ..member import Protocols
from ..timers import TimerKind
from .draft import Draft
from .errors import GroupRequestError
from .fencing import check_instance, remove_members, schedule_removal, schedule_session
from .group import ConsumerGroup
from .heartbeat import check_size, new_member_id, replace_static
from .member import ClassicMetadata, ConsumerGroupMember, Partitions
from .migration import can_downgrade, encoded_assignment, to_classic_group
from .states import AssignmentState

if TYPE_CHECKING:
    from ..shard import GroupCoordinatorShard

log = logging.getLogger(__name__)


def join(shard: GroupCoordinatorShard, group: ConsumerGroup, call: JoinGroupCall) -> JoinGroupResponse:
    """Handle JoinGroup: the member joins, or goes one step towards its target assignment."""
    try:
        return _join(shard, group, call)
    except GroupRequestError as error:
        return JoinGroupResponse(error_code=error.code)


def _join(shard: GroupCoordinatorShard, group: ConsumerGroup, call: JoinGroupCall) -> JoinGroupResponse:
    request, protocols = call.request, call.protocols
    member_id = request.member_id or new_member_id(shard)
    check_size(shard, group, member_id)
    if request.protocol_type != CONSUMER or not _supports(group, [name for name, _ in protocols]):
        raise GroupRequestError(Code.INCONSISTENT_GROUP_PROTOCOL, "The member's protocols are not supported.")
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    if is_unknown and request.group_instance_id is None and call.version >= KNOWN_MEMBER_ID_FROM:
        return JoinGroupResponse(member_id=member_id, error_code=int(Code.MEMBER_ID_REQUIRED))
    subscription = _subscription(protocols)
    draft = Draft(shard, group)
    replaced = group.static_member(request.group_instance_id)
    downgrades = replaced is not None and replaced.classic is None and can_downgrade(shard, group, [replaced], 1)
    before = _member(draft, call, member_id)
    draft.put_member(_updated(before, call, subscription))
    draft.drop_unused_regexes()
    member = draft.group.members[member_id]
    has_changed = (member.subscribed_topic_names, member.subscribed_topic_regex) != (
        before.subscribed_topic_names,
        before.subscribed_topic_regex,
    )
    draft.update_epoch(must_bump=has_changed)
    owned = _owned(shard, subscription)
    if not downgrades:
        draft.update_target()
    if not (downgrades and has_changed):
        member = draft.reconcile(member_id, owned, has_subscription_changed=has_changed)
    if downgrades:
        reason = "the last member of the consumer group protocol uses the classic protocol now"
        to_classic_group(shard, draft, reason, needs_rebalance=has_changed)
    elif draft.append():
        for kind in (TimerKind.JOIN, TimerKind.REBALANCE):
            shard.member_timers.cancel((group.group_id, member_id, kind))
        schedule_session(shard, group.group_id, member_id, request.session_timeout_ms)
        reason = "it has not sent SyncGroup in time"
        schedule_removal(shard, group.group_id, member_id, TimerKind.SYNC, call.rebalance_timeout_ms, reason)
    return JoinGroupResponse(
        member_id=member_id, generation_id=member.member_epoch, protocol_type=CONSUMER, protocol_name=protocols[0][0]
    )


def _supports(group: ConsumerGroup, names: Collection[str]) -> bool:
    """Return whether all members that use the classic protocol support at least one common protocol of ``names``."""
    classic = [{name for name, _ in m.classic.protocols} for m in group.members.values() if m.classic is not None]
    return any(all(name in supported for supported in classic) for name in names)


def _subscription(protocols: Protocols) -> ConsumerProtocolSubscription:
    try:
        return decode_subscription(protocols[0][1])
    except KafkaProtocolError as error:
        raise GroupRequestError(Code.UNKNOWN_SERVER_ERROR, f"Malformed embedded consumer protocol: {error}") from None


def _member(draft: Draft, call: JoinGroupCall, member_id: str) -> ConsumerGroupMember:
    """Return the member that joins. A restarted static member takes the place of the former one at once."""
    request, group = call.request, draft.group
    existing = group.static_member(request.group_instance_id)
    if request.group_instance_id is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if request.member_id != UNKNOWN_MEMBER_ID:
        return check_instance(existing, member_id, request.group_instance_id)
    return ConsumerGroupMember(member_id) if existing is None else replace_static(draft, existing, member_id)


def _updated(
    member: ConsumerGroupMember, call: JoinGroupCall, subscription: ConsumerProtocolSubscription
) -> ConsumerGroupMember:
    instance_id = call.request.group_instance_id
    return replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=call.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=call.client_id,
        client_host=call.client_host,
        classic=ClassicMetadata(call.request.session_timeout_ms, call.protocols),
    )


def _owned(shard: GroupCoordinatorShard, subscription: ConsumerProtocolSubscription) -> Partitions:
    topics = shard.image.topics
    found: dict[bytes, list[int]] = {}
    for row in subscription.owned_partitions:
        if row.topic in topics:
            found.setdefault(topics[row.topic].topic_id, []).extend(row.partitions)
    return found


def sync(shard: GroupCoordinatorShard, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    """Handle SyncGroup: return what the member may own now, unless it has to rejoin first."""
    try:
        member, classic = _classic_member(group, request)
        _check_protocol(classic, request)
        if group.epoch > member.member_epoch and member.state is not AssignmentState.UNREVOKED_PARTITIONS:
            _await_join(shard, group, member)
            raise GroupRequestError(Code.REBALANCE_IN_PROGRESS, "A new epoch has begun.")
    except GroupRequestError as error:
        return SyncGroupResponse(error_code=error.code)
    shard.member_timers.cancel((group.group_id, member.member_id, TimerKind.SYNC))
    schedule_session(shard, group.group_id, member.member_id, classic.session_timeout_ms)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encoded_assignment(member.assigned, classic.protocols[0][1], shard.image),
    )


def _check_protocol(classic: ClassicMetadata, request: SyncGroupRequest) -> None:
    name = classic.protocols[0][0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise GroupRequestError(Code.INCONSISTENT_GROUP_PROTOCOL, "The member has joined with another protocol.")


def heartbeat(shard: GroupCoordinatorShard, group: ConsumerGroup, request: HeartbeatRequest) -> int:
    """Handle Heartbeat: restart the session timeout; return REBALANCE_IN_PROGRESS if the member has to rejoin."""
    try:
        member, classic = _classic_member(group, request)
    except GroupRequestError as error:
        return error.code
    schedule_session(shard, group.group_id, member.member_id, classic.session_timeout_ms)
    must_rejoin = (
        member.member_epoch < group.epoch
        or member.state is AssignmentState.UNREVOKED_PARTITIONS
        or (member.state is AssignmentState.UNRELEASED_PARTITIONS and _has_free_partitions(group, member))
    )
    if not must_rejoin:
        return 0
    _await_join(shard, group, member)
    return int(Code.REBALANCE_IN_PROGRESS)


def _has_free_partitions(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether no other member owns any of the partitions that the member waits for."""
    return all(
        index in member.assigned.get(topic_id, ()) or group.partition_epoch(topic_id, index) < 0
        for topic_id, indexes in group.target(member.member_id).items()
        for index in indexes
    )


def _await_join(shard: GroupCoordinatorShard, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Remove the member unless it rejoins within its rebalance timeout, from the first REBALANCE_IN_PROGRESS on."""
    kind, group_id, member_id = TimerKind.JOIN, group.group_id, member.member_id
    if (group_id, member_id, kind) not in shard.member_timers:
        reason = "it has not rejoined in time"
        schedule_removal(shard, group_id, member_id, kind, member.rebalance_timeout_ms, reason)


def _classic_member(
    group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest
) -> tuple[ConsumerGroupMember, ClassicMetadata]:
    """Return the member that sends a request of the classic protocol.

    Raises:
        GroupRequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
    """
    if request.group_instance_id is None:
        member = group.member(request.member_id)
    else:
        found = group.static_member(request.group_instance_id)
        member = check_instance(found, request.member_id, request.group_instance_id)
    if member.classic is None:
        text = f"Member {member.member_id} does not use the classic protocol."
        raise GroupRequestError(Code.UNKNOWN_MEMBER_ID, text)
    if request.generation_id != member.member_epoch:
        raise GroupRequestError(Code.ILLEGAL_GENERATION, "The generation is not the epoch of the member.")
    return member, member.classic


def leave(shard: GroupCoordinatorShard, group: ConsumerGroup, leaving: Sequence[MemberIdentity]) -> LeaveGroupResponse:
    """Handle LeaveGroup, by which administrators also remove members of the consumer group protocol."""
    responses: list[MemberResponse] = []
    found: dict[str, ConsumerGroupMember] = {}
    for identity in leaving:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        response = MemberResponse(member_id=member_id, group_instance_id=instance_id)
        responses.append(response)
        try:
            if instance_id is None:
                member = group.member(member_id)
            else:
                existing = group.static_member(instance_id)
                wanted = existing.member_id if existing is not None and not member_id else member_id
                member = check_instance(existing, wanted, instance_id)
            found[member.member_id] = member
        except GroupRequestError as error:
            response.error_code = error.code
    if found:
        remove_members(shard, group, list(found.values()))
    return LeaveGroupResponse(members=responses)
