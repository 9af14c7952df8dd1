"""DescribeGroups (key 15): the state and the members of classic groups.

Version 3 can include the operations that the client is authorized for (KIP-430), version 4 adds group instance ids
(KIP-345), version 5 is flexible, version 6 answers GROUP_ID_NOT_FOUND instead of a group in state Dead (KIP-1043).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, binary, boolean, int16, int32, string


class DescribedGroupMember(Struct):
    """One member of the group; its metadata and assignment are empty unless the group is in state Stable."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")


class DescribedGroup(Struct):
    """The state, protocol and members of one group, or an error."""

    error_code: int = int16("0+")
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-(2**31))


class DescribeGroupsResponse(Message):
    """The description of each group."""

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE = 5

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class DescribeGroupsRequest(Message):
    """Request descriptions of groups; sent to the broker that is the coordinator of all of them."""

    RESPONSE = DescribeGroupsResponse

    groups: list[str] = array(string, "0+")
    include_authorized_operations: bool = boolean("3+")
