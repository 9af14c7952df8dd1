"""LeaveGroup (key 13): remove members from a group without waiting for their session timeout.

A request names one member up to version 2. From version 3 on it can name several, static ones by their group instance
id (KIP-345). Version 4 is flexible, version 5 takes a reason for the broker's log (KIP-800).
"""

from .message import Message
from .schema import Struct, array, int16, int32, string


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, key=13, versions=(0, 5), flexible=4):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")


class MemberIdentity(Struct):
    """A member to remove; a static member may be named by its group instance id alone."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, response=LeaveGroupResponse):
    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")
