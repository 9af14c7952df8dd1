"""ListGroups 0 to 5: the groups that this broker coordinates.

Version 4 filters by state (KIP-518), version 5 by type (KIP-848). Follows ``KafkaApis.handleListGroupsRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.list_groups import ListGroupsRequest, ListGroupsResponse
from ..call import Api, ApiCall


def handle(call: ApiCall) -> Message | None:
    """List the groups of this coordinator."""
    code, groups = call.node.group_coordinator.list_groups(call.request.states_filter, call.request.types_filter)
    return ListGroupsResponse(error_code=code, groups=groups)


def refuse(request: ListGroupsRequest, version: int, code: int) -> ListGroupsResponse:
    """Return the error response."""
    return ListGroupsResponse(error_code=code)


API = Api(ListGroupsRequest, 0, 5, handle, refuse)
