"""The structs with which Fetch and Produce responses name a partition's current leader and its address (KIP-951)."""

from .schema import Struct, int32, string


class LeaderIdAndEpoch(Struct):
    """The partition's current leader and its epoch; -1 when the broker does not report them."""

    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)


class NodeEndpoint(Struct):
    """The address of a broker that the same response names as the leader of a partition."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)
