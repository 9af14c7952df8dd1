"""SyncGroup 0 to 5: the leader sends the assignment, each member gets its part; parked until it is in the log.

Version 3 adds static members (KIP-345). From version 5 on protocol type and name are required and must be the group's
(KIP-559). Follows ``KafkaApis.handleSyncGroupRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.error_codes import Code
from ...wire.sync_group import SyncGroupRequest, SyncGroupResponse
from ..call import Api, ApiCall

PROTOCOL_NEEDED_FROM = 5


def handle(call: ApiCall) -> Message | None:
    """Respond when the assignment is in the log."""
    request: SyncGroupRequest = call.request
    if call.version >= PROTOCOL_NEEDED_FROM and None in (request.protocol_type, request.protocol_name):
        return refuse(request, call.version, int(Code.INCONSISTENT_GROUP_PROTOCOL))
    call.node.group_coordinator.sync(request, call.reply)
    return None


def refuse(request: SyncGroupRequest, version: int, code: int) -> SyncGroupResponse:
    """Return the error response."""
    return SyncGroupResponse(error_code=code)


API = Api(SyncGroupRequest, 0, 5, handle, refuse)
