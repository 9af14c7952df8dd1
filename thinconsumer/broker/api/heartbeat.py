"""Heartbeat 0 to 4: keep a group member's session alive; the response tells whether to rejoin.

Version 3 adds static members (KIP-345). Follows ``KafkaApis.handleHeartbeatRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..call import Api, ApiCall


def handle(call: ApiCall) -> Message | None:
    """Pass the heartbeat to the coordinator."""
    call.node.group_coordinator.heartbeat(call.request, lambda code: call.reply(HeartbeatResponse(error_code=code)))
    return None


def refuse(request: HeartbeatRequest, version: int, code: int) -> HeartbeatResponse:
    """Return the error response."""
    return HeartbeatResponse(error_code=code)


API = Api(HeartbeatRequest, 0, 4, handle, refuse)
