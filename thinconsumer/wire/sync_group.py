"""SyncGroup (key 14): the leader sends the assignments of all members, each member receives its own.

Version 3 adds the group instance id (KIP-345), version 4 is flexible, version 5 adds protocol type and name to request
and response, so that client and coordinator can detect a mismatch (KIP-559).
"""

from .message import Message
from .schema import Struct, array, binary, int16, int32, string


class SyncGroupResponse(Message, key=14, versions=(0, 5), flexible=4):
    """This member's assignment, as bytes in the format of the protocol type (see ``consumer_protocol``)."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary("0+")


class SyncGroupRequestAssignment(Struct):
    member_id: str = string("0+")
    assignment: bytes = binary("0+")


class SyncGroupRequest(Message, response=SyncGroupResponse):
    """Request this member's assignment; only the leader fills ``assignments``, with those of all members."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")
