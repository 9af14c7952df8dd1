"""DescribeGroups 0 to 6: who is in a group, and which state it is in.

Version 3 can say what the asker may do with it (KIP-430): everything, where nobody is refused anything. Version 4 tells
static members, version 6 answers GROUP_ID_NOT_FOUND where there was only the state Dead before (KIP-1043). Follows
``KafkaApis.handleDescribeGroupsRequest``.
"""

from __future__ import annotations

from ...wire import Message
from ...wire.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ..call import Api, ApiCall

OPERATIONS_FROM = 3
#: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, a bit each.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def handle(call: ApiCall) -> Message | None:
    """Ask the coordinator."""
    request: DescribeGroupsRequest = call.request
    groups = call.node.group_coordinator.describe(request.groups, call.version)
    if call.version >= OPERATIONS_FROM and request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = ALL_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def refuse(request: DescribeGroupsRequest, version: int, code: int) -> DescribeGroupsResponse:
    """Refuse every group with one code."""
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, error_code=code) for name in request.groups])


API = Api(DescribeGroupsRequest, 0, 6, handle, refuse)
