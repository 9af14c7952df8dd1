"""One member of a consumer group, as an immutable value.

Follows Kafka's ``ConsumerGroupMember``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..member import Protocols
from .states import AssignmentState

#: Partitions by topic id.
Partitions = Mapping[bytes, Collection[int]]
#: A target assignment: partitions by topic id.
Target = Mapping[bytes, frozenset[int]]
#: Partitions that a member owns, each with the epoch in which it was assigned (KIP-1251), by topic id.
Owned = Mapping[bytes, Mapping[int, int]]

NO_EPOCH = -1
#: Values of the field for the member epoch in requests of members that leave: for good, or (static ones) for a while.
LEAVE_EPOCH, LEAVE_STATIC_EPOCH = -1, -2


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The session timeout and the protocols of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member of a consumer group.

    ``assigned`` are the partitions that the member may own; ``pending_revocation`` those that it has to revoke, and may
    still own. ``subscribed_topic_regex`` is empty if the member has none. ``classic`` is set for a member that uses the
    classic protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    state: AssignmentState = AssignmentState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)
    classic: ClassicMetadata | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the member has the target assignment of this epoch."""
        return self.state is AssignmentState.STABLE and self.member_epoch == target_epoch

    def moved(self, epoch: int, state: AssignmentState, assigned: Owned, pending: Owned) -> ConsumerGroupMember:
        """Return the member in its next assignment state; its current epoch becomes the previous one."""
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending,
        )

    @property
    def owned(self) -> dict[bytes, set[int]]:
        """The partitions that the member may still own: assigned ones, and those that it has to revoke."""
        found: dict[bytes, set[int]] = {}
        for topic_id, indexes in (*self.assigned.items(), *self.pending_revocation.items()):
            found.setdefault(topic_id, set()).update(indexes)
        return found

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch in which a partition was assigned to the member, None if the member does not have it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch


def owned_since(partitions: Partitions, epoch: int) -> Owned:
    """Return partitions as owned ones that were all assigned in ``epoch``."""
    return {topic_id: dict.fromkeys(sorted(found), epoch) for topic_id, found in partitions.items() if found}


def target_of(partitions: Iterable[tuple[bytes, Iterable[int]]]) -> Target:
    """Return a target assignment of (topic id, partitions) pairs, without topics that have no partitions."""
    found = ((topic_id, frozenset(indexes)) for topic_id, indexes in partitions)
    return {topic_id: indexes for topic_id, indexes in found if indexes}
