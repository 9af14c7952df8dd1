"""The consumer's role in its group: encode its subscription, compute assignments as the leader, apply its assignment.

Follows KIP-429 and Java's ``ConsumerCoordinator``. Rebalances are cooperative if all assignors in
``partition_assignment_strategy`` support it, else eager, whichever of these assignors the coordinator chooses.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..assignors import Assignment, GroupMetadata, PartitionAssignor, RebalanceProtocol, Subscription
from ..assignors.plans import checked
from ..errors import KafkaProtocolError
from ..network.metadata import Metadata
from ..positions.partitions import Partitions
from ..support.agenda import Agenda
from ..support.lazy_dataclass import dataclass
from ..types import ClusterView, TopicPartition
from ..wire.consumer_protocol import (
    AssignedTopic,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from .identity import NO_GENERATION, Identity
from .partition_lists import PartitionList, assign_in_lists
from .rejoin_triggers import OLD_NOTE, TopicShape, reassign_reason, shapes, shapes_changed, topics_changed
from .revocation import PartitionRevocation
from .role import JoinedMember
from .subscription import SubscribedTopics, UserSubscription

if TYPE_CHECKING:
    from ..config import ConsumerConfig

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Notes:
    """What a member, mostly the leader, notes from one rebalance to the next; each JoinGroup begins with new notes."""

    rejoin_for: str | None = None  #: The reason to join again as soon as this rebalance is over.
    topics: frozenset[str] = frozenset()  #: The subscribed topics of all members; empty on a follower.
    #: The topic metadata from which this leader computed the assignment; None on a follower.
    assigned_with: dict[str, TopicShape] | None = None
    #: Whether the assignment leaves out partitions that their owners must revoke first (cooperative).
    awaits_revocations: bool = False
    #: Whether the group keeps an assignment that this leader has not computed since it started (KIP-814).
    keeps_unknown_assignment: bool = False
    #: Whether :meth:`ConsumerRole.compare_assignments` is still to be called for the assignment that the group keeps.
    awaits_assignments: bool = False


class ConsumerRole:
    """Implement :class:`~thinconsumer.group.role.Role` for a consumer."""

    protocol_type = "consumer"

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[PartitionAssignor],
        subscription: UserSubscription,
        partitions: Partitions,
        metadata: Metadata,
        revocation: PartitionRevocation,
        agenda: Agenda,
    ) -> None:
        self._config = config
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._subscription = subscription
        self._partitions = partitions
        self._metadata = metadata
        self.revocation = revocation
        self.is_cooperative = all(RebalanceProtocol.COOPERATIVE in a.supported_protocols for a in assignors)
        self._generation = NO_GENERATION  #: The generation of the current assignment (KIP-792).
        self._joined_with: frozenset[str] = frozenset()
        #: The subscribed topics; with a pattern, those that match it.
        self.subscribed = SubscribedTopics(subscription, metadata, internal=not config.exclude_internal_topics)
        partitions.has_topic = self.subscribed.may_have
        #: The versions of metadata and subscription for which :meth:`rejoin_reason` has found no reason to rejoin.
        #: While both are unchanged, the topics are not compared again.
        self._seen: tuple[int, int] | None = None
        self.notes = Notes()
        #: When the leader itself rejoins, if the owners of the partitions that its assignment leaves out have not
        #: revoked them and rejoined by then.
        self._wait_for_owners = agenda.alarm()
        self._assignment = Assignment()
        self._assignment_source: PartitionAssignor | None = None
        self._installed = True
        self._previous: frozenset[TopicPartition] = frozenset()  #: The assignment after the last completed rebalance.
        self.summary = ""  #: The assignment of the last rebalance, and what it added and removed, for a log line.

    @property
    def has_joined_with_subscription(self) -> bool:
        """Whether the last JoinGroup had the topics that are subscribed now."""
        return self._joined_with == self.subscribed.names()

    def protocols(self) -> list[tuple[str, bytes]]:
        """Return each assignor's encoded subscription, with its user data and, if cooperative, owned partitions."""
        self._joined_with = self.subscribed.names()
        self.notes = Notes()
        topics = tuple(sorted(self._joined_with))
        owned = tuple(sorted(self._partitions.tps())) if self.is_cooperative else ()
        return [
            (
                name,
                encode_subscription(
                    topics,
                    assignor.subscription_user_data(list(topics)),
                    owned,
                    self._generation if owned else NO_GENERATION,
                    self._config.client_rack or None,
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    def prepare(self, identity: Identity, now: float) -> bool:
        """Revoke all partitions (eager), or those of topics no longer subscribed (cooperative)."""
        self.notes = Notes()
        owned = self._partitions.tps()
        if not self.is_cooperative:
            return self.revocation.advance(owned, now, always_call=identity.is_member)
        wanted = self.subscribed.names()
        return self.revocation.advance([tp for tp in owned if tp.topic not in wanted], now)

    def ready_to_assign(self, protocol: str, members: Sequence[JoinedMember], now: float) -> bool:
        """Return whether metadata of all members' topics is known; without it a topic would stay unassigned."""
        subscriptions = self._subscriptions(members).values()
        self.notes.topics = frozenset({topic for one in subscriptions for topic in one.topics})
        unknown = [topic for topic in self.notes.topics if not self._metadata.has_looked_up(topic)]
        return not unknown

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[JoinedMember], *, skip: bool
    ) -> Mapping[str, bytes]:
        """Return the encoded assignment of every member; with ``skip`` (KIP-814), compute none and return ``{}``.

        Also store the topics' partition counts and racks, to detect later changes, and whether the assignment leaves
        out partitions until their owners have revoked them (KIP-429).
        """
        subscriptions = self._subscriptions(members)
        notes, topics = self.notes, frozenset({topic for one in subscriptions.values() for topic in one.topics})
        notes.topics, view = topics, self._metadata.view(topics)
        notes.assigned_with = shapes(view, topics, self._metadata.counted(), racks=bool(self._config.client_rack))
        if skip:
            notes.keeps_unknown_assignment = True
            return {}
        assignor = self._assignor(protocol)

        def assign(part: PartitionList) -> dict[str, Assignment]:
            plan = assignor.assign(part.view, part.subscriptions)
            return checked(assignor.name, plan, part.view, part.subscriptions, cooperative=self.is_cooperative)

        plan = assign_in_lists(view, subscriptions, notes.assigned_with, assign)
        if self.is_cooperative:
            given = {tp for share in plan.values() for tp in share.partitions}
            had = {tp for subscription in subscriptions.values() for tp in subscription.owned_partitions} - given
            notes.awaits_revocations = not had.isdisjoint(_existing(view))
        return {member: encode_assignment(share.partitions, share.user_data) for member, share in plan.items()}

    def _subscriptions(self, members: Sequence[JoinedMember]) -> dict[str, Subscription]:
        found = {}
        for member in members:
            raw = decode_subscription(member.metadata)
            found[member.member_id] = Subscription(
                tuple(raw.topics),
                raw.user_data,
                _partitions(raw.owned_partitions),
                raw.generation_id,
                raw.rack_id,
                member.group_instance_id,
            )
        return found

    def accept(self, identity: Identity, protocol: str, assignment: bytes, now: float, *, missed: bool = False) -> None:
        """Decode the assignment, and stop returning records of partitions that it lacks.

        If the member ``missed`` a generation, drop all its partitions first.
        """
        owned = self._partitions.tps()
        if missed and owned:
            # Another member may have committed later offsets of these partitions: a commit here would reset them.
            log.info("group %s: missed a generation: %d kept partitions are lost", identity.group_id, len(owned))
            self.revocation.lose(now)
            self._previous = frozenset()
        raw = decode_assignment(assignment)
        has_note = raw.user_data is not None and raw.user_data.startswith(OLD_NOTE)
        self._assignment = Assignment(_partitions(raw.assigned_partitions), None if has_note else raw.user_data)
        self._assignment_source = self._assignor(protocol)
        self._generation = identity.generation_id
        self._installed = False
        share = set(self._assignment.partitions)
        for tp in self._partitions.tps() - share:
            self._partitions.require(tp).pending_revocation = True
        notes = self.notes
        if notes.awaits_revocations:
            self._wait_for_owners.set(now + self._config.session_timeout_ms / 1000)
        notes.rejoin_for = None
        if owned - share:
            notes.rejoin_for = "revoked partitions can now be assigned"
        elif notes.keeps_unknown_assignment and has_note:
            notes.rejoin_for = "its assignment has user data of thinconsumer 0.1.0"
        unsubscribed = sorted({tp.topic for tp in share} - self._joined_with)
        if unsubscribed and notes.rejoin_for is None:
            notes.rejoin_for = f"was assigned partitions of {', '.join(unsubscribed)}, which it is not subscribed to"
        notes.awaits_assignments = notes.keeps_unknown_assignment and notes.rejoin_for is None
        came, went = share - self._previous, self._previous - share
        self.summary = f"{len(share)} partitions, {_listed('new', came)}, {_listed('gone', went)}"

    @staticmethod
    def contains(assignment: bytes, tp: TopicPartition) -> bool:
        """Return whether an encoded assignment has the partition."""
        try:
            return tp in _partitions(decode_assignment(assignment).assigned_partitions)
        except KafkaProtocolError:
            return False  # the member will join again

    def compare_assignments(self, shares: Iterable[bytes] | None) -> None:
        """Rejoin unless the members' encoded assignments have exactly the partitions of the group's topics (KIP-814).

        ``shares`` is None if the coordinator refuses to return the assignments. A cooperative group then rebalances,
        which moves no partition needlessly; an eager group does not, since every member would revoke all partitions.
        """
        notes = self.notes
        notes.awaits_assignments = False
        if shares is None:
            notes.rejoin_for = "leads with an assignment that it did not compute" if self.is_cooperative else None
            return
        assigned: set[TopicPartition] = set()
        for share in shares:
            with suppress(KafkaProtocolError):  # a member that cannot decode its share owns nothing: rebalance
                assigned.update(_partitions(decode_assignment(share).assigned_partitions))
        notes.rejoin_for = reassign_reason(assigned, _existing(self._metadata.view(notes.topics)))

    def revoke_unassigned(self, identity: Identity, now: float) -> bool:
        going = self._partitions.tps() - set(self._assignment.partitions)
        return self.revocation.advance(going, now)

    def install(self, identity: Identity, now: float) -> bool:
        """Apply the new assignment: call the assignor's ``on_assignment``, then the listener."""
        if not self._installed:
            self.revocation.assign(sorted(set(self._assignment.partitions)))
            self._installed = True
            if self._assignment_source is not None:
                self._assignment_source.on_assignment(self._assignment, GroupMetadata(*identity[:4]))
        self.revocation.call_assigned()
        self._previous = frozenset(self._assignment.partitions)
        return True

    def lose(self, why: str, now: float) -> bool:
        self._generation = NO_GENERATION
        self._previous = frozenset()
        self.notes = Notes()
        return self.revocation.lose(now)

    def rejoin_reason(self, now: float) -> str | None:
        """Return why to join again, or None.

        The current topics are compared with those of the last JoinGroup. The leader also compares the partition counts
        and racks of all members' topics with those at the last assignment.
        """
        notes = self.notes
        if notes.rejoin_for is not None:
            return notes.rejoin_for
        if notes.awaits_revocations and self._wait_for_owners.is_over(now):
            # The owner of a partition that was left out may never revoke it and rejoin: a static member that restarts
            # gets its old assignment without a rebalance (KIP-345).
            return "members that had to revoke partitions did not join again"
        seen = self._metadata.version, self._subscription.version
        if seen == self._seen:
            return None
        reason = topics_changed(self._joined_with, self.subscribed.names())
        if reason is None and notes.assigned_with is not None:
            view, racks = self._metadata.view(notes.topics), bool(self._config.client_rack)
            found = shapes(view, notes.topics, self._metadata.counted(), racks=racks)
            reason = shapes_changed(notes.assigned_with, found)
        if reason is None:
            self._seen = seen
        return reason

    def _assignor(self, protocol: str) -> PartitionAssignor:
        try:
            return self._assignors[protocol]
        except KeyError:
            raise KafkaProtocolError(
                f"the coordinator chose assignor {protocol!r}, but this member supports {', '.join(self._assignors)}"
            ) from None


def _partitions(topics: Iterable[AssignedTopic]) -> tuple[TopicPartition, ...]:
    return tuple([TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions])


def _existing(view: ClusterView) -> set[TopicPartition]:
    return {TopicPartition(one.topic, one.partition) for found in view.partitions.values() for one in found}


def _listed(what: str, tps: Collection[TopicPartition]) -> str:
    """Return the number of partitions and the first five names, to keep the log line short."""
    if not tps:
        return f"none {what}"
    names = [f"{topic}-{partition}" for topic, partition in sorted(tps)[:5]]
    return f"{len(tps)} {what} ({', '.join(names)}{', ...' if len(tps) > 5 else ''})"
