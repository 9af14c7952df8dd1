"""A fault rule for every request: a broker now and then refuses, dawdles, hangs up or says nothing at all."""

from __future__ import annotations

from ...broker.call import ApiCall
from ...broker.faults import Delay, Disconnect, FaultAction, Reply, Silence
from ...wire.api_versions import ApiVersionsRequest
from ...wire.error_codes import Code
from ...wire.fetch import FetchRequest
from ...wire.list_offsets import ListOffsetsRequest
from ...wire.metadata import MetadataRequest
from ...wire.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from .knobs import Knobs
from .world import World

#: Errors that pass, which a broker may answer although nothing is wrong with the request.
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


class Mishandling:
    """Decides about each call; given to the cluster as a rule."""

    def __init__(self, world: World, knobs: Knobs) -> None:
        self.count = 0
        self._world = world
        self._knobs = knobs
        self._random = world.streams("chaos/requests")
        self._rates = (knobs.error_rate, knobs.delay_rate, knobs.silence_rate, knobs.disconnect_rate)

    @property
    def is_needed(self) -> bool:
        """Whether anything is ever mishandled."""
        return any(self._rates)

    def __call__(self, call: ApiCall) -> FaultAction | None:
        """Return what happens to a call, None: what should."""
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
