"""LeaveGroup (key 13): members go at once instead of being missed after their session timeout.

From version 3 on several members can be sent away in one request, static ones by their instance id (KIP-345); before
that the request names one member. Version 4 is flexible, version 5 takes a reason for the broker's log (KIP-800).
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, int16, int32, string


@dataclass(slots=True, kw_only=True)
class MemberResponse(Struct):
    """Whether one member was removed."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


@dataclass(slots=True, kw_only=True)
class LeaveGroupResponse(Message):
    """Whether the request was understood at all, and from version 3 on what became of each member."""

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")


@dataclass(slots=True, kw_only=True)
class MemberIdentity(Struct):
    """A member that goes; a static one may be named by its instance id alone."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@dataclass(slots=True, kw_only=True)
class LeaveGroupRequest(Message):
    """Remove ``members`` from version 3 on, ``member_id`` before."""

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    RESPONSE = LeaveGroupResponse

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")
