"""LeaveGroup 0 to 5: remove members from a group.

Up to version 2 one member, with its error as that of the response; from version 3 on several with an error each, static
members by instance id (KIP-345). Follows ``KafkaApis.handleLeaveGroupRequest`` and ``LeaveGroupResponse``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ..call import Api, ApiCall

MANY_FROM = 3


def handle(call: ApiCall) -> Message | None:
    """Remove the members at the coordinator."""
    request: LeaveGroupRequest = call.request
    many = call.version >= MANY_FROM
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]

    def reply(response: LeaveGroupResponse) -> None:
        if not many and not response.error_code:
            response = LeaveGroupResponse(error_code=response.members[0].error_code)
        call.reply(response)

    call.node.group_coordinator.leave(request.group_id, leaving, reply)
    return None


def refuse(request: LeaveGroupRequest, version: int, code: int) -> LeaveGroupResponse:
    """Return the error response."""
    return LeaveGroupResponse(error_code=code)


API = Api(LeaveGroupRequest, 0, 5, handle, refuse)
