"""JoinGroup (key 11): enter a group, or its next generation; the answer comes when all members are in.

The rebalance timeout is its own field from version 1 on. From version 4 on the coordinator turns a newcomer away once,
with MEMBER_ID_REQUIRED and an id to come back with (KIP-394), so that a lost answer leaves no ghost. Version 5 adds
static members (KIP-345), version 6 is flexible, version 7 answers with the protocol type (KIP-559), version 8 takes a
reason for the broker's log (KIP-800), version 9 tells a returning static leader to leave the assignment alone
(KIP-814).
"""

from __future__ import annotations

from dataclasses import dataclass

from .message import Message
from .schema import Struct, array, binary, boolean, int16, int32, string


@dataclass(slots=True, kw_only=True)
class JoinGroupResponseMember(Struct):
    """A member and what it said of itself under the elected protocol; only the leader gets these."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary("0+")


@dataclass(slots=True, kw_only=True)
class JoinGroupResponse(Message):
    """The new generation: who leads it, and which protocol was elected."""

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE = 6

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")


@dataclass(slots=True, kw_only=True)
class JoinGroupRequestProtocol(Struct):
    """One protocol (for consumers: assignor) the member is willing to use, and its metadata under it."""

    name: str = string("0+")
    metadata: bytes = binary("0+")


@dataclass(slots=True, kw_only=True)
class JoinGroupRequest(Message):
    """Ask to be in the next generation; ``protocols`` in order of preference."""

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE = 6
    RESPONSE = JoinGroupResponse

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)
