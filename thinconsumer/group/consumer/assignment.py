"""The partitions that a member of a consumer group owns and is assigned, and the steps from owned to assigned.

The order of a reconciliation is: revoke, let the coordinator know, assign. ``PartitionRevocation`` calls the listener
and commits.
"""

from __future__ import annotations

from ...network.metadata import Metadata, TopicMetadata
from ...positions.partitions import Partitions
from ...support.agenda import Agenda
from ...support.calls import Call
from ...support.timers import Backoff, Random, Retry
from ...types import TopicPartition
from ..identity import NO_GENERATION
from ..revocation import PartitionRevocation
from .reconciliation import Difference, PartitionIds, difference, partition_ids


class MemberAssignment:
    """Make the assignment of the coordinator the assignment of the consumer, step by step."""

    def __init__(
        self,
        partitions: Partitions,
        metadata: Metadata,
        revocation: PartitionRevocation,
        random: Random,
        agenda: Agenda,
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._revocation = revocation
        self._lookup = Retry(Backoff(0.1, 1.0), random, agenda)  #: The pace of Metadata requests by topic id.
        self._lookup_call: Call[dict[str, TopicMetadata]] | None = None
        #: The coordinator's last assignment; None before the first one of this membership.
        self.target: PartitionIds | None = None
        self._ids: dict[TopicPartition, bytes] = {}  #: The topic ids of owned partitions, and of some revoked ones.
        self._since: dict[TopicPartition, int] = {}  #: The member epoch in which each of them was assigned.
        self._revoking: frozenset[TopicPartition] | None = None  #: The partitions of a revocation that is not complete.
        self._owes_callback = False  #: Whether ``on_partitions_assigned`` is due even if nothing is added.
        self._owned: tuple[int, PartitionIds] = (-1, frozenset())
        #: What follows from metadata, owned partitions and target: what is left to do, and the names of topics.
        self._resolved: tuple[tuple[object, ...], Difference, frozenset[str]] = ((), Difference(), frozenset())

    def joined(self) -> None:
        """Begin a membership: the first assignment is reported to the listener even if it is empty."""
        self._owes_callback = True

    def receive(self, target: PartitionIds) -> None:
        """Take over an assignment of the coordinator. Polls return no more records of the partitions that it revokes.

        This includes those that are revoked only after an earlier revocation, which may still wait for its commits.
        """
        self.target = target
        revoke = self.difference().revoke
        for partition in self._partitions:
            if partition.tp in revoke:
                partition.pending_revocation = True
            elif partition.pending_revocation and not self._revocation.covers(partition.tp):
                partition.pending_revocation = False

    def owned(self) -> PartitionIds:
        """Return the owned partitions by topic id, as heartbeats name them; the same object until they change."""
        generation = self._partitions.generation
        if self._owned[0] != generation:
            ids = {tp: topic_id for tp, topic_id in self._ids.items() if tp in self._partitions}
            self._owned = generation, partition_ids(ids)
        return self._owned[1]

    def owned_since(self, tp: TopicPartition) -> int:
        """Return the member epoch in which the partition was assigned; -1 if it is not owned."""
        return self._since.get(tp, NO_GENERATION)

    def topics(self) -> frozenset[str]:
        """Return the names of the assigned topics, as far as they are known; the same object until they change."""
        self.difference()
        return self._resolved[2]

    def difference(self) -> Difference:
        """Return the partitions to revoke and to assign."""
        key = (self._metadata.version, self._partitions.generation, self.target)
        if self._resolved[0] != key:
            owned = {tp: topic_id for tp, topic_id in self._ids.items() if tp in self._partitions}
            wanted = {topic_id for topic_id, _ in self.target or ()}
            names = {t.topic_id: name for name, t in self._metadata.topics.items() if t.topic_id in wanted}
            topics = frozenset({*names.values(), *(tp.topic for tp in owned)})
            self._resolved = key, difference(owned, self.target or frozenset(), names), topics
        return self._resolved[1]

    def describe(self) -> str:
        """Return what is left of the reconciliation, in words."""
        change = self.difference()
        parts = [f"{len(self._revoking or change.revoke)} partitions to revoke", f"{len(change.add)} to assign"]
        if change.unresolved:
            parts.append(f"{len(change.unresolved)} topics that are known by id only")
        return ", ".join(parts)

    @property
    def is_complete(self) -> bool:
        """Whether the owned partitions are the assigned ones, and the listener was called."""
        return self._revoking is None and not self._owes_callback and not any(self.difference())

    @property
    def revokes(self) -> bool:
        """Whether the next step revokes partitions."""
        return self._revoking is not None or bool(self.difference().revoke)

    @property
    def is_due(self) -> bool:
        """Whether :meth:`advance` has something to do now; not if only unknown topics are left."""
        change = self.difference()
        return self._revoking is not None or self._owes_callback or bool(change.revoke or change.add)

    def advance(self, epoch: int, now: float) -> bool:
        """Revoke or assign partitions; return False if the revocation waits for a commit.

        After a revocation, a heartbeat without the partitions has to be sent before others are assigned. Exceptions of
        ``on_partitions_assigned`` propagate.

        A revocation that has begun is completed even if a newer assignment has the partitions again: the listener may
        already have been told that they are gone. They are then assigned anew. Partitions that a newer assignment
        revokes in addition follow at once: their next owners do not wait for the response to a heartbeat.
        """
        has_revoked = False
        while self._revoking is not None or self.difference().revoke:
            self._revoking = self._revoking or self.difference().revoke
            if not self._revocation.advance(self._revoking, now):
                return False
            for tp in self._revoking:
                self._ids.pop(tp, None)
                self._since.pop(tp, None)
            self._revoking = None
            self._owes_callback = has_revoked = True
        if has_revoked:
            return True
        add = self.difference().add
        if add:
            self._ids.update(add)
            self._since.update(dict.fromkeys(add, epoch))
            self._owes_callback = True
            self._revocation.assign(sorted(self._partitions.tps() | add.keys()))
        if self._owes_callback:
            self._revocation.call_assigned()
            self._owes_callback = False
        return True

    def lose(self, now: float) -> None:
        """Drop all partitions, and call ``on_partitions_lost`` if there are any."""
        self.forget()
        self._revocation.lose(now)

    def forget(self) -> None:
        """Forget the membership: the assignment, and the epochs of partitions."""
        self.target, self._revoking, self._owes_callback = None, None, False
        self._ids.clear()
        self._since.clear()
        self._owned = (-1, frozenset())

    def look_up(self, now: float) -> None:
        """Request the names of topics that are only known by id, unless that was done a moment ago."""
        unresolved = self.difference().unresolved
        if not unresolved:
            self._lookup.succeeded()
        elif self._lookup.may_send(now) and (self._lookup_call is None or self._lookup_call.over):
            self._lookup.failed(now)
            self._lookup_call = self._metadata.inquire((), "looking up topic ids", ids=unresolved)

    def restart(self) -> None:
        """Drop the lookup in progress: the engine restart drops Metadata requests without settling their calls."""
        self._lookup_call = None
