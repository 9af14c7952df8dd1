"""ConsumerGroupHeartbeat: a member joins, reports what it owns, and gets its next epoch and assignment.

A heartbeat updates the member, then the group's epoch, then the target assignment, and then leads the member one step
towards its target; the records of all this are appended at once. Follows ``consumerGroupHeartbeat`` and its helpers in
Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from thinconsumer.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    TopicPartitions,
)
from thinconsumer.wire.error_codes import Code

from .. import records as classic_records
from ..group import ClassicGroup
from ..states import GroupState
from . import records, regex_refresh
from .draft import Draft
from .errors import GroupRequestError
from .fencing import check_instance, leave, schedule_all, schedule_session, time_revocation
from .group import ConsumerGroup
from .member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerGroupMember, Owned, Partitions
from .migration import upgrade
from .regex_refresh import HiddenTopics

if TYPE_CHECKING:
    from ..shard import GroupCoordinatorShard


#: The first version in which the client makes the member id (KIP-1082).
CLIENT_MEMBER_ID_FROM = 1
JOIN_EPOCH = 0


class HeartbeatCall(NamedTuple):
    """A ConsumerGroupHeartbeat with its client; ``hidden_topics`` selects the topics that the client may not see."""

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    hidden_topics: HiddenTopics

    @property
    def owned(self) -> Partitions | None:
        """The partitions that the member reports to own, None if the request has no such report."""
        rows = self.request.topic_partitions
        if rows is None:
            return None
        found: dict[bytes, list[int]] = {}
        for row in rows:
            found.setdefault(row.topic_id, []).extend(row.partitions)
        return found

    @property
    def is_full(self) -> bool:
        """Whether the request repeats timeout, subscription and partitions, as after a lost response: the response then
        has the assignment.
        """
        request = self.request
        has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Check a request. Raises: GroupRequestError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    needs_id = version >= CLIENT_MEMBER_ID_FROM or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    if needs_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    for value, name in (
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        raise GroupRequestError(Code.UNSUPPORTED_ASSIGNOR, text)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> GroupRequestError:
    return GroupRequestError(Code.INVALID_REQUEST, message)


def error_response(error: GroupRequestError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def handle(shard: GroupCoordinatorShard, call: HeartbeatCall) -> ConsumerGroupHeartbeatResponse:
    """Handle a heartbeat that :func:`check_heartbeat` has accepted; append what it changes, and return the response."""
    try:
        if call.request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return leave(shard, call.request)
        return _heartbeat(shard, call)
    except GroupRequestError as error:
        return error_response(error)


def _heartbeat(shard: GroupCoordinatorShard, call: HeartbeatCall) -> ConsumerGroupHeartbeatResponse:
    request = call.request
    group_id = request.group_id
    draft = begin(shard, group_id, creates=request.member_epoch == JOIN_EPOCH)
    member_id = request.member_id or new_member_id(shard)
    check_size(shard, draft.group, member_id)
    before = _member(draft, call, member_id)
    updated = _updated(before, call)
    regex = regex_refresh.change_of(draft.group, before, updated)
    draft.put_member(updated)
    draft.drop_unused_regexes()
    has_other_topics = updated.subscribed_topic_names != before.subscribed_topic_names
    draft.update_epoch(must_bump=has_other_topics or regex.is_resolved)
    draft.update_target()
    has_changed = has_other_topics or regex.has_changed
    after = draft.reconcile(member_id, call.owned, has_subscription_changed=has_changed)
    must_resolve = regex_refresh.is_due(shard, draft.group, regex)
    if draft.append():
        if after != updated:
            time_revocation(shard, group_id, after)
        schedule_session(shard, group_id, member_id)
        if must_resolve:
            regex_refresh.schedule(shard, group_id, call.hidden_topics)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=shard.config.group_consumer_heartbeat_interval_ms,
    )
    if request.member_epoch == JOIN_EPOCH or call.is_full or _indexes(before.assigned) != _indexes(after.assigned):
        response.assignment = _assignment(after.assigned)
    return response


def begin(shard: GroupCoordinatorShard, group_id: str, *, creates: bool) -> Draft:
    """Begin an operation on a consumer group. With ``creates``, a missing group is created, and a classic group that is
    empty or may be moved becomes a consumer group.

    Raises:
        GroupRequestError: GROUP_ID_NOT_FOUND.
    """
    group = shard.latest.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return Draft(shard, group)
    if not creates:
        text = (
            f"Consumer group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        )
        raise GroupRequestError(Code.GROUP_ID_NOT_FOUND, text)
    draft = Draft(shard, ConsumerGroup(group_id))
    if isinstance(group, ClassicGroup):
        if group.state is GroupState.EMPTY:
            draft.add([classic_records.group_tombstone(group_id)])
        else:
            upgrade(shard, draft, group)
            draft.on_appended.append(partial(schedule_all, shard, group_id))
    return draft


def check_size(shard: GroupCoordinatorShard, group: ConsumerGroup, member_id: str) -> None:
    """Reject new members of a full group. Raises: GroupRequestError: GROUP_MAX_SIZE_REACHED."""
    limit = shard.config.group_consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        text = f"The consumer group has reached its maximum capacity of {limit} members."
        raise GroupRequestError(Code.GROUP_MAX_SIZE_REACHED, text)


def new_member_id(shard: GroupCoordinatorShard) -> str:
    """Return a random id in the form of Kafka's ``Uuid``."""
    return base64.urlsafe_b64encode(shard.random_bytes(16)).decode().rstrip("=")


