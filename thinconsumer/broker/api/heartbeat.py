"""Heartbeat 0 to 4: a member says that it is alive, and hears whether it has to rejoin.

Version 3 has static members (KIP-345). Follows ``KafkaApis.handleHeartbeatRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..call import Api, ApiCall


def handle(call: ApiCall) -> Message | None:
    """Ask the coordinator."""
    call.node.group_coordinator.heartbeat(call.request, lambda code: call.reply(HeartbeatResponse(error_code=code)))
    return None


def refuse(request: HeartbeatRequest, version: int, code: int) -> HeartbeatResponse:
    """Refuse with one code."""
    return HeartbeatResponse(error_code=code)


API = Api(HeartbeatRequest, 0, 4, handle, refuse)
