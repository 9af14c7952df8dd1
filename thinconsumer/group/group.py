"""One consumer's group: create its managers (coordinator, member, commits, committed offsets), and connect them.

This module decides only between the two group protocols (``group_protocol="auto"``), and passes calls on to managers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..assignors import PartitionAssignor
from ..engine import Manager, ManagerParts
from ..errors import BrokerResponseError, IllegalArgumentError, KafkaError
from ..failures import CLASSIC_ONLY
from ..network.metadata import Metadata
from ..network.request import Answer
from ..positions.partitions import Partitions
from ..positions.states import PositionState
from ..support.agenda import Agenda
from ..support.timers import Random
from ..types import OffsetAndMetadata, TopicPartition
from .assignment_check import AssignmentCheck
from .classic.member import ClassicMember
from .consumer_role import ConsumerRole
from .coordinator import Coordinator, judge
from .identity import Identity
from .membership import Membership
from .offsets.auto_commit import AutoCommit
from .offsets.commit_identity import CommitIdentity
from .offsets.commits import Commits
from .offsets.committed import Committed
from .revocation import PartitionRevocation
from .subscription import Mode, Subscriber, UserSubscription

if TYPE_CHECKING:
    from ..config import ConsumerConfig
    from .consumer.member import ConsumerMember

log = logging.getLogger(__name__)


class Group(Subscriber):
    """Connect coordinator, member, commits, and the consumer's role of one group."""

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[PartitionAssignor],
        partitions: Partitions,
        metadata: Metadata,
        random: Random,
        agenda: Agenda,
    ) -> None:
        group_id = config.group_id or ""
        self._config = config
        self._partitions = partitions
        self._metadata = metadata
        self._random = random
        self._agenda = agenda
        self.subscription = UserSubscription()
        self.coordinator = Coordinator(
            config, group_id, metadata, random, agenda, ask_another_after=config.heartbeat_interval_ms / 1000
        )
        self.commits = Commits(
            config,
            self.coordinator,
            partitions,
            metadata,
            random,
            read_identity=self.commit_identity,
            seconds_since_poll=self.seconds_since_poll,
            allows_foreign=config.allow_foreign_commits,
        )
        self.committed = Committed(config, self.coordinator, partitions, metadata, random)
        self.auto_commit = AutoCommit(config, partitions, self.commits, agenda) if config.enable_auto_commit else None
        self.revocation = PartitionRevocation(partitions, self.commits, self.auto_commit, self.subscription, agenda)
        self.role = ConsumerRole(config, assignors, self.subscription, partitions, metadata, self.revocation, agenda)
        self._assignment_check = AssignmentCheck(
            config, self.coordinator, self.role, random, lambda: self.member.identity
        )
        #: The member of the consumer group protocol (KIP-848), or None. It is kept after a fallback, when
        #: :attr:`member` is a classic one.
        self._consumer_member: ConsumerMember | None = None
        #: Whether it is still unknown if the group can use the consumer group protocol (``group_protocol="auto"``).
        self._is_undecided = config.group_protocol == "auto" and not config.classic_options
        self.member: Membership
        if config.group_protocol == "consumer" or self._is_undecided:
            self.member = self._consumer_member = self._new_consumer_member()
        else:
            self.member = self._new_classic_member()
        if config.group_protocol == "auto" and config.classic_options:
            self._log_protocol("classic", f"{' and '.join(config.classic_options)} given")
        self._connect_member()
        self.commits.is_coming = self._is_coming
        self.commits.on_written = partitions.note_committed
        self.committed.read_identity = self.commit_identity
        self._marked_version = 0  #: The version of the subscription by which partitions are marked as unsubscribed.
        self._polled_at: float | None = None
        #: While a ``poll`` runs: the seconds from the start of the previous poll to the start of this one; else None.
        self.away: float | None = None

    def _connect_member(self) -> None:
        self.commits.on_membership_error = self.member.expelled
        self.commits.owned_since = self.member.owned_since

    def _identity(self) -> Identity:
        return Identity(self.coordinator.group_id, group_instance_id=self._config.group_instance_id)

    def _new_classic_member(self) -> ClassicMember:
        return ClassicMember(self._config, self._identity(), self.role, self.coordinator, self._random)

    def _new_consumer_member(self) -> ConsumerMember:
        # On demand: the classic protocol, which is the default, needs none of it.
        from .consumer.assignment import MemberAssignment
        from .consumer.member import ConsumerMember

        config = self._config
        assignment = MemberAssignment(self._partitions, self._metadata, self.revocation, self._random, self._agenda)
        return ConsumerMember(
            config,
            self._identity(),
            assignment,
            self._read_subscription,
            self.coordinator,
            self._random,
            rack=config.client_rack or None,
            assignor=config.group_remote_assignor,
        )

    def _read_subscription(self) -> tuple[frozenset[str], str | None] | None:
        """Return the topics or the regular expression for a heartbeat; None if a pattern still lacks the topic list."""
        if self.subscription.mode is Mode.BROKER_PATTERN:
            return frozenset(), self.subscription.regex
        if self.wants_all_topics and not self._metadata.has_listed:
            return None
        return self.own_topics(), None

    def _is_coming(self, tp: TopicPartition) -> bool:
        """Return whether the coordinator has assigned the partition, and the member has not taken it over yet."""
        member = self._consumer_member
        if member is not None and self.member.has_epochs:
            return tp in member.assignment.difference().add
        assignment = self.member.synced_assignment if isinstance(self.member, ClassicMember) else None
        return assignment is not None and self.role.contains(assignment, tp)

    def require_broker_patterns(self) -> None:
        """Raise IllegalArgumentError if the protocol has no regular expressions that the broker evaluates."""
        if not self.member.has_epochs:
            raise IllegalArgumentError(
                "a SubscriptionPattern is evaluated by the broker, which needs group_protocol='consumer' (Kafka 4.0); "
                "this consumer uses the classic protocol: pass pattern as a str, which is matched in the client"
            )

    def _handle_membership(self, answer: Answer, now: float) -> None:
        """Give the member its response; while the protocol is undecided, let the response decide if it can."""
        if not self._is_undecided:
            self.member.handle(answer, now)
            return
        why = lacks_consumer_protocol(answer, self.coordinator.group_id)
        if why is not None and not self.member.is_outside and self.subscription.mode is not Mode.BROKER_PATTERN:
            self._fall_back(why, now)
            return
        self.member.handle(answer, now)
        if self.member.identity.is_member:
            self._is_undecided = False
            self._log_protocol("consumer", f"node {answer.node_id}, the coordinator, supports it")

    def _fall_back(self, why: KafkaError, now: float) -> None:
        """Go on with the classic protocol. The member has not joined yet, so it owns nothing."""
        before, member = self.member, self._new_classic_member()
        member.drop_connection, member.stats = before.drop_connection, before.stats
        if self._polled_at is not None:
            member.called(self._polled_at, polls=True)
        member.called(now)
        member.subscribe("the consumer subscribed")
        before.restart(now)  # forget the former member's only request, which has its response
        self.member = member
        self._connect_member()
        self._is_undecided = False
        self._log_protocol("classic", str(why))

    def _log_protocol(self, protocol: str, why: str) -> None:
        group_id = self.coordinator.group_id
        log.info("group %s: uses the %s protocol (group_protocol='auto'): %s", group_id, protocol, why)

    def managers(self) -> tuple[Manager, ...]:
        """Return the managers in the order of their steps.

        The coordinator comes after the managers that need it, so that its search begins in the same step.
        """
        member: Manager = self.member
        if self._is_undecided:
            member = ManagerParts(
                member.asker,
                lambda now: self.member.step(now),
                self._handle_membership,
                restart=lambda now: self.member.restart(now),
            )
        return member, self._assignment_check, self.commits, self.committed, self.coordinator

    def topics(self) -> frozenset[str]:
        """Return the topics that metadata is needed for."""
        if self.subscription.mode is Mode.BROKER_PATTERN:
            return self.own_topics()
        if not self.subscription.is_subscribed:
            return frozenset()
        return self.role.subscribed.names() | self.role.notes.topics  # a leader needs those of all members

    def own_topics(self) -> frozenset[str]:
        """Return the subscribed topics; with a pattern, the known topics that match it.

        If the broker evaluates the pattern, only the assigned topics are known to match.
        """
        if self.subscription.mode is Mode.BROKER_PATTERN and self._consumer_member is not None:
            return self._consumer_member.assignment.topics()
        return self.role.subscribed.names()

    def poll_begins(self, now: float) -> None:
        """Call :meth:`polled`; until the poll ends, commit errors give the time between the last two polls."""
        self.away = None if self._polled_at is None else now - self._polled_at
        self.polled(now)

    def polled(self, now: float) -> None:
        """Note that the user polls: records of earlier polls count as processed, and may be auto-committed."""
        self._polled_at = now
        if self._marked_version != self.subscription.version:  # Ctrl-C has interrupted subscribe()
            self._mark_unsubscribed()
        self.member.called(now, polls=True)  # first: after a long gap it sets ``unconfirmed``, which stops auto-commits
        if self.auto_commit is not None and not self.member.withholds(may_wait=False):
            self.auto_commit.poll(now)

    def has_work(self, now: float) -> bool:
        """Return whether a member's task (which may call the listener or an assignor) is due and awaits no commit."""
        return self.member.has_work(now) and not self.revocation.is_waiting(now)

    @property
    def is_settled(self) -> bool:
        """Whether the member has the assignment for the current subscription, and no rebalance is in progress."""
        if not self.member.is_settled or self._read_subscription() is None:
            return False
        member = self._consumer_member
        if member is not None and self.member.has_epochs:
            return member.has_sent_subscription
        return self.role.has_joined_with_subscription

    @property
    def situation(self) -> str:
        return f"the group is {self.member.state.value}"

    def commit_identity(self) -> CommitIdentity:
        """Return the member id, generation and rebalance state that apply to a commit made now."""
        if not self.subscription.is_subscribed:
            return CommitIdentity(Identity(self.coordinator.group_id))
        member = self.member
        return CommitIdentity(
            member.identity,
            True,
            member.rebalancing,
            member.awaits_rebalance_response,
            has_epochs=member.has_epochs,
            is_settled=member.is_settled,
            has_assignment=self.revocation.has_assigned,
        )

    def seconds_since_poll(self, now: float) -> float | None:
        """Return the seconds since the last ``poll`` began; None if there was no poll.

        While a poll runs, return the seconds between the start of the previous poll and the start of this one.
        """
        if self._polled_at is None or self.away is not None:
            return self.away
        return max(0.0, now - self._polled_at)  # ``now`` may be the time of a step before the poll

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions that may be committed now, excluding the record that the user is processing.

        Partitions for which ``on_partitions_revoked`` has run are left out.
        """
        revoked = self.revocation.revoked
        return {p.tp: self._partitions.processed(p) for p in self._partitions if p.may_commit and p.tp not in revoked}

    def subscribed(self) -> None:
        """Join the group after a subscription, unless the consumer is in it already."""
        self._mark_unsubscribed()
        if self.member.is_outside:
            self.revocation.has_assigned = False
            self.member.subscribe("the consumer subscribed")

    def _mark_unsubscribed(self) -> None:
        version = self.subscription.version
        self._partitions.mark_unsubscribed()
        self._marked_version = version

    def assign_by_hand(self, tps: Collection[TopicPartition], now: float) -> None:
        """Assign partitions manually, starting at the group's committed offsets.

        Auto-commit the positions of removed partitions, as manual assignment has no revocation that would commit them.
        """
        self.subscription.assign()
        if self.auto_commit is not None:
            kept = set(tps)
            going = [p for p in self._partitions if p.tp not in kept]
            self.auto_commit.commit_now(going, now + self._config.default_api_timeout_ms / 1000)
        self._partitions.assign(tps, start=PositionState.AWAITING_COMMITTED)


def lacks_consumer_protocol(answer: Answer, group_id: str) -> KafkaError | None:
    """Return the error if the response shows that this group cannot use the consumer group protocol; else None."""
    _, error = judge(answer, group_id)
    return error if isinstance(error, BrokerResponseError) and error.code in CLASSIC_ONLY else None
