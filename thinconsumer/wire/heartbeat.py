"""Heartbeat (key 12): keep a member's session in a classic group alive; the response reports a rebalance.

Version 3 adds the group instance id (KIP-345), version 4 is flexible.
"""

from .message import Message
from .schema import int16, int32, string


class HeartbeatResponse(Message, key=12, versions=(0, 4), flexible=4):
    """Error code 0 if the member may continue, else an error: REBALANCE_IN_PROGRESS, for example, makes it rejoin."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")


class HeartbeatRequest(Message, response=HeartbeatResponse):
    """Tell the coordinator that this member is alive, which restarts its session timeout."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
