"""DeleteGroups 0 to 2: forget groups without members, and their offsets (KIP-229).

Version 2 is flexible; version 3 came after 4.3. Follows ``KafkaApis.handleDeleteGroupsRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..call import Api, ApiCall


def handle(call: ApiCall) -> Message | None:
    """Ask the coordinator."""
    call.node.group_coordinator.delete(
        call.request.groups_names, lambda results: call.reply(DeleteGroupsResponse(results=results))
    )
    return None


def refuse(request: DeleteGroupsRequest, version: int, code: int) -> DeleteGroupsResponse:
    """Refuse every group with one code."""
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])


API = Api(DeleteGroupsRequest, 0, 2, handle, refuse)
