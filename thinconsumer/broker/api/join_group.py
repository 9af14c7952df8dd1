"""JoinGroup 0 to 9: join a group, or its next generation; parked until all members have joined.

Version 0 has no rebalance timeout. Version 4 rejects a new member once, with a member id (KIP-394); version 5 adds
static members (KIP-345), version 7 the protocol type (KIP-559), version 9 ``skip_assignment`` (KIP-814). Follows
``KafkaApis.handleJoinGroupRequest`` and ``JoinGroupResponse``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.join_group import JoinGroupRequest, JoinGroupResponse
from ..call import Api, ApiCall
from ..group.joining import JoinGroupCall

#: Before this version the protocol name cannot be null; from it on an empty name means null.
NULL_PROTOCOL_FROM = 7


def handle(call: ApiCall) -> Message | None:
    """Respond when the join phase of the generation completes."""

    def reply(response: JoinGroupResponse) -> None:
        call.reply(_for_version(response, call.version))

    call.node.group_coordinator.join(JoinGroupCall(call.request, call.version, call.client_id, call.client_host, reply))
    return None


def refuse(request: JoinGroupRequest, version: int, code: int) -> JoinGroupResponse:
    """Return the error response."""
    return _for_version(JoinGroupResponse(error_code=code), version)


API = Api(JoinGroupRequest, 0, 9, handle, refuse)


def _for_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    name = response.protocol_name or None
    response.protocol_name = name if version >= NULL_PROTOCOL_FROM else name or ""
    return response
