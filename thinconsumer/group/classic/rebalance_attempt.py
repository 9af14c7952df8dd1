"""The data of one rebalance of a member: what JoinGroup and SyncGroup carry and returned, and the steps done so far."""

from collections.abc import Mapping, Sequence

from ...support.lazy_dataclass import dataclass
from ...wire.join_group import JoinGroupResponse
from ..identity import Identity
from ..role import JoinedMember

#: Seconds that a leader waits for metadata of the group's topics, before it leaves topics without metadata unassigned.
#: A long gap between two calls of the application extends the wait, since no response is read during the gap.
READY_WITHIN = 5.0


@dataclass(slots=True)
class RebalanceAttempt:
    """Hold the data of one rebalance, from the decision to join, through retried joins, to the end of the callbacks."""

    reason: str  #: Why the member joins, for the broker's log (KIP-800) and this client's.
    started_at: float
    #: Protocol names and metadata for the next JoinGroup; None until the role has supplied them.
    protocols: Sequence[tuple[str, bytes]] | None = None
    protocol: str = ""  #: The name of the protocol that the coordinator has chosen.
    leads: bool = False
    skips: bool = False  #: Whether the group keeps its assignment, so that this leader computes none (KIP-814).
    members: Sequence[JoinedMember] = ()
    #: Whether the group had a generation without this member, as can happen to a static member.
    missed: bool = False
    #: Assignments for SyncGroup, by member id: None until the leader has computed them, empty on a follower.
    plan: Mapping[str, bytes] | None = None
    assignment: bytes = b""
    synced_at: float = 0.0  #: When the SyncGroup response arrived.
    is_decoded: bool = False  #: Whether the role has decoded the assignment.
    is_confirmed: bool = False  #: Whether a heartbeat of the new generation has succeeded.
    install_called: bool = False  #: Whether ``Role.install`` was called; from then on, another rebalance may begin.

    def restart_join(self) -> None:
        """Restart at JoinGroup, and ask the role for its metadata again: the owned partitions may have changed."""
        self.protocols = None
        self.leads = False

    def joined(self, before: Identity, response: JoinGroupResponse) -> None:
        """Store a JoinGroup response; ``before``, the identity until now, shows a missed generation."""
        self.missed = self.missed or (before.is_member and response.generation_id > before.generation_id + 1)
        self.protocol = response.protocol_name or ""
        self.leads = response.leader == response.member_id
        self.skips = response.skip_assignment
        self.members = [
            JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata))
            for member in response.members
        ]
        self.plan = None if self.leads else {}
