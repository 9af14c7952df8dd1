"""ListGroups (key 16): the groups that a broker coordinates.

Version 3 is flexible, version 4 filters by state (KIP-518), version 5 by type (KIP-848).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int16, int32, string


class ListedGroup(Struct):
    """One group that the broker coordinates."""

    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Message):
    """The groups that the broker coordinates. For the groups of the whole cluster, ask every broker."""

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")


class ListGroupsRequest(Message):
    """Request the groups that the broker coordinates; an empty filter (states, types) selects all groups."""

    RESPONSE = ListGroupsResponse

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")
