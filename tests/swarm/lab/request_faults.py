"""Fault rules for requests: a broker answers with an error, answers late, disconnects, or never answers.

Each rule is a callable for :meth:`Cluster.on`; its errors are those that a broker may return to a correct request.
"""

from collections.abc import Mapping

from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from thinconsumer.wire.error_codes import Code
from thinconsumer.wire.fetch import FetchRequest
from thinconsumer.wire.find_coordinator import FindCoordinatorRequest
from thinconsumer.wire.groups import DescribeGroupsRequest
from thinconsumer.wire.heartbeat import HeartbeatRequest
from thinconsumer.wire.join_group import JoinGroupRequest
from thinconsumer.wire.leave_group import LeaveGroupRequest
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest
from thinconsumer.wire.offset_commit import OffsetCommitRequest
from thinconsumer.wire.offset_fetch import OffsetFetchRequest
from thinconsumer.wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from thinconsumer.wire.sync_group import SyncGroupRequest
from thinconsumer_testing.broker.call import ApiCall
from thinconsumer_testing.broker.faults import Delay, Disconnect, FaultAction, Reply, Silence
from thinconsumer_testing.simulation.world import World

from .knobs import Knobs

_PASSING = (Code.UNKNOWN_SERVER_ERROR, Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR)
ERRORS: dict[int, tuple[Code, ...]] = {
    FetchRequest.API_KEY: (
        Code.UNKNOWN_SERVER_ERROR, Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH,
        Code.FETCH_SESSION_TOPIC_ID_ERROR, Code.KAFKA_STORAGE_ERROR,
    ),
    ListOffsetsRequest.API_KEY: (
        *_PASSING, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.OFFSET_NOT_AVAILABLE, Code.LEADER_NOT_AVAILABLE,
        Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH, Code.REPLICA_NOT_AVAILABLE,
    ),
    OffsetForLeaderEpochRequest.API_KEY: (
        *_PASSING, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH,
    ),
    MetadataRequest.API_KEY: (Code.UNKNOWN_SERVER_ERROR, Code.LEADER_NOT_AVAILABLE, Code.UNKNOWN_TOPIC_OR_PARTITION),
}  # fmt: skip
_COORDINATOR = (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS)
_MEMBER = (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS)
GROUP_ERRORS: dict[int, tuple[Code, ...]] = {
    FindCoordinatorRequest.API_KEY: (Code.COORDINATOR_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR),
    JoinGroupRequest.API_KEY: (*_COORDINATOR, Code.UNKNOWN_MEMBER_ID, Code.REBALANCE_IN_PROGRESS),
    SyncGroupRequest.API_KEY: (*_COORDINATOR, *_MEMBER),
    HeartbeatRequest.API_KEY: (*_COORDINATOR, *_MEMBER),
    LeaveGroupRequest.API_KEY: (*_COORDINATOR, Code.UNKNOWN_MEMBER_ID),
    OffsetCommitRequest.API_KEY: (*_COORDINATOR, *_MEMBER, Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION),
    OffsetFetchRequest.API_KEY: (*_COORDINATOR, Code.UNSTABLE_OFFSET_COMMIT),
    DescribeGroupsRequest.API_KEY: _COORDINATOR,
}

#: Those of groups in which every member uses the consumer group protocol.
CONSUMER_GROUP_ERRORS: dict[int, tuple[Code, ...]] = {
    FindCoordinatorRequest.API_KEY: GROUP_ERRORS[FindCoordinatorRequest.API_KEY],
    ConsumerGroupHeartbeatRequest.API_KEY: (*_COORDINATOR, Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH),
    OffsetCommitRequest.API_KEY: (
        *_COORDINATOR, Code.UNKNOWN_MEMBER_ID, Code.STALE_MEMBER_EPOCH, Code.REQUEST_TIMED_OUT,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    OffsetFetchRequest.API_KEY: (*_COORDINATOR, Code.UNKNOWN_MEMBER_ID, Code.STALE_MEMBER_EPOCH,
                                 Code.UNSTABLE_OFFSET_COMMIT),
}  # fmt: skip


class RequestFaults:
    """A fault rule that draws, for each request, whether a fault occurs: an error, a delay, silence or a disconnect."""

    def __init__(self, world: World, knobs: Knobs) -> None:
        self.count = 0
        self._world = world
        self._knobs = knobs
        self._random = world.streams("chaos/requests")
        self._rates = (knobs.error_rate, knobs.delay_rate, knobs.silence_rate, knobs.disconnect_rate)

    @property
    def is_needed(self) -> bool:
        """Whether any rate is above 0."""
        return any(self._rates)

    def __call__(self, call: ApiCall) -> FaultAction | None:
        """Return the fault to inject into this request, or None."""
        drawn = self._random.random()
        for kind, rate in enumerate(self._rates):
            if drawn < rate:
                action = self._action(kind, call)
                if action is not None:
                    self.count += 1
                    name = type(call.request).__name__.removesuffix("Request")
                    self._world.trace.add(f"node {call.node.node_id}", "up", "mishandles", "%s: %s", name, repr(action))
                return action
            drawn -= rate
        return None

    def _action(self, kind: int, call: ApiCall) -> FaultAction | None:
        random = self._random
        if kind == 0:
            codes = ERRORS.get(call.request.API_KEY)
            return Reply(int(random.choice(codes))) if codes else None
        if isinstance(call.request, ApiVersionsRequest) and kind == 1:
            return None
        if kind == 1:
            return Delay(random.uniform(0.01, 3.0))
        if kind == 2:
            return Silence(after=random.random() < 0.5)
        return Disconnect(after=random.random() < 0.5, reset=random.random() < 0.5)


class GroupErrors:
    """A fault rule that draws, for each group request, whether the coordinator answers it with an error."""

    def __init__(self, world: World, rate: float, errors: Mapping[int, tuple[Code, ...]] = GROUP_ERRORS) -> None:
        self.count = 0
        self._world = world
        self.is_needed = bool(rate)
        self._rate = rate
        self._errors = errors
        self._random = world.streams("chaos/groups/requests")

    def __call__(self, call: ApiCall) -> FaultAction | None:
        """Return the error response to this request, or None."""
        codes = self._errors.get(call.request.API_KEY)
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
