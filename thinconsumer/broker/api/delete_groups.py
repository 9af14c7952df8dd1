"""DeleteGroups 0 to 2: delete empty groups with their offsets (KIP-229).

Version 2 is flexible; version 3 is newer than 4.3. Follows ``KafkaApis.handleDeleteGroupsRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..call import Api, ApiCall


def handle(call: ApiCall) -> Message | None:
    """Delete them at the coordinator; respond when the log has it."""
    call.node.group_coordinator.delete(
        call.request.groups_names, lambda results: call.reply(DeleteGroupsResponse(results=results))
    )
    return None


def refuse(request: DeleteGroupsRequest, version: int, code: int) -> DeleteGroupsResponse:
    """Return the response with an error code for every group."""
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])


API = Api(DeleteGroupsRequest, 0, 2, handle, refuse)
