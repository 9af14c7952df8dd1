"""The APIs of groups and their members; the APIs of committed offsets have modules of their own.

Each handler passes the request to the group coordinator. The response to JoinGroup waits until all members have joined,
that to SyncGroup until the leader's assignment is in the log. Follows ``KafkaApis``.
"""

from ...wire import Message
from ...wire.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ...wire.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ...wire.error_codes import Code
from ...wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...wire.join_group import JoinGroupRequest, JoinGroupResponse
from ...wire.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...wire.list_groups import ListGroupsRequest, ListGroupsResponse
from ...wire.sync_group import SyncGroupRequest, SyncGroupResponse
from ..call import Api, ApiCall, error_code_in
from ..group.joining import JoinGroupCall

#: From this version on a JoinGroup response without an elected protocol has null as protocol name; older ones have "".
NULL_PROTOCOL_FROM = 7
SYNC_PROTOCOL_NEEDED_FROM = 5
LEAVE_MANY_FROM = 3
OPERATIONS_FROM = 3
#: The authorized operations of a group as bits: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def join_group(call: ApiCall) -> Message | None:
    """JoinGroup versions 0 to 9: join a group for the first time, or rejoin for its next generation.

    Version 0 has no rebalance timeout. From version 4 on a new member's first request gets MEMBER_ID_REQUIRED and a
    member id, with which the member repeats the request (KIP-394). Version 5 adds static members (KIP-345), 7 the
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
    version 5 by type (KIP-848).
    """
    code, groups = call.node.group_coordinator.list_groups(call.request.states_filter, call.request.types_filter)
    return ListGroupsResponse(error_code=code, groups=groups)


def describe_groups(call: ApiCall) -> Message:
    """DescribeGroups versions 0 to 6: the state and members of groups.

    A group is found once the coordinator's first record of the group is committed. Version 3 adds authorized operations
    (KIP-430): all of them, since this broker has no ACLs. Version 4 adds static members; version 6 returns
    GROUP_ID_NOT_FOUND instead of the state Dead (KIP-1043).
    """
    request: DescribeGroupsRequest = call.request
    groups = call.node.group_coordinator.describe(request.groups, call.version)
    if call.version >= OPERATIONS_FROM and request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ALL_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _refuse_describe(request: DescribeGroupsRequest, version: int, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in request.groups])


def delete_groups(call: ApiCall) -> Message | None:
    """DeleteGroups versions 0 to 2: delete empty groups with their offsets, and respond once committed (KIP-229)."""
    call.node.group_coordinator.delete(
        call.request.groups_names, lambda results: call.reply(DeleteGroupsResponse(results=results))
    )
    return None


def _refuse_delete(request: DeleteGroupsRequest, version: int, code: int) -> DeleteGroupsResponse:
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])


APIS = (
    Api(
        JoinGroupRequest, 0, 9, join_group,
        lambda request, version, code: _join_response(JoinGroupResponse(error_code=code), version),
    ),
    Api(SyncGroupRequest, 0, 5, sync_group, error_code_in(SyncGroupResponse)),
    Api(HeartbeatRequest, 0, 4, heartbeat, error_code_in(HeartbeatResponse)),
    Api(LeaveGroupRequest, 0, 5, leave_group, error_code_in(LeaveGroupResponse)),
    Api(ListGroupsRequest, 0, 5, list_groups, error_code_in(ListGroupsResponse)),
    Api(DescribeGroupsRequest, 0, 6, describe_groups, _refuse_describe),
    Api(DeleteGroupsRequest, 0, 2, delete_groups, _refuse_delete),
)  # fmt: skip
