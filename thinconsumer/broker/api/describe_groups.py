"""DescribeGroups 0 to 6: the state and members of groups.

Version 3 adds authorized operations (KIP-430): all of them, since this broker has no ACLs. Version 4 adds static
members; version 6 returns GROUP_ID_NOT_FOUND instead of the state Dead (KIP-1043). Follows
``KafkaApis.handleDescribeGroupsRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ..call import Api, ApiCall

OPERATIONS_FROM = 3
#: Bits of READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def handle(call: ApiCall) -> Message | None:
    """Describe the groups as the coordinator has committed them."""
    request: DescribeGroupsRequest = call.request
    groups = call.node.group_coordinator.describe(request.groups, call.version)
    if call.version >= OPERATIONS_FROM and request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ALL_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def refuse(request: DescribeGroupsRequest, version: int, code: int) -> DescribeGroupsResponse:
    """Return the response with an error code for every group."""
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in request.groups])


API = Api(DescribeGroupsRequest, 0, 6, handle, refuse)
