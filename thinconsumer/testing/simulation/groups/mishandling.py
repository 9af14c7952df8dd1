"""A fault rule for requests about groups: a coordinator now and then refuses, although nothing is wrong."""

from __future__ import annotations

from ....broker.call import ApiCall
from ....broker.faults import FaultAction, Reply
from ....wire.error_codes import Code
from ....wire.find_coordinator import FindCoordinatorRequest
from ....wire.heartbeat import HeartbeatRequest
from ....wire.join_group import JoinGroupRequest
from ....wire.leave_group import LeaveGroupRequest
from ....wire.offset_commit import OffsetCommitRequest
from ....wire.offset_fetch import OffsetFetchRequest
from ....wire.sync_group import SyncGroupRequest
from ..world import World

_COORDINATOR = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS)
_MEMBER = (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS)
ERRORS: dict[int, tuple[Code, ...]] = {
    FindCoordinatorRequest.API_KEY: (Code.COORDINATOR_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR),
    JoinGroupRequest.API_KEY: (*_COORDINATOR, Code.UNKNOWN_MEMBER_ID, Code.REBALANCE_IN_PROGRESS),
    SyncGroupRequest.API_KEY: (*_COORDINATOR, *_MEMBER),
    HeartbeatRequest.API_KEY: (*_COORDINATOR, *_MEMBER),
    LeaveGroupRequest.API_KEY: (*_COORDINATOR, Code.UNKNOWN_MEMBER_ID),
    OffsetCommitRequest.API_KEY: (*_COORDINATOR, *_MEMBER, Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION),
    OffsetFetchRequest.API_KEY: (*_COORDINATOR, Code.UNSTABLE_OFFSET_COMMIT),
}


class GroupMishandling:
    """Decides about each call; given to the cluster as a rule."""

    def __init__(self, world: World, rate: float) -> None:
        self.count = 0
        self._world = world
        self._rate = rate
        self._random = world.streams("chaos/groups/requests")

    def __call__(self, call: ApiCall) -> FaultAction | None:
        """Return the refusal, None: it is handled as it should be."""
        codes = ERRORS.get(call.request.API_KEY)
        if codes is None or self._random.random() >= self._rate:
            return None
        code = self._random.choice(codes)
        if code is Code.UNSTABLE_OFFSET_COMMIT and call.version < 7:
            return None
        self.count += 1
        name = type(call.request).__name__.removesuffix("Request")
        words = f"{name} of {call.client_id}: {code.name}"
        self._world.trace.add(f"node {call.node.node_id}", "up", "refuses", "%s", words)
        return Reply(int(code))