def _member(draft: Draft, call: HeartbeatCall, member_id: str) -> ConsumerGroupMember:
    """Return the member that sends the heartbeat, a new one if an unknown member joins.

    Raises:
        GroupRequestError: The member or its epoch is not known, or another member has the instance id.
    """
    request, group = call.request, draft.group
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        member = group.members.get(member_id) if joins else group.member(member_id)
        member = member or ConsumerGroupMember(member_id)
    else:
        found = group.static_member(request.instance_id)
        if joins:
            return _joining_static(draft, found, request.instance_id, member_id)
        member = check_instance(found, member_id, request.instance_id)
    _check_epoch(member, request.member_epoch, call.owned)
    return member


def _joining_static(
    draft: Draft, existing: ConsumerGroupMember | None, instance_id: str, member_id: str
) -> ConsumerGroupMember:
    """Return the static member that joins. A member with this instance id that has left for a while, or that uses the
    classic protocol, gets the new member id.

    Raises:
        GroupRequestError: UNRELEASED_INSTANCE_ID: another member has the instance id.
    """
    group = draft.group
    if existing is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if existing.classic is None and existing.member_epoch != LEAVE_STATIC_EPOCH:
        text = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {existing.member_id} member."
        )
        raise GroupRequestError(Code.UNRELEASED_INSTANCE_ID, text)
    return replace_static(draft, existing, member_id)


def replace_static(draft: Draft, existing: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
    """Give another member id to a static member that has restarted; the member keeps its partitions and its target."""
    group_id = draft.group.group_id
    member = replace(existing, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    target = draft.group.target(existing.member_id)
    draft.add(records.removal_of_member(group_id, existing.member_id))
    draft.add(
        [
            records.member_record(group_id, member),
            records.target_record(group_id, member_id, target),
            records.current_record(group_id, member),
        ]
    )
    return member


def _check_epoch(member: ConsumerGroupMember, epoch: int, owned: Partitions | None) -> None:
    """Check the epoch that a member sends: that of a join, its current epoch, or its previous one if the response with
    the current one may have been lost.

    Raises:
        GroupRequestError: FENCED_MEMBER_EPOCH.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    if epoch < member.member_epoch and epoch == member.previous_member_epoch and _has_all(member.assigned, owned):
        return
    comparison = "greater" if epoch > member.member_epoch else "smaller"
    text = (
        f"The consumer group member has a {comparison} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise GroupRequestError(Code.FENCED_MEMBER_EPOCH, text)


def _has_all(assigned: Owned, owned: Partitions | None) -> bool:
    if owned is None:
        return False
    return all(index in assigned.get(topic_id, ()) for topic_id, indexes in owned.items() for index in indexes)


def _updated(member: ConsumerGroupMember, call: HeartbeatCall) -> ConsumerGroupMember:
    """Return the member with the fields that its request has; a null field, or a timeout of -1, has not changed."""
    request = call.request
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=call.client_id,
        client_host=call.client_host,
        classic=None,
    )


def _indexes(owned: Owned) -> Mapping[bytes, set[int]]:
    return {topic_id: set(indexes) for topic_id, indexes in owned.items() if indexes}


def _assignment(owned: Owned) -> HeartbeatAssignment:
    rows = [TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in owned.items()]
    return HeartbeatAssignment(topic_partitions=rows)
