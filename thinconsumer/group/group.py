"""One consumer's group: the managers that the engine steps, and what the consumer's calls ask of them.

Owns the wiring and no decision: those are of discovery, membership, commits and the consumer's role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..assignors import GroupMetadata, PartitionAssignor
from ..calls import Call
from ..client import Manager, ManagerParts
from ..errors import KafkaError
from ..metadata import Metadata
from ..partitions import Partitions, PositionState
from ..timers import NEVER, Random
from ..types import OffsetAndMetadata, TopicPartition
from .auto_commit import AutoCommit
from .classic.member import ClassicMember
from .classic.states import MemberState
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
    """One consumer's group: coordinator, member, commits, and the consumer's role in it."""

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
        self.coordinator = Coordinator(config, group_id, metadata, random)
        self.commits = Commits(
            config, self.coordinator, self, metadata, random, seconds_since_poll=self.seconds_since_poll
        )
        self.committed = Committed(config, self.coordinator, partitions, metadata, random)
        self.auto_commit = AutoCommit(config, partitions, self.commits) if config.enable_auto_commit else None
        self.revocation = PartitionRevocation(
            partitions, self.commits, self.auto_commit, lambda: self.subscription.listener
        )
        self.role = ConsumerRole(config, assignors, self.subscription, partitions, metadata, self.revocation)
        identity = Identity(group_id, group_instance_id=config.group_instance_id)
        self.member = ClassicMember(config, identity, self.role, self.coordinator, random)
        self._polled_at: float | None = None
        self._away: float | None = None  #: In a poll: how long nobody had polled before it.

    # -- for the engine

    def managers(self) -> tuple[Manager, ...]:
        """Return the managers in the order in which they step: the others tell discovery whether they need it."""
        callbacks = ManagerParts("group callbacks", lambda now: [], wake_at=self._callbacks_wake_at)
        return self.member, self.commits, self.committed, self.coordinator, callbacks

    def topics(self) -> frozenset[str]:
        """Return the topics that metadata is needed for."""
        return self.role.topics() if self.subscription.is_subscribed else frozenset()

    def own_topics(self) -> frozenset[str]:
        """Return the topics that this consumer subscribes to."""
        return self.role.own_topics() if self.subscription.is_subscribed else frozenset()

    @property
    def matches_nothing(self) -> bool:
        """Whether topics are chosen by a pattern, and no topic of the cluster matches it."""
        return self.wants_all_topics and self._metadata.has_listed and not self.role.own_topics()

    @property
    def wants_all_topics(self) -> bool:
        """Whether topics are chosen by pattern."""
        return self.subscription.mode is Mode.PATTERN

    def _callbacks_wake_at(self, now: float) -> float:
        """Return when :meth:`work` or :meth:`polled` has something to do that no manager waits for."""
        due = self.revocation.waiting_until(now)
        return due if self.auto_commit is None else min(due, self.auto_commit.wake_at(now))

    # -- for the shell

    def poll_begins(self, now: float) -> None:
        """Note that a poll begins. What goes wrong in it comes from the time before, which is what errors then name."""
        self._away = None if self._polled_at is None else now - self._polled_at
        self.polled(now)

    def poll_ends(self) -> None:
        """Note that the poll is over."""
        self._away = None

    def polled(self, now: float) -> None:
        """Note that the user polls: what earlier polls returned counts as processed."""
        self._polled_at = now
        self.member.attended(now)  # first: after too long an absence a commit may be refused, and waits for the answer
        self.member.polled(now)
        if self.auto_commit is not None and self.member.held is None:
            self.auto_commit.poll(now)

    def has_work(self, now: float) -> bool:
        """Return whether users' code is due."""
        return self.member.has_work(now) and self.revocation.waiting_until(now) == NEVER

    def work(self, now: float, *, every: bool) -> bool:
        """Run one piece of users' code, and return whether that got us any further. What it raises comes out.

        Without ``every`` only what the rest of the group waits for: the leader's plan, not listeners.
        """
        return self.member.has_work(now, every=every) and self.member.work(now, every=every)

    def take_error(self) -> Exception | None:
        """Return what a listener has raised in a rebalance that went on nevertheless."""
        error, self.revocation.error = self.revocation.error, None
        return error

    def errors(self) -> Iterable[KafkaError]:
        """Return what the coordinator rejects, and the application has to act on."""
        for error in (self.member.error, self.coordinator.error, self.committed.error):
            if error is not None:
                yield error

    @property
    def is_settled(self) -> bool:
        """Whether we have the share that the group gives us, and no rebalance is on that we know of."""
        return self.member.state is MemberState.STABLE

    @property
    def held(self) -> str | None:
        """Why no records may be handed out now: we were away for so long that they may be somebody else's."""
        return self.member.held

    # -- for commits

    @property
    def identity(self) -> Identity:
        """Who we are to the coordinator now."""
        return self.member.identity

    @property
    def is_member(self) -> bool:
        """Whether commits are those of a member; by hand, nobody is."""
        return self.subscription.is_subscribed

    @property
    def rebalancing(self) -> bool:
        """Whether a join or a sync is due or out: what is said of the old generation may not be taken."""
        return self.member.rebalancing

    @property
    def is_asking(self) -> bool:
        """Whether a join or a sync is out, whose answer tells what has become of us."""
        return self.member.is_asking

    def expelled(self, error: KafkaError, identity: Identity, now: float) -> None:
        """Take what the coordinator said to a commit: we are not who we thought we are."""
        self.member.expelled(error, identity, now)

    def seconds_since_poll(self, now: float) -> float | None:
        """Return how long ago ``poll`` was called, in a poll: the one before it; None if it never was."""
        if self._polled_at is None or self._away is not None:
            return self._away
        return now - self._polled_at

    def owns(self, tp: TopicPartition) -> bool:
        """Return whether the partition is ours still."""
        return tp in self._partitions

    # -- for the consumer

    def metadata(self) -> GroupMetadata:
        """Return who we are, for transactional producers."""
        return GroupMetadata(*self.member.identity)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of all partitions that have one, without the record in hand."""
        return {p.tp: self._partitions.processed(p) for p in self._partitions if p.has_position}

    def ask_committed(self, tps: Iterable[TopicPartition]) -> Call[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Ask what is committed for these."""
        return self.committed.ask(tps)

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float, callback: Any = None
    ) -> Call[None]:
        """Have offsets committed; the call settles when they are, or cannot be."""
        return self.commits.add(offsets, deadline, callback)

    def subscribed(self) -> None:
        """Take part in the group from now on, if we do not already."""
        if self.member.state in (MemberState.UNSUBSCRIBED, MemberState.LEAVING):
            self.member.subscribe("the consumer subscribed")

    def assign_by_hand(self, tps: Collection[TopicPartition], now: float) -> None:
        """Read these, from where the group has committed. No rebalance commits for those that go."""
        self.subscription.assign()
        if self.auto_commit is not None:
            kept = set(tps)
            going = [p for p in self._partitions if p.tp not in kept]
            self.auto_commit.commit_now(going, now + self._config.default_api_timeout_ms / 1000, now)
        self._partitions.assign(tps, start=PositionState.AWAITING_COMMITTED)

    def leave(self, why: str, now: float, *, leave_group: bool | None = None) -> None:
        """Leave the group; what is owned has been given up before."""
        self.member.leave(why, now, leave_group=leave_group)
