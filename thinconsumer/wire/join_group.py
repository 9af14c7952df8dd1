"""JoinGroup (key 11): join a group or its next generation, which begins when all members have joined, or the rebalance
timeout has passed.

The rebalance timeout is a field of its own from version 1 on. From version 4 on the coordinator rejects the first
request of a new member, unless it is static, with MEMBER_ID_REQUIRED and a member id to join with (KIP-394), so that a
lost response leaves no member behind that never heartbeats. Version 5 adds the group instance id (KIP-345), version 6
is flexible, version 7 returns the protocol type (KIP-559), version 8 takes a reason for the broker's log (KIP-800),
version 9 adds ``skip_assignment`` for a static leader that rejoins (KIP-814).
"""

from .message import Message
from .schema import Struct, array, binary, boolean, int16, int32, string


class JoinGroupResponseMember(Struct):
    """A member and its metadata for the chosen protocol; only the leader receives these."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary("0+")


class JoinGroupResponse(Message, key=11, versions=(0, 9), flexible=6):
    """The group's new generation, the member id of its leader, and the protocol that the coordinator has chosen."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")


class JoinGroupRequestProtocol(Struct):
    """One protocol that the member supports (for consumers: an assignor), and its metadata for that protocol."""

    name: str = string("0+")
    metadata: bytes = binary("0+")


class JoinGroupRequest(Message, response=JoinGroupResponse):
    """Join the next generation; ``protocols`` come in order of preference."""

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)
