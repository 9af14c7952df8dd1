"""The APIs of groups and their members; the APIs of committed offsets have modules of their own.

Each handler passes the request to the group coordinator. While a classic group rebalances, the response to JoinGroup
waits until all members have joined or the rebalance timeout is over, the response to SyncGroup until the leader's
assignment is in the log. Follows ``KafkaApis``.
"""

from thinconsumer.wire import Message
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from thinconsumer.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from thinconsumer.wire.join_group import JoinGroupRequest, JoinGroupResponse
from thinconsumer.wire.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from thinconsumer.wire.sync_group import SyncGroupRequest, SyncGroupResponse

from ..acl.bindings import AclOperation, ResourceType
from ..acl.checks import authorized_operations, denied_names, is_authorized, is_authorized_on_cluster
from ..call import Api, ApiCall, ErrorResponse, Handler, error_code_in
from ..group.joining import JoinGroupCall

#: From this version on a JoinGroup response without an elected protocol has null as protocol name; older ones have "".
NULL_PROTOCOL_FROM = 7
SYNC_PROTOCOL_NEEDED_FROM = 5
LEAVE_MANY_FROM = 3
OPERATIONS_FROM = 3


def _for_members(handle: Handler, refuse: ErrorResponse) -> Handler:
    """Return a handler that calls ``handle`` only for clients that may read the group."""

    def checked(call: ApiCall) -> Message | None:
        if is_authorized(call, AclOperation.READ, ResourceType.GROUP, call.request.group_id):
            return handle(call)
        return refuse(call.request, call.version, int(Code.GROUP_AUTHORIZATION_FAILED))

    return checked


def join_group(call: ApiCall) -> Message | None:
    """JoinGroup versions 0 to 9: join a group for the first time, or rejoin for its next generation.

    Version 0 has no rebalance timeout. From version 4 on a new dynamic member's first request gets MEMBER_ID_REQUIRED
    and a member id, with which the member repeats the request (KIP-394). Version 5 adds static members (KIP-345), 7 the
    protocol type (KIP-559), 9 ``skip_assignment`` (KIP-814).
    """

    def reply(response: JoinGroupResponse) -> None:
        call.reply(_join_response(response, call.version))

    call.node.group_coordinator.join(JoinGroupCall(call.request, call.version, call.client_id, call.client_host, reply))
    return None


def _join_response(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    name = response.protocol_name or None
    response.protocol_name = name if version >= NULL_PROTOCOL_FROM else name or ""
    return response


def sync_group(call: ApiCall) -> Message | None:
    """SyncGroup versions 0 to 5: the leader sends the assignments of all members; each member gets its own.

    Version 3 adds static members (KIP-345). From version 5 on the request must have the group's protocol type and
    protocol name (KIP-559).
    """
    request: SyncGroupRequest = call.request
    if call.version >= SYNC_PROTOCOL_NEEDED_FROM and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=int(Code.INCONSISTENT_GROUP_PROTOCOL))
    if not is_authorized(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=int(Code.GROUP_AUTHORIZATION_FAILED))
    call.node.group_coordinator.sync(request, call.reply)
    return None


def heartbeat(call: ApiCall) -> Message | None:
    """Heartbeat versions 0 to 4: keep a session alive, learn whether to rejoin. Version 3 adds static members
    (KIP-345).
    """
    call.node.group_coordinator.heartbeat(call.request, lambda code: call.reply(HeartbeatResponse(error_code=code)))
    return None


def leave_group(call: ApiCall) -> Message | None:
    """LeaveGroup versions 0 to 5: remove members from a group.

    Up to version 2 a request removes one member, and the response has one error code. From version 3 on a request
    removes several members, static ones by instance id (KIP-345), and the response has an error code for each.
    """
    request: LeaveGroupRequest = call.request
    many = call.version >= LEAVE_MANY_FROM
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]

    def reply(response: LeaveGroupResponse) -> None:
        if not many and not response.error_code:
            response = LeaveGroupResponse(error_code=response.members[0].error_code)
        call.reply(response)

    call.node.group_coordinator.leave(request.group_id, leaving, reply)
    return None


def list_groups(call: ApiCall) -> Message:
    """ListGroups versions 0 to 5: the groups that this broker coordinates. Version 4 adds a filter by state (KIP-518),
    version 5 by type (KIP-848). A client that may not describe the cluster gets only groups that it may describe.
    """
    code, groups = call.node.group_coordinator.list_groups(call.request.states_filter, call.request.types_filter)
    if not is_authorized_on_cluster(call, AclOperation.DESCRIBE):
        names = (group.group_id for group in groups)
        hidden = denied_names(call, AclOperation.DESCRIBE, ResourceType.GROUP, names)
        groups = [group for group in groups if group.group_id not in hidden]
    return ListGroupsResponse(error_code=code, groups=groups)


def describe_groups(call: ApiCall) -> Message:
    """DescribeGroups versions 0 to 6: the state and members of groups.

    A group is found once the coordinator's first record of the group is committed. Version 3 adds authorized operations
    (KIP-430). Version 4 adds static members; version 6 returns GROUP_ID_NOT_FOUND instead of the state Dead (KIP-1043).
    """
    request: DescribeGroupsRequest = call.request
    denied = denied_names(call, AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)
    requested = [name for name in request.groups if name not in denied]
    groups = call.node.group_coordinator.describe(requested, call.version)
    if call.version >= OPERATIONS_FROM and request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = authorized_operations(call, ResourceType.GROUP, group.group_id)
    code = int(Code.GROUP_AUTHORIZATION_FAILED)
    refused = [DescribedGroup(group_id=name, error_code=code) for name in request.groups if name in denied]
    return DescribeGroupsResponse(groups=[*refused, *groups])


def _refuse_describe(request: DescribeGroupsRequest, version: int, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in request.groups])


def delete_groups(call: ApiCall) -> Message | None:
    """DeleteGroups versions 0 to 2 (KIP-229): delete empty groups with their offsets. The response waits until the
    tombstones are committed.
    """
    names = call.request.groups_names
    denied = denied_names(call, AclOperation.DELETE, ResourceType.GROUP, names)
    code = int(Code.GROUP_AUTHORIZATION_FAILED)
    refused = [DeletableGroupResult(group_id=name, error_code=code) for name in denied]
    call.node.group_coordinator.delete(
        [name for name in names if name not in denied],
        lambda results: call.reply(DeleteGroupsResponse(results=[*results, *refused])),
    )
    return None


def _refuse_delete(request: DeleteGroupsRequest, version: int, code: int) -> DeleteGroupsResponse:
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])


def _refuse_join(request: JoinGroupRequest, version: int, code: int) -> JoinGroupResponse:
    return _join_response(JoinGroupResponse(error_code=code), version)


_refuse_heartbeat, _refuse_leave = error_code_in(HeartbeatResponse), error_code_in(LeaveGroupResponse)

APIS = (
    Api(JoinGroupRequest, 0, 9, _for_members(join_group, _refuse_join), _refuse_join),
    Api(SyncGroupRequest, 0, 5, sync_group, error_code_in(SyncGroupResponse)),
    Api(HeartbeatRequest, 0, 4, _for_members(heartbeat, _refuse_heartbeat), _refuse_heartbeat),
    Api(LeaveGroupRequest, 0, 5, _for_members(leave_group, _refuse_leave), _refuse_leave),
    Api(ListGroupsRequest, 0, 5, list_groups, error_code_in(ListGroupsResponse)),
    Api(DescribeGroupsRequest, 0, 6, describe_groups, _refuse_describe),
    Api(DeleteGroupsRequest, 0, 2, delete_groups, _refuse_delete),
)
