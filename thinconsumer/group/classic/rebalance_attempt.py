"""One rebalance as a member goes through it: what it said, was told and has done so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...timers import NEVER
from ...wire.join_group import JoinGroupResponse
from ..identity import Identity
from ..role import JoinedMember

#: How long a leader may wait for what its plan depends on, in seconds of somebody calling; then it plans without.
READY_WITHIN = 5.0


@dataclass(slots=True)
class RebalanceAttempt:
    """From the reason to join until the role has taken its share. A failed join or sync stays in the same round."""

    reason: str  #: In words, for the coordinator's log and ours.
    started_at: float
    protocols: Sequence[tuple[str, bytes]] | None = (
        None  #: What the next JoinGroup says; None: to be asked of the role.
    )
    protocol: str = ""  #: Elected by the coordinator.
    leads: bool = False
    skips: bool = False  #: KIP-814: the group keeps the plan it has.
    members: tuple[JoinedMember, ...] = ()
    missed: bool = False  #: Whether the group went through a generation without us, as it can without static members.
    ready_by: float = NEVER
    ready: bool = False
    plan: Mapping[str, bytes] | None = None  #: What the SyncGroup says; a follower's is empty.
    share: bytes = b""
    synced_at: float = 0.0  #: When it came.
    taken: bool = False
    proven: bool = False  #: Whether the coordinator has taken a heartbeat of the new generation.
    tried: bool = False  #: Whether the role has begun to take what is new.

    @property
    def loses(self) -> bool:
        """Whether what we kept may have been another's since, and the role does not know yet."""
        return self.missed and not self.taken

    def again(self) -> None:
        """Go back to before the join, of which the role is asked anew: what it owns may have changed."""
        self.protocols = None
        self.leads = False

    def joined(self, before: Identity, response: JoinGroupResponse, now: float) -> None:
        """Take what the coordinator says of the new generation, to who we were in the one ``before``, if in any."""
        self.missed = self.missed or (before.is_member and response.generation_id > before.generation_id + 1)
        self.protocol = response.protocol_name or ""
        self.leads = response.leader == response.member_id
        self.skips = response.skip_assignment
        self.members = tuple(
            JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata))
            for member in response.members
        )
        self.ready = False
        self.ready_by = now + READY_WITHIN
        self.plan = None if self.leads else {}
