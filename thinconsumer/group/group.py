"""One consumer's group: create its managers (coordinator, member, commits, committed offsets), and connect them.

This module passes calls on to the managers, which make all decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ..assignors import PartitionAssignor
from ..client import Manager, ManagerParts
from ..errors import KafkaError
from ..metadata import Metadata
from ..partitions import Partitions, PositionState
from ..timers import NEVER, Random
from ..types import OffsetAndMetadata, TopicPartition
from .auto_commit import AutoCommit
from .classic.member import ClassicMember
from .classic.states import MemberState
from .commit_identity import CommitIdentity
from .commits import Commits
from .committed import Committed
from .consumer_role import ConsumerRole
from .coordinator import Coordinator
from .identity import Identity
from .revocation import PartitionRevocation
from .subscription import Mode, UserSubscription

if TYPE_CHECKING:
    from ..config import ConsumerConfig


class Group:
    """Connect coordinator, member, commits, and the consumer's role of one group."""

    def __init__(
        self,
        config: ConsumerConfig,
        assignors: Sequence[PartitionAssignor],
        partitions: Partitions,
        metadata: Metadata,
        random: Random,
    ) -> None:
        group_id = config.group_id or ""
        self._config = config
        self._partitions = partitions
        self._metadata = metadata
        self.subscription = UserSubscription()
        self.coordinator = Coordinator(
            config, group_id, metadata, random, ask_another_after=config.heartbeat_interval_ms / 1000
        )
        self.commits = Commits(
            config,
            self.coordinator,
            partitions,
            metadata,
            random,
            read_identity=self.commit_identity,
            seconds_since_poll=self.seconds_since_poll,
        )
        self.committed = Committed(config, self.coordinator, partitions, metadata, random)
        self.auto_commit = AutoCommit(config, partitions, self.commits) if config.enable_auto_commit else None
        self.revocation = PartitionRevocation(
            partitions, self.commits, self.auto_commit, lambda: self.subscription.listener
        )
        self.role = ConsumerRole(config, assignors, self.subscription, partitions, metadata, self.revocation)
        identity = Identity(group_id, group_instance_id=config.group_instance_id)
        self.member = ClassicMember(config, identity, self.role, self.coordinator, random)
        self.commits.on_membership_error = self.member.expelled
        self._polled_at: float | None = None
        #: While a ``poll`` runs: the seconds from the start of the previous poll to the start of this one; else None.
        self._away: float | None = None

    def managers(self) -> tuple[Manager, ...]:
        """Return the managers in the order of their steps.

        The coordinator comes after the managers that need it, so that its search begins in the same step.
        """
        callbacks = ManagerParts("group callbacks", lambda now: [], wake_at=self._callbacks_wake_at)
        return self.member, self.commits, self.committed, self.coordinator, callbacks

    def topics(self) -> frozenset[str]:
        """Return the topics that metadata is needed for."""
        return self.role.topics() if self.subscription.is_subscribed else frozenset()

    @property
    def matches_nothing(self) -> bool:
        """Whether the subscription is a pattern that no topic of the cluster matches."""
        return self.wants_all_topics and self._metadata.has_listed and not self.role.own_topics()

    @property
    def wants_all_topics(self) -> bool:
        """Whether the subscription is a pattern, which needs metadata of all topics."""
        return self.subscription.mode is Mode.PATTERN

    def _callbacks_wake_at(self, now: float) -> float:
        """Return when a revocation stops waiting for commits, or an auto-commit is due."""
        due = self.revocation.waiting_until(now)
        return due if self.auto_commit is None else min(due, self.auto_commit.wake_at(now))

    def poll_begins(self, now: float) -> bool:
        """Call :meth:`polled`; until :meth:`poll_ends`, commit errors give the time between the last two polls."""
        self._away = None if self._polled_at is None else now - self._polled_at
        return self.polled(now)

    def poll_ends(self) -> None:
        self._away = None

    def polled(self, now: float) -> bool:
        """Note that the user polls: records of earlier polls count as processed, and may be auto-committed.

        Returns whether a manager has to step because of it.
        """
        self._polled_at = now
        is_back = self.member.called(now)  # first: after a long gap it sets ``held``, which stops auto-commits
        is_back = self.member.polled(now) or is_back
        if self.auto_commit is None or self.member.held is not None:
            return is_back
        return self.auto_commit.poll(now) or is_back

    def has_work(self, now: float) -> bool:
        """Return whether a role method, which may call the listener or an assignor, is due."""
        return self.member.has_work(now) and self.revocation.waiting_until(now) == NEVER

    def work(self, now: float, *, every: bool) -> bool:
        """Call the role method that is due. Exceptions of user code propagate.

        Return False if no method was due, or if the method is not done and will be called again; else True.

        Without ``every``, run only what JoinGroup and SyncGroup need, such as the leader's assignment; no listeners.
        """
        return self.member.has_work(now, every=every) and self.member.work(now, every=every)

    def errors(self) -> Iterable[KafkaError]:
        """Yield the errors in the group's responses that the application has to act on."""
        for error in (self.member.error, self.coordinator.error, self.committed.error):
            if error is not None:
                yield error

    @property
    def is_settled(self) -> bool:
        """Whether the member has its assignment, and no rebalance is in progress."""
        return self.member.state is MemberState.STABLE

    def commit_identity(self) -> CommitIdentity:
        """Return the member id, generation and rebalance state that apply to a commit made now."""
        if not self.subscription.is_subscribed:
            return CommitIdentity(Identity(self.coordinator.group_id))
        member = self.member
        return CommitIdentity(member.identity, True, member.rebalancing, member.awaits_rebalance_response)

    def seconds_since_poll(self, now: float) -> float | None:
        """Return the seconds since the last ``poll`` began; None if there was no poll.

        While a poll runs, return the seconds between the start of the previous poll and the start of this one.
        """
        if self._polled_at is None or self._away is not None:
            return self._away
        return now - self._polled_at

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of all partitions that have one, excluding the record that the user is processing."""
        return {p.tp: self._partitions.processed(p) for p in self._partitions if p.has_position}

    def subscribed(self) -> None:
        """Join the group after a subscription, unless the consumer is in it."""
        if self.member.state in (MemberState.UNSUBSCRIBED, MemberState.LEAVING):
            self.member.subscribe("the consumer subscribed")

    def assign_by_hand(self, tps: Collection[TopicPartition], now: float) -> None:
        """Assign partitions manually, starting at the group's committed offsets.

        Auto-commit the positions of removed partitions, as manual assignment has no revocation that would commit them.
        """
        self.subscription.assign()
        if self.auto_commit is not None:
            kept = set(tps)
            going = [p for p in self._partitions if p.tp not in kept]
            self.auto_commit.commit_now(going, now + self._config.default_api_timeout_ms / 1000, now)
        self._partitions.assign(tps, start=PositionState.AWAITING_COMMITTED)
