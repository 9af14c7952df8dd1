"""DeleteGroups (key 42): delete empty groups and their committed offsets (KIP-229).

Version 2 is flexible, version 3 adds error messages (new in 4.4 brokers).
"""

from __future__ import annotations

from .message import Message
from .schema import Struct, array, int16, int32, string


class DeletableGroupResult(Struct):
    """The result for one group: error code 0 if it was deleted."""

    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(Message):
    """The outcome for each group."""

    API_KEY = 42
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")


class DeleteGroupsRequest(Message):
    """Delete groups; sent to their coordinator, which rejects groups of other coordinators with NOT_COORDINATOR."""

    RESPONSE = DeleteGroupsResponse

    groups_names: list[str] = array(string, "0+")
