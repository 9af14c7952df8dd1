"""The partitions that a member of a consumer group owns and is assigned, and the steps from owned to assigned.

The order of a reconciliation is: revoke, tell the coordinator, assign. ``PartitionRevocation`` calls the listener
and commits. The coordinator names topics by id, and an assignment may arrive before the metadata of a new topic. A
topic that was deleted and created again has another id: its partitions are revoked, and then added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...errors import KafkaProtocolError
from ...network.metadata import Metadata, TopicMetadata
from ...positions.partitions import Partitions
from ...support.agenda import Agenda
from ...support.calls import Call
from ...support.timers import Backoff, Random, Retry
from ...types import TopicPartition
from ...wire import ZERO_UUID
from ...wire.consumer_group_heartbeat import HeartbeatAssignment, TopicPartitions
from ..identity import NO_GENERATION
from ..revocation import PartitionRevocation

#: Partitions as the coordinator names them: by topic id and number.
PartitionIds = frozenset[tuple[bytes, int]]
#: The owned partitions, each with the topic id under which it was assigned.
Owned = Mapping[TopicPartition, bytes]


class Difference(NamedTuple):
    """The partitions to revoke and to assign, so that the owned partitions become those of the assignment."""

    revoke: frozenset[TopicPartition] = frozenset()
    add: Mapping[TopicPartition, bytes] = {}  #: Topic ids by partition; only of topics with a known name.
    unresolved: frozenset[bytes] = frozenset()  #: Ids of topics that no metadata has named yet.


def read_assignment(assignment: HeartbeatAssignment) -> PartitionIds:
    """Return the partitions of a response, or raise KafkaProtocolError if a number is negative or a topic has no id."""
    found = frozenset((topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions)
    for topic_id, number in found:
        if number < 0 or topic_id == ZERO_UUID:
            raise KafkaProtocolError(f"the coordinator assigned partition {number} of topic id {topic_id.hex()}")
    return found


def partition_ids(owned: Owned) -> PartitionIds:
    """Return the owned partitions as the coordinator names them."""
    return frozenset((topic_id, tp.partition) for tp, topic_id in owned.items())


def topic_partitions(ids: Iterable[tuple[bytes, int]]) -> list[TopicPartitions]:
    """Return partitions in the form of a heartbeat, sorted, so that equal sets give equal bytes."""
    found: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(ids):
        found.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in found.items()]


def difference(owned: Owned, target: PartitionIds, names: Mapping[bytes, str]) -> Difference:
    """Return what is to be revoked and added so that ``owned`` becomes ``target``; ``names``: topics by id."""
    have = partition_ids(owned)
    add = {TopicPartition(names[topic_id], number): topic_id for topic_id, number in target - have if topic_id in names}
    revoke = frozenset(tp for tp, topic_id in owned.items() if (topic_id, tp.partition) not in target)
    return Difference(revoke, add, frozenset(topic_id for topic_id, _ in target - have if topic_id not in names))


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
        self._lookup = Retry(Backoff(0.1, 1.0), random, agenda)  #: The backoff of Metadata requests by topic id.
        self._lookup_call: Call[dict[str, TopicMetadata]] | None = None
        #: The coordinator's last assignment; None before the first one of this membership.
        self.target: PartitionIds | None = None
        #: By owned partition: its topic id, and the member epoch in which it was assigned. There may still be entries
        #: of partitions that are no longer owned.
        self._known: dict[TopicPartition, tuple[bytes, int]] = {}
        self._revoking: frozenset[TopicPartition] | None = None  #: The partitions of a revocation that is not complete.
        self._owes_callback = False  #: Whether ``on_partitions_assigned`` is due even if nothing is added.
        #: A cache: the version of the set of partitions (``Partitions.generation``), and the owned ones then.
        self._owned: tuple[int, PartitionIds] = (-1, frozenset())
        #: A cache: the key (versions of metadata and of the set of partitions, and the target), and what was computed
        #: for it: the difference, and the names of topics.
        self._resolved: tuple[tuple[object, ...], Difference, frozenset[str]] = ((), Difference(), frozenset())

    def joined(self) -> None:
        """Begin a membership: the first assignment is reported to the listener even if it is empty."""
        self._owes_callback = True

    def receive(self, target: PartitionIds) -> None:
        """Take over an assignment of the coordinator. From now on polls return no records of partitions that it lacks.

        The revocation of these partitions may begin later: an earlier revocation may still wait for commits.
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
            self._owned = generation, partition_ids(self._owned_ids())
        return self._owned[1]

    def owned_since(self, tp: TopicPartition) -> int:
        """Return the member epoch in which the partition was assigned; -1 if it is not owned."""
        return self._known[tp][1] if tp in self._known else NO_GENERATION

    def topics(self) -> frozenset[str]:
        """Return the known names of the assigned and the owned topics; the same object until they change."""
        self.difference()
        return self._resolved[2]

    def difference(self) -> Difference:
        key = (self._metadata.version, self._partitions.generation, self.target)
        if self._resolved[0] != key:
            owned = self._owned_ids()
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
        """Whether the next :meth:`advance` revokes partitions."""
        return self._revoking is not None or bool(self.difference().revoke)

    @property
    def is_due(self) -> bool:
        """Whether :meth:`advance` has something to do now: False if only topics without a known name are left."""
        return self.revokes or self._owes_callback or bool(self.difference().add)

    def advance(self, epoch: int, now: float) -> bool:
        """Revoke or assign partitions; return False while a revocation is not complete (it may wait for a commit).

        After a revocation it assigns nothing: first a heartbeat has to report the owned partitions without the revoked
        ones. ``epoch`` is the member epoch now. Exceptions of ``on_partitions_assigned`` propagate.

        A revocation that has begun is completed even if a newer assignment has the partitions again: the listener may
        already have been told that they are gone. They are then assigned anew. Further partitions that a newer
        assignment lacks are revoked at once: otherwise their next owners would wait for one more heartbeat.
        """
        has_revoked = False
        while self.revokes:
            self._revoking = self._revoking or self.difference().revoke
            if not self._revocation.advance(self._revoking, now):
                return False
            for tp in self._revoking:
                self._known.pop(tp, None)
            self._revoking = None
            self._owes_callback = has_revoked = True
        if has_revoked:
            return True
        add = self.difference().add
        if add:
            self._known.update({tp: (topic_id, epoch) for tp, topic_id in add.items()})
            self._owes_callback = True
            self._revocation.assign(sorted(self._partitions.tps() | add.keys()))
        if self._owes_callback:
            self._revocation.call_assigned()
            self._owes_callback = False
        return True

    def lose(self, now: float) -> None:
        self.forget()
        self._revocation.lose(now)

    def forget(self) -> None:
        """Forget the membership: the assignment, and the epochs of partitions."""
        self.target, self._revoking, self._owes_callback = None, None, False
        self._known.clear()
        self._owned = (-1, frozenset())

    def _owned_ids(self) -> dict[TopicPartition, bytes]:
        return {tp: topic_id for tp, (topic_id, _) in self._known.items() if tp in self._partitions}

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
